//! Random numbers that need not be secret.

/// What the state of [`mixed`] grows by with each number.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number of a state: the second half of splitmix64, by Sebastiano Vigna.
pub fn mixed(state: u64) -> u64 {
    let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
