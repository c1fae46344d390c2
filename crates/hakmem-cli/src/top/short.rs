//! Numbers in few characters: three digits that count and a unit, so that a column is narrow and
//! nothing is cut.

use crate::summary::grouped;
use std::time::Duration;

const THOUSANDS: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
const BYTES: [&str; 6] = [" KiB", " MiB", " GiB", " TiB", " PiB", " EiB"];

/// A count: each digit up to 9,999, then 15.8k, 2.02M. Five characters at most.
pub fn count(number: u64) -> String {
    match number {
        0..10_000 => grouped(number),
        _ => scaled(number as f64, 1000.0, &THOUSANDS, 2),
    }
}

/// Bytes: 512 B, 1.2 MiB, 400 KiB. Eight characters at most.
pub fn bytes(number: u64) -> String {
    match number {
        0..1024 => format!("{number} B"),
        _ => scaled(number as f64, 1024.0, &BYTES, 1),
    }
}

/// What a rate is shown as; before there is one, a dash.
pub fn rate(value: Option<f64>) -> String {
    match value {
        Some(value) if value < 9.95 => format!("{:.1}", value.max(0.0)),
        Some(value) => count(value.round() as u64),
        None => "-".into(),
    }
}

/// A time that went by.
pub fn time(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        s @ 10..120 => format!("{s} s"),
        s @ 120..7200 => format!("{} min", s / 60),
        s => format!("{} h", s / 3600),
    }
}

/// Three digits in the first unit in which the rounded number is below a step; of the last unit in
/// any case.
fn scaled(number: f64, step: f64, units: &[&str], decimals: usize) -> String {
    let mut value = number;
    for (i, unit) in units.iter().enumerate() {
        value /= step;
        let decimals = match value {
            ..9.995 => decimals,
            ..99.95 => 1,
            _ => 0,
        };
        if value < step - 0.5 || i == units.len() - 1 {
            return format!("{value:.decimals$}{unit}");
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        let counts = [
            0, 9_999, 15_822, 99_949, 99_951, 999_499, 999_500, 2_023_256,
        ];
        let texts = [
            "0", "9,999", "15.8k", "99.9k", "100k", "999k", "1.00M", "2.02M",
        ];
        assert_eq!(counts.map(count), texts);
        let sizes = [
            0,
            1023,
            1024,
            409_600,
            1_048_063,
            1_048_064,
            1_258_291,
            u64::MAX,
        ];
        let texts = [
            "0 B", "1023 B", "1.0 KiB", "400 KiB", "1023 KiB", "1.0 MiB", "1.2 MiB", "16.0 EiB",
        ];
        assert_eq!(sizes.map(bytes), texts);
        let rates = [None, Some(0.04), Some(9.94), Some(9.96), Some(2_023_256.4)];
        assert_eq!(rates.map(rate), ["-", "0.0", "9.9", "10", "2.02M"]);
        assert_eq!(count(u64::MAX), "18.4E");
        assert_eq!(
            [3.25, 36.9, 300.0, 7300.0].map(|s| time(Duration::from_secs_f64(s))),
            ["3.2 s", "36 s", "5 min", "2 h"]
        );
    }
}
