//! Exponential distances, in integers: there is no logarithm in `core`.

/// Binary places of a logarithm.
const PLACES: u32 = 24;
/// ln 2, in 2⁻³².
const LN_2: u64 = 2_977_044_472;

/// −ln of a number from (0, 1] that is uniform if the bits of `random` are, in 2⁻²⁴.
///
/// The binary logarithm of a number from 1 to 2 is found digit by digit: squaring it doubles its logarithm, and the digit is
/// 1 if the square is 2 or more.
fn exponential(random: u64) -> u64 {
    let uniform = random | 1;
    let shift = uniform.leading_zeros();
    let mut mantissa = uniform << shift; // 1 to 2, in 2⁻⁶³
    let mut log = 0u64;
    for _ in 0..PLACES {
        let square = (u128::from(mantissa) * u128::from(mantissa)) >> 63;
        let digit = square >> 64;
        mantissa = (square >> digit) as u64;
        log = log << 1 | digit as u64;
    }
    let log = (u64::from(shift + 1) << PLACES) - log;
    ((u128::from(log) * u128::from(LN_2)) >> 32) as u64
}

/// A distance in bytes, exponential with `interval` for a mean.
pub fn distance(random: u64, interval: u64) -> u64 {
    ((u128::from(exponential(random)) * u128::from(interval)) >> PLACES) as u64
}

/// exp(−x), for x ≥ 0: that of a small part of x, squared as often as that was halved.
fn exp_of_minus(mut x: f64) -> f64 {
    let mut halved = 0;
    while x > 1.0 / 64.0 && halved < 32 {
        (x, halved) = (x / 2.0, halved + 1);
    }
    let small = 1.0 - x * (1.0 - x / 2.0 * (1.0 - x / 3.0 * (1.0 - x / 4.0)));
    (0..halved).fold(small, |y, _| y * y)
}

/// How many samples at `interval` each one at `interval << shift` stands for, of blocks of `size` bytes: the ratio of what the
/// two are taken with, (1 − q²ⁿ) / (1 − qⁿ) = 1 + qⁿ for each doubling.
pub fn samples_of_one(size: u64, interval: u64, shift: u32) -> f64 {
    let mut q = exp_of_minus(size as f64 / (interval << shift) as f64);
    let mut ratio = 1.0;
    for _ in 0..shift {
        ratio *= 1.0 + q;
        q *= q;
    }
    ratio
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn logarithms_are_those_of_the_standard_library() {
        let mut random = 1u64;
        for _ in 0..10_000 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            // All magnitudes.
            let bits = random >> (random % 63);
            let want = -((bits | 1) as f64 / 2f64.powi(64)).ln();
            let got = exponential(bits) as f64 / f64::from(1 << PLACES);
            assert!((got - want).abs() < 2e-7, "{bits:#x}: {got} for {want}");
        }
        assert_eq!(exponential(u64::MAX), 0);
    }

    #[test]
    fn samples_at_a_longer_interval_stand_for_more() {
        for size in [8u64, 640, 65_536, 1 << 19, 100 << 20, 1 << 40] {
            for shift in 0..=10 {
                let p = |interval: u64| -(-(size as f64) / interval as f64).exp_m1();
                let (got, want) = (samples_of_one(size, 1 << 19, shift), p(1 << 19) / p(1 << 19 << shift));
                assert!((got / want - 1.0).abs() < 1e-6, "{size}, {shift}: {got} for {want}");
            }
        }
    }

    #[test]
    fn distances_are_exponential() {
        const N: usize = 100_000;
        let mut state = 7u64;
        let mut all = std::vec::Vec::new();
        for _ in 0..N {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            all.push(distance(z ^ z >> 31, 1 << 19) as f64 / f64::from(1 << 19));
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
