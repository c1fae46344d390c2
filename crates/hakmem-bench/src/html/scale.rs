//! Axes: where a value lies, and which values are marked.

/// How values are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spacing {
    /// Equal differences take equal room.
    Linear,
    /// Equal ratios take equal room.
    Log,
}

/// One axis.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    low: f64,
    high: f64,
    spacing: Spacing,
}

impl Scale {
    /// From zero to a round number not below `highest`.
    pub fn from_zero(highest: f64) -> Self {
        let step = step_for(highest);
        Self {
            low: 0.0,
            high: ((highest / step).ceil() * step).max(step),
            spacing: Spacing::Linear,
        }
    }

    /// From `low` to `high` in equal ratios; both above zero.
    pub fn log(low: f64, high: f64) -> Self {
        let low = low.max(f64::MIN_POSITIVE);
        Self {
            low,
            high: if high > low { high } else { low * 2.0 },
            spacing: Spacing::Log,
        }
    }

    /// From `low` to `high` in equal differences.
    pub fn linear(low: f64, high: f64) -> Self {
        Self {
            low,
            high: if high > low { high } else { low + 1.0 },
            spacing: Spacing::Linear,
        }
    }

    /// How it spreads values.
    pub fn spacing(&self) -> Spacing {
        self.spacing
    }

    /// Whether a value lies beyond the upper end.
    pub fn is_beyond(&self, value: f64) -> bool {
        // Rounding in the bounds must not push out the value that they were made for.
        value > self.high * (1.0 + 1e-9)
    }

    /// Where a value lies, from 0 to 1; what is outside, at the end it is beyond.
    pub fn at(&self, value: f64) -> f64 {
        let share = match self.spacing {
            Spacing::Linear => (value - self.low) / (self.high - self.low),
            Spacing::Log => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        share.clamp(0.0, 1.0)
    }

    /// Values to mark: some five on a linear axis; on a logarithmic one powers of two
    /// or of ten.
    pub fn ticks(&self) -> Vec<f64> {
        match self.spacing {
            Spacing::Linear => {
                let step = step_for(self.high - self.low);
                let first = (self.low / step).ceil() as i64;
                let last = (self.high / step * (1.0 + 1e-9)).floor() as i64;
                (first..=last).map(|i| i as f64 * step).collect()
            }
            Spacing::Log => {
                let doublings = (self.high / self.low).log2();
                // Around 1 are ratios, which people think of in halves and doubles.
                let ratios = self.low <= 1.0 && self.high >= 1.0;
                if ratios && doublings < 3.0 {
                    return self.per_power(2.0, &[1.0, 1.5]);
                }
                if !ratios && doublings < 7.0 {
                    return self.per_power(10.0, &[1.0, 2.0, 5.0]);
                }
                // Powers of 2, 10, 100 … whatever leaves at most eight.
                let bases = [2.0, 10.0, 100.0, 1e4];
                let fits =
                    |base: &f64| (ratios || *base > 2.0) && doublings / base.log2() <= 7.0 + 1e-9;
                let base: f64 = bases.into_iter().find(|b| fits(b)).unwrap_or(1e6);
                let power = |v: f64| v.ln() / base.ln();
                let first = (power(self.low) - 1e-9).ceil() as i32;
                let last = (power(self.high) + 1e-9).floor() as i32;
                (first..=last).map(|i| base.powi(i)).collect()
            }
        }
    }

    /// These multiples of every power of `base`, for short logarithmic axes.
    fn per_power(&self, base: f64, multiples: &[f64]) -> Vec<f64> {
        let first = (self.low.ln() / base.ln()).floor() as i32;
        let last = (self.high.ln() / base.ln()).ceil() as i32;
        (first..=last)
            .flat_map(|i| multiples.iter().map(move |m| m * base.powi(i)))
            .filter(|v| (self.low..=self.high).contains(v))
            .collect()
    }
}

/// A step of 1, 2 or 5 times a power of ten that divides `range` into at most five.
fn step_for(range: f64) -> f64 {
    if !range.is_finite() || range <= 0.0 {
        return 1.0;
    }
    let rough = range / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|s| s * power >= rough * (1.0 - 1e-9));
    step.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_ends_at_a_round_number() {
        let scale = Scale::from_zero(653.0);
        assert_eq!(scale.ticks(), [0.0, 200.0, 400.0, 600.0, 800.0]);
        assert!((scale.at(400.0) - 0.5).abs() < 1e-12);
        assert_eq!(Scale::from_zero(0.0).at(0.0), 0.0);
        assert!(Scale::from_zero(f64::NAN).at(1.0).is_finite());
    }

    #[test]
    fn a_log_axis_spreads_ratios_evenly() {
        let scale = Scale::log(0.25, 4.0);
        assert_eq!(scale.ticks(), [0.25, 0.5, 1.0, 2.0, 4.0]);
        assert_eq!(Scale::log(900.0, 5100.0).ticks(), [1e3, 2e3, 5e3]);
        assert_eq!(Scale::log(0.7, 2.1).ticks(), [0.75, 1.0, 1.5, 2.0]);
        assert!((scale.at(1.0) - 0.5).abs() < 1e-12);
        assert_eq!((scale.at(0.0), scale.at(99.0)), (0.0, 1.0));
        assert!(scale.is_beyond(4.1) && !scale.is_beyond(4.0));
        assert_eq!(Scale::log(1e3, 1e7).ticks(), [1e3, 1e4, 1e5, 1e6, 1e7]);
    }

    #[test]
    fn axes_of_one_value_still_have_a_length() {
        for scale in [Scale::log(5.0, 5.0), Scale::linear(5.0, 5.0)] {
            assert!(scale.at(5.0).is_finite());
            assert!(!scale.ticks().is_empty(), "{scale:?}");
        }
    }
}
