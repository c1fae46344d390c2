//! The secret of the process, and links that it encodes.
//!
//! A free list leads through memory that the program can write after a free. A link that is not
//! encoded lets one such write choose what a later allocation returns. An encoded one becomes a
//! random address, which `Block::next` refuses.

use crate::base::sync::{Ordering::Relaxed, plain::AtomicUsize};
use crate::harden::{ON, has};
use crate::os;

/// The secret. Written once, before the first block exists. `hakmem stat --pid` reads it from
/// outside, to follow lists.
pub static KEY: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Draws the secret, if that was not done: when the process starts, or before the first arena is
/// reserved. Before that no block exists. The caller holds the lock of arenas.
pub fn draw() {
    if ON && KEY[1].load(Relaxed) == 0 {
        let [a, b] = os::random();
        KEY[0].store(a, Relaxed);
        // Odd: to multiply by it loses nothing.
        KEY[1].store(b | 1, Relaxed);
    }
}

/// A number that depends on `address` and on the secret. Its bit `i` depends on bits 0 to `i`.
#[inline(always)]
pub fn mask(address: usize) -> usize {
    (address ^ KEY[0].load(Relaxed)).wrapping_mul(KEY[1].load(Relaxed))
}

/// A number whose upper half depends on all of `number` and on the secret.
#[inline(always)]
pub fn spread(number: usize) -> usize {
    number.wrapping_mul(KEY[1].load(Relaxed))
}

/// Encodes the link at `at`, or decodes it. The same link is another word in each page.
#[inline(always)]
pub fn link(at: usize, link: usize) -> usize {
    // Of a broken link the upper bits must be those of the segment, and they depend on all.
    if has::LINKS { link ^ mask(at >> 16) } else { link }
}

/// True if a list may lead from the block at `at` to the one at `to`: both are in one segment, and
/// multiples of 16. So of the links whose lowest byte was overwritten, one in 16 passes.
#[inline(always)]
pub fn is_near(at: usize, to: usize) -> bool {
    const DIFFERENT: usize = !((2 << 20) - 1) | 15;
    (at ^ to) & DIFFERENT == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_stays_in_the_segment_and_leads_to_no_odd_address() {
        let at = 0x7f12_3460_0000;
        assert!([0, 16, 0x1f_fff0].iter().all(|offset| is_near(at, at + offset)));
        assert!([1, 8, 15, 0x20_0000, 1 << 46].iter().all(|offset| !is_near(at, at + offset)));
        assert!(!is_near(at, at - 16));
    }
}
