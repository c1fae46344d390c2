//! Figures as people read them.

/// A figure with three significant digits: `0.55`, `12.3`, `4 567`, `1.2 M` from ten million on.
pub fn figure(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "–".to_owned();
    }
    match size {
        _ if size == 0.0 => "0".to_owned(),
        _ if size < 0.01 => format!("{value:.4}"),
        _ if size < 1.0 => format!("{value:.3}"),
        _ if size < 10.0 => format!("{value:.2}"),
        _ if size < 100.0 => format!("{value:.1}"),
        _ if size < 1e7 => grouped(value),
        _ => compact(value),
    }
}

/// A ratio: two decimals, or fewer where they would say nothing.
pub fn ratio(value: f64) -> String {
    match value {
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => grouped(v),
    }
}

/// A mark on an axis: as short as it can be.
pub fn tick(value: f64) -> String {
    if value.abs() >= 10_000.0 {
        return compact(value);
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A whole number with thin spaces between thousands.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "−" } else { "" });
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

fn compact(value: f64) -> String {
    let (unit, letter) = match value.abs() {
        v if v >= 1e9 => (1e9, "G"),
        v if v >= 1e6 => (1e6, "M"),
        _ => (1e3, "k"),
    };
    let text = format!("{:.1}", value / unit);
    format!("{}\u{202f}{letter}", text.trim_end_matches(".0"))
}

/// Seconds since 1970 as a date and time in UTC.
pub fn date(unix_time: u64) -> String {
    i64::try_from(unix_time)
        .ok()
        .and_then(|s| jiff::Timestamp::from_second(s).ok())
        .map_or_else(
            || "unknown".to_owned(),
            |t| t.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_about_three_digits() {
        let cases = [
            (0.5544, "0.554"),
            (4.699, "4.70"),
            (66.486, "66.5"),
            (4567.0, "4\u{202f}567"),
            (12_345_678.0, "12.3\u{202f}M"),
            (f64::NAN, "–"),
        ];
        for (value, text) in cases {
            assert_eq!(figure(value), text);
        }
        assert_eq!(ratio(0.946), "0.95");
        assert_eq!(
            (tick(0.25), tick(200.0), tick(1e6)),
            ("0.25".into(), "200".into(), "1\u{202f}M".into())
        );
    }

    #[test]
    fn dates_are_of_the_calendar() {
        assert_eq!(date(1_795_270_422), "2026-11-21 14:13 UTC");
        assert_eq!(date(u64::MAX), "unknown");
    }
}
