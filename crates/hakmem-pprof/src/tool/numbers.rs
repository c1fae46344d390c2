//! Numbers for a person to read.

/// With a comma between groups of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.char_indices() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub fn bytes(number: u64) -> String {
    scaled(
        number,
        &[
            (1 << 30, "GiB"),
            (1 << 20, "MiB"),
            (1 << 10, "KiB"),
            (1, "B"),
        ],
    )
}

pub fn duration(nanos: u64) -> String {
    scaled(
        nanos,
        &[
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1_000, "µs"),
            (1, "ns"),
        ],
    )
}

fn scaled(number: u64, units: &[(u64, &str)]) -> String {
    let &(scale, unit) = units
        .iter()
        .find(|(scale, _)| number >= *scale)
        .unwrap_or(&units[units.len() - 1]);
    let decimals = usize::from(scale > 1);
    format!("{:.decimals$} {unit}", number as f64 / scale as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(grouped),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [0, 1023, 1536, 3 << 20, 5 << 30].map(bytes),
            ["0 B", "1023 B", "1.5 KiB", "3.0 MiB", "5.0 GiB"]
        );
        assert_eq!(
            [12, 1500, 2_000_000, 3_500_000_000].map(duration),
            ["12 ns", "1.5 µs", "2.0 ms", "3.5 s"]
        );
    }
}
