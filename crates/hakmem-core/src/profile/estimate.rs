//! Exponential distances between samples, and how many samples one stands for. `core` lacks the
//! functions of floating-point numbers for it, so they are here.

/// −ln of a number from (0, 1]. The number is uniform if the bits of `random` are.
///
/// It is 2⁻ⁿ m, and ln m = 2 artanh((m − 1) / (m + 1)), a series with few terms for m near 1.
fn exponential(random: u64) -> f64 {
    const ONE: u64 = 1 << 52;
    let uniform = random | 1;
    let zeros = uniform.leading_zeros();
    // From 1 to 2: the leading 1 goes, and the exponent becomes that of 1.
    let fraction = (uniform << zeros << 1) >> 12;
    let mut m = f64::from_bits(1f64.to_bits() | fraction & (ONE - 1));
    let mut n = f64::from(zeros + 1);
    if m > core::f64::consts::SQRT_2 {
        (m, n) = (m / 2.0, n - 1.0);
    }
    let t = (m - 1.0) / (m + 1.0);
    let square = t * t;
    let series =
        [11.0, 9.0, 7.0, 5.0, 3.0, 1.0].iter().fold(0.0, |sum, odd| sum * square + 1.0 / odd);
    n * core::f64::consts::LN_2 - 2.0 * t * series
}

/// A distance in bytes: exponential, with the mean `interval`.
pub fn distance(random: u64, interval: u64) -> u64 {
    (exponential(random) * interval as f64) as u64
}

/// 1 − exp(−x), for x ≥ 0. It halves x until x is small. From p for x / 2 follows p (2 − p) for x.
fn hit(mut x: f64) -> f64 {
    let mut halved = 0;
    while x > 1.0 / 64.0 && halved < 64 {
        (x, halved) = (x / 2.0, halved + 1);
    }
    let small = x * (1.0 - x / 2.0 * (1.0 - x / 3.0 * (1.0 - x / 4.0 * (1.0 - x / 5.0))));
    (0..halved).fold(small, |p, _| p * (2.0 - p))
}

/// How many samples at `interval` one sample at the interval `drawn` stands for, of blocks of
/// `size` bytes: the ratio of the probabilities that such a block is a sample.
pub fn samples_of_one(size: u64, interval: u64, drawn: u64) -> f64 {
    hit(size as f64 / interval as f64) / hit(size as f64 / drawn as f64)
}

/// How many bytes one sample at `interval` stands for, of blocks of `size` bytes.
pub fn bytes_of_one(size: u64, interval: u64) -> u64 {
    let hit = hit(size as f64 / interval as f64);
    (size as f64 / hit + 0.5) as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;
    use super::*;
    use crate::base::random;

    #[test]
    fn logarithms_are_those_of_the_standard_library() {
        let mut random = 1u64;
        for _ in 0..10_000 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            // Numbers of all magnitudes.
            let bits = random >> (random % 63);
            let want = -((bits | 1) as f64 / 2f64.powi(64)).ln();
            let got = exponential(bits);
            assert!((got - want).abs() < 1e-9, "{bits:#x}: {got} for {want}");
        }
        assert!(exponential(u64::MAX).abs() < 1e-9);
        assert_eq!(distance(u64::MAX, 1 << 19), 0);
    }

    #[test]
    fn samples_at_another_interval_stand_for_more_or_less() {
        for size in [8u64, 640, 65_536, 1 << 19, 100 << 20, 1 << 40] {
            for drawn in [1, 1000, 1 << 19, 1 << 20, 1 << 29, 1 << 40] {
                let p = |interval: u64| -(-(size as f64) / interval as f64).exp_m1();
                let (got, want) = (samples_of_one(size, 1 << 19, drawn), p(1 << 19) / p(drawn));
                assert!((got / want - 1.0).abs() < 1e-9, "{size}, {drawn}: {got} for {want}");
            }
        }
    }

    #[test]
    fn a_sample_stands_for_its_bytes_and_those_of_the_others() {
        for size in [8u64, 640, 65_536, 1 << 19, 100 << 20] {
            for interval in [1, 4096, 1 << 19, 1 << 29] {
                let want = size as f64 / -(-(size as f64) / interval as f64).exp_m1();
                let got = bytes_of_one(size, interval) as f64;
                assert!(
                    (got - want).abs() < 0.51 + want * 1e-6,
                    "{size}, {interval}: {got} for {want}"
                );
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic alone, and much of it")]
    fn distances_are_exponential() {
        const N: usize = 100_000;
        let mut state = 7u64;
        let mut all = std::vec::Vec::new();
        for _ in 0..N {
            state = state.wrapping_add(random::STEP);
            all.push(distance(random::mixed(state), 1 << 19) as f64 / f64::from(1 << 19));
        }
        let mean = all.iter().sum::<f64>() / N as f64;
        let variance = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / N as f64;
        assert!((mean - 1.0).abs() < 0.02 && (variance - 1.0).abs() < 0.05, "{mean}, {variance}");
        let beyond = |x: f64| all.iter().filter(|&&d| d > x).count() as f64 / N as f64;
        for x in [0.1f64, 0.5, 1.0, 2.0, 4.0] {
            assert!((beyond(x) - (-x).exp()).abs() < 0.01, "beyond {x}: {}", beyond(x));
        }
    }
}
