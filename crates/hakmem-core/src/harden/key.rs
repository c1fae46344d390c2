//! The secret of the process, and links that it encodes.
//!
//! A free list leads through memory that the program can write after a free. A link that is not
//! encoded lets one such write choose what a later allocation returns. An encoded one becomes a
//! random address, which `Block::next` refuses.

use crate::base::sync::{Ordering::Relaxed, plain::AtomicUsize};
use crate::harden::{ON, has};
use crate::os;

/// The secret: a number, an odd one, and what that is multiplied by to give 1. Written once, before
/// the first block exists. `hakmem stat --pid` reads it from outside, to follow lists.
pub static KEY: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// Draws the secret, if that was not done: when the process starts, or before the first arena is
/// reserved. Before that no block exists. The caller holds the lock of arenas.
pub fn draw() {
    if ON && KEY[1].load(Relaxed) == 0 {
        let [a, b] = os::random();
        KEY[0].store(a, Relaxed);
        KEY[2].store(inverse(b | 1), Relaxed);
        // Odd: to multiply by it loses nothing. Last, as it says that all are drawn.
        KEY[1].store(b | 1, Relaxed);
    }
}

/// The number that gives 1 if `odd` is multiplied by it.
const fn inverse(odd: usize) -> usize {
    // Three bits are right at first: the square of an odd number ends in 001. Each step doubles
    // them.
    let mut inverse = odd;
    let mut bits = 3;
    while bits < usize::BITS {
        inverse = inverse.wrapping_mul(2_usize.wrapping_sub(odd.wrapping_mul(inverse)));
        bits *= 2;
    }
    inverse
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

/// A number that depends on both, and on the secret. Known changes of the two below their bit 61 do
/// not keep it: that takes the square of the secret number.
#[inline(always)]
pub fn spread_both(a: usize, b: usize) -> usize {
    spread(b).wrapping_add(a.wrapping_mul(KEY[2].load(Relaxed)))
}

/// Encodes a link for the block at `at`. The same link is another word in each block.
///
/// A write that changes the word by a known number changes the link by an unknown one, as the
/// product of the two depends on the secret. So nobody can turn a link by the distance of two
/// blocks. A word of another block is no link here, as the masks of the two blocks differ in bits
/// that the secret gives.
#[inline(always)]
pub fn encoded(at: usize, link: usize) -> usize {
    if has::LINKS { spread(link ^ mask(at)) } else { link }
}

/// The link that a word in the block at `at` stands for.
#[inline(always)]
pub fn decoded(at: usize, word: usize) -> usize {
    if has::LINKS { word.wrapping_mul(KEY[2].load(Relaxed)) ^ mask(at) } else { word }
}

/// True if a list may lead from the block at `at` to the one at `to`: both are in one segment, and
/// multiples of 16. A broken link passes with a probability of 2⁻⁴³ or less.
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

    #[cfg(feature = "hardened")]
    const BLOCKS: [usize; 3] = [0x7f12_3460_0000, 0x7f12_3460_0030, 0x7f12_3471_0000];

    #[cfg(feature = "hardened")]
    #[test]
    fn a_link_is_what_was_encoded() {
        draw();
        for (at, to) in BLOCKS.iter().flat_map(|&at| [0, at + 48].map(|to| (at, to))) {
            assert_eq!(decoded(at, encoded(at, to)), to);
        }
        assert!(
            [1, 3, usize::MAX, KEY[1].load(Relaxed)]
                .iter()
                .all(|&odd| { odd.wrapping_mul(inverse(odd)) == 1 })
        );
    }

    /// An attacker who knows where the blocks lie, but not the secret, changes the word.
    #[cfg(feature = "hardened")]
    #[test]
    fn a_known_change_leads_nowhere() {
        draw();
        let [at, to, target] = BLOCKS;
        let word = encoded(at, to);
        for changed in [word ^ to ^ target, word.wrapping_add(target - to), word ^ (1 << 63)] {
            assert!(!is_near(at, decoded(at, changed)), "{changed:x}");
        }
        let each_bit = (0..usize::BITS).map(|bit| word ^ (1 << bit));
        let each_byte = (0..8)
            .flat_map(|i| (0..=255).map(move |byte| word & !(0xff << (8 * i)) | byte << (8 * i)));
        for changed in each_bit.chain(each_byte).filter(|&changed| changed != word) {
            assert!(!is_near(at, decoded(at, changed)), "{changed:x}");
        }
    }

    /// An attacker copies the word of another block.
    #[cfg(feature = "hardened")]
    #[test]
    fn a_link_of_another_block_leads_nowhere() {
        draw();
        let [at, to, other] = BLOCKS;
        for of in [other, at + 16, at + 0x10_0000] {
            assert!(!is_near(at, decoded(at, encoded(of, to))), "{of:x}");
        }
    }
}
