//! The median of a few values and an interval for the median of what they were drawn from, by the
//! sign test: nothing is assumed of their distribution but that they are independent.
//!
//! A value is below the true median with probability 1/2, so the number of values below it is
//! binomial, and the interval from the k-th smallest to the k-th largest misses it with probability
//! 2 P(B < k).

use crate::stats::median;
use serde::{Deserialize, Serialize};

/// The fewest values for which there is an interval: with five, all lie on one side of the median
/// in 6 of 100 cases.
pub const FEWEST: u32 = 6;
/// At most as often an interval may miss.
const MISSES: f64 = 0.05;

/// A median, and where the true one lies with a probability of at least 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Estimate {
    /// Of `values`; `None` if they are fewer than [`FEWEST`].
    pub fn of(values: &[f64]) -> Option<Self> {
        let rank = rank(values.len())?;
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            median: median(&sorted)?,
            low: sorted[rank - 1],
            high: sorted[sorted.len() - rank],
        })
    }

    /// Whether the interval lies on one side of `value`.
    pub fn excludes(&self, value: f64) -> bool {
        self.high < value || self.low > value
    }
}

/// The largest k for which the interval from the k-th smallest to the k-th largest of `n` values
/// misses seldom enough.
fn rank(n: usize) -> Option<usize> {
    // P(B = 0), then P(B = 1), …: each from the one before.
    let mut probability = 0.5_f64.powi(i32::try_from(n).ok()?);
    let mut below = 0.0;
    let mut rank = 0;
    while rank < n / 2 {
        below += probability;
        if 2.0 * below > MISSES {
            break;
        }
        rank += 1;
        probability *= (n - rank + 1) as f64 / rank as f64;
    }
    (rank > 0).then_some(rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// From tables of the sign test at 5 %, two-sided.
    #[test]
    fn ranks_are_those_of_published_tables() {
        for (n, expected) in [
            (6, 1),
            (8, 1),
            (9, 2),
            (11, 2),
            (12, 3),
            (15, 4),
            (20, 6),
            (25, 8),
            (50, 18),
            (100, 40),
        ] {
            assert_eq!(rank(n), Some(expected), "{n} values");
        }
        assert!((0..FEWEST as usize).all(|n| rank(n).is_none()));
        assert!(rank(1000).is_some_and(|k| (465..=475).contains(&k)));
    }

    #[test]
    fn the_ends_are_values_and_hold_the_median() {
        let values = [1.3, 0.9, 1.0, 1.1, 1.2, 0.8, 5.0, 0.1, 1.05];
        let e = Estimate::of(&values).expect("nine values");
        assert_eq!((e.low, e.median, e.high), (0.8, 1.05, 1.3));
        assert!(!e.excludes(1.0) && e.excludes(0.7) && e.excludes(1.31));
        assert!(!e.excludes(0.8) && !e.excludes(1.3));
        assert_eq!(Estimate::of(&values[..5]), None);
    }

    /// The oracle is the definition: of many samples with a known median, so many intervals hold
    /// it.
    #[test]
    fn intervals_hold_the_true_median_as_often_as_they_say() {
        let mut rng = Rng::new(7);
        for n in [6, 15, 40] {
            let mut held = 0;
            for _ in 0..4000 {
                // Skewed, with median 1: the square of what is even on 0 to 2.
                let values: Vec<f64> = (0..n)
                    .map(|_| (rng.below(2_000_001) as f64 / 1e6).powi(2))
                    .collect();
                held += u32::from(!Estimate::of(&values).expect("enough").excludes(1.0));
            }
            let share = f64::from(held) / 4000.0;
            assert!((0.945..0.985).contains(&share), "{share} of {n} values");
        }
    }
}
