//! The few statistics a comparison needs.

/// The median; of an even number of values, the mean of the two in the middle. `None` without
/// values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some((sorted[sorted.len() / 2 - 1] + upper) / 2.0)
}

/// The geometric mean of positive values. `None` without values.
pub fn geomean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let logs: f64 = values.iter().map(|v| v.ln()).sum();
    Some((logs / values.len() as f64).exp())
}

/// How far values lie from their median, in the median: the median absolute deviation relative to
/// it. Unlike a standard deviation it does not jump when one run in ten was disturbed. `None`
/// without values, or if they are zero.
pub fn spread(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    let deviations: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    let spread = median(&deviations)? / middle;
    spread.is_finite().then_some(spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_even_and_none() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn geomean_of_a_ratio_and_its_inverse_is_one() {
        let g = geomean(&[4.0, 0.25, 1.0]).expect("three values");
        assert!((g - 1.0).abs() < 1e-12);
        let g = geomean(&[2.0, 8.0]).expect("two values");
        assert!((g - 4.0).abs() < 1e-12);
        assert_eq!(geomean(&[]), None);
    }

    #[test]
    fn spread_ignores_one_outlier() {
        assert_eq!(spread(&[10.0, 10.0, 10.0, 10.0, 90.0]), Some(0.0));
        assert_eq!(spread(&[8.0, 10.0, 12.0]), Some(0.2));
        assert_eq!(spread(&[0.0, 0.0]), None);
        assert_eq!(spread(&[]), None);
    }
}
