//! Whether a figure stays where it is: medians of stretches of time, compared with the first.

use hakmem_bench::stats::median;

/// Stretches that the time after the start-up is divided into.
pub const WINDOWS: usize = 5;
/// A later median may be so much above the first.
pub const TOLERANCE: f64 = 0.10;

/// One figure over time.
#[derive(Debug)]
pub struct Flatness {
    /// First and last second of each stretch, and its median.
    pub windows: Vec<(u64, u64, f64)>,
    /// The highest later median relative to the first.
    pub highest: f64,
}

impl Flatness {
    /// Of `points` (second, value) from second `from` on. `None` with too few of them.
    pub fn new(points: &[(u64, f64)], from: u64) -> Option<Self> {
        let late: Vec<_> = points.iter().filter(|p| p.0 > from).copied().collect();
        let length = late.len() / WINDOWS;
        if length == 0 {
            return None;
        }
        let window = |part: &[(u64, f64)]| {
            let values: Vec<f64> = part.iter().map(|p| p.1).collect();
            Some((part.first()?.0, part.last()?.0, median(&values)?))
        };
        // The newest points count; those that do not fill a stretch are the oldest.
        let windows: Option<Vec<_>> = late[late.len() - length * WINDOWS..]
            .chunks(length)
            .map(window)
            .collect();
        let windows = windows?;
        let first = windows.first()?.2;
        let highest = windows[1..].iter().map(|w| w.2 / first).fold(0.0, f64::max);
        Some(Self { windows, highest })
    }

    /// Whether no later median is above the first by more than the tolerance.
    pub fn is_flat(&self) -> bool {
        self.highest <= 1.0 + TOLERANCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: impl Fn(u64) -> f64) -> Flatness {
        let points: Vec<_> = (1..=1000).map(|s| (s, value(s))).collect();
        Flatness::new(&points, 300).expect("many points")
    }

    #[test]
    fn growth_is_found_and_waves_are_not_growth() {
        assert!(of(|s| if s % 10 < 8 { 100.0 } else { 40.0 }).is_flat());
        assert!(
            of(|s| 100.0 + 50.0 * f64::from(s <= 300)).is_flat(),
            "the start-up does not count"
        );
        assert!(of(|s| 200.0 - s as f64 / 10.0).is_flat(), "falling");
        let leak = of(|s| 100.0 + s as f64 / 20.0);
        assert!(!leak.is_flat() && leak.highest > 1.2, "{leak:?}");
        assert!(!of(|s| 100.0 + 30.0 * f64::from(s > 800)).is_flat(), "late");
    }

    #[test]
    fn too_short_a_time_proves_nothing() {
        assert!(Flatness::new(&[(301, 1.0), (302, 1.0)], 300).is_none());
    }
}
