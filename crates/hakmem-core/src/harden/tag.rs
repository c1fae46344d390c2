//! Tags: the last word of each block, and the pad in front of it.
//!
//! ```text
//! | request | pad …      | tag |      the pad's first 8 bytes are a pattern,
//! | request …   | pad | tag |        or all of a pad that is shorter
//! ```

use crate::base::sync::{Ordering::Relaxed, plain::AtomicU64};
use crate::harden::{has, key::mask};

/// Bytes of a tag.
pub const BYTES: usize = 8;
/// The least bytes of a block that has a tag: the words that a free block uses lie in front of it.
pub const LEAST_BLOCK: usize = 32;
/// The upper bits of a decoded tag: none that a program writes by chance.
const LIVE: u64 = 0x6c_69_76 << 40;
const LIVE_BITS: u64 = 0xff_ff_ff << 40;
/// A tag is multiplied by an odd number. So a change of its lower bits changes the upper ones.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// SPREAD × GATHER is 1.
const GATHER: u64 = {
    // Each step doubles the number of right bits.
    let (mut inverse, mut step) = (SPREAD, 0);
    while step < 5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(SPREAD.wrapping_mul(inverse)));
        step += 1;
    }
    assert!(SPREAD.wrapping_mul(inverse) == 1);
    inverse
};

/// Which function made a block, and for Rust with which alignment. Another kind of function, or one
/// with another alignment, must not free it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin(u8);

impl Origin {
    /// malloc and what C has beside it.
    pub const C: Self = Self(0);
    /// C++ `new`.
    pub const NEW: Self = Self(1);
    /// C++ `new[]`.
    pub const ARRAY: Self = Self(2);

    /// Rust's `GlobalAlloc`, for a layout of this alignment, a power of two.
    #[inline(always)]
    pub const fn rust(align: usize) -> Self {
        Self(RUST | (align.trailing_zeros() as u8) << 2)
    }

    /// The alignment that Rust's `GlobalAlloc` was asked for. None: something else made the block.
    pub fn align(self) -> Option<usize> {
        (self.0 & 3 == RUST).then(|| 1 << (self.0 >> 2))
    }

    /// Its name in reports: what allocated the block.
    pub fn made_by(self) -> &'static str {
        ["malloc", "new", "new[]", "Rust's alloc"][usize::from(self.0 & 3)]
    }

    /// Its name in reports: what frees the block.
    pub fn freed_by(self) -> &'static str {
        ["free", "delete", "delete[]", "Rust's dealloc"][usize::from(self.0 & 3)]
    }
}

/// The lower bits of an origin that has an alignment.
const RUST: u8 = 3;

/// What a tag says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// The block is free.
    Free,
    /// It is live: the bytes that were asked for, and by whom.
    Live(usize, Origin),
    /// Something else was written there.
    Broken,
}

/// The tag of the block at `p`, which has `room` bytes.
///
/// # Safety
/// The block has so many bytes, and their number is a multiple of 8.
#[inline(always)]
unsafe fn place(p: *mut u8, room: usize) -> &'static AtomicU64 {
    // SAFETY: the caller promises that the last word lies in the block. Memory of blocks is never
    // unmapped while its page has an owner, and all accesses to the word are atomic.
    unsafe { AtomicU64::from_ptr(p.wrapping_add(room - BYTES).cast()) }
}

/// The pattern of a pad. Each byte has its upper bit set: writes that go too far rarely do.
#[inline(always)]
fn pattern(mask: u64) -> u64 {
    mask | 0x8080_8080_8080_8080
}

/// Writes the tag and the pad of a block of `room` bytes that becomes live, for a request of
/// `size`.
///
/// # Safety
/// The caller has the block, whose bytes are initialised. `room` is 16 at least, and `size + BYTES`
/// at most `room`.
#[inline(always)]
pub unsafe fn write(p: *mut u8, room: usize, size: usize, origin: Origin) {
    let mask = mask(p.addr()) as u64;
    let slack = room - BYTES - size;
    let word = LIVE | u64::from(origin.0) << 32 | slack as u64;
    // Another thread may read the tag, for its free of the block behind. So it changes once: the
    // word with the pad ends in front of it at the latest. The lower bytes of a pad that is shorter
    // than the word are the request's. Two shifts: one by 64 is none.
    let half = 4 * (8 - slack.min(8));
    let kept = !(u64::MAX << half << half);
    // SAFETY: both words lie in the block, which the caller has.
    unsafe {
        if has::PAD {
            let pad = p.wrapping_add(size.min(room - 2 * BYTES)).cast::<u64>();
            pad.write_unaligned(pad.read_unaligned() & kept | pattern(mask) << half << half);
        }
        place(p, room).store(word.wrapping_mul(SPREAD) ^ mask, Relaxed);
    }
}

/// Reads the tag of a block.
///
/// # Safety
/// As [`place`].
#[inline(always)]
pub unsafe fn read(p: *mut u8, room: usize) -> Tag {
    // SAFETY: the block has `room` bytes, by the caller's promise, so its last word is the tag
    // (`harden` rule 2).
    let word = unsafe { place(p, room) }.load(Relaxed);
    if word == 0 {
        return Tag::Free;
    }
    let plain = (word ^ mask(p.addr()) as u64).wrapping_mul(GATHER);
    let slack = (plain & 0xffff_ffff) as usize;
    if plain & LIVE_BITS != LIVE || slack > room - BYTES {
        return Tag::Broken;
    }
    let origin = Origin((plain >> 32) as u8);
    if origin.0 > RUST && origin.align().is_none() {
        return Tag::Broken;
    }
    Tag::Live(room - BYTES - slack, origin)
}

/// The tag of the block, decoded.
///
/// # Safety
/// As [`place`].
#[inline(always)]
unsafe fn plain(p: *mut u8, room: usize, mask: u64) -> u64 {
    // SAFETY: the block has `room` bytes, by the caller's promise, so its last word is the tag
    // (`harden` rule 2).
    (unsafe { place(p, room) }.load(Relaxed) ^ mask).wrapping_mul(GATHER)
}

/// True if the block is live, was made by `origin`, has `size` bytes if that is said, and its pad
/// is as it was.
///
/// # Safety
/// As [`place`].
#[inline(always)]
pub unsafe fn is_live(p: *mut u8, room: usize, origin: Origin, size: Option<usize>) -> bool {
    let mask = mask(p.addr()) as u64;
    // SAFETY: the caller promises as much of the block.
    let plain = unsafe { plain(p, room, mask) };
    let slack = plain as u32 as usize;
    plain >> 32 == LIVE >> 32 | u64::from(origin.0)
        && slack <= room - BYTES
        && size.is_none_or(|size| size == room - BYTES - slack)
        // SAFETY: the block is live, and so many bytes lie between request and tag.
        && unsafe { is_kept(p, room, slack, pattern(mask)) }
}

/// True if the tag is that of a live block or of a free one.
///
/// # Safety
/// As [`place`].
#[inline(always)]
pub unsafe fn is_sound(p: *mut u8, room: usize) -> bool {
    // SAFETY: the caller promises as much of the block.
    unsafe {
        is_clear(p, room) || {
            let plain = plain(p, room, mask(p.addr()) as u64);
            plain & LIVE_BITS == LIVE && plain as u32 as usize <= room - BYTES
        }
    }
}

/// True if the block is marked as free.
///
/// # Safety
/// As [`place`].
#[inline(always)]
pub unsafe fn is_clear(p: *mut u8, room: usize) -> bool {
    // SAFETY: the block has `room` bytes, by the caller's promise, so its last word is the tag
    // (`harden` rule 2).
    unsafe { place(p, room) }.load(Relaxed) == 0
}

/// Marks a block as free.
///
/// # Safety
/// The caller has the block.
#[inline(always)]
pub unsafe fn clear(p: *mut u8, room: usize) {
    // SAFETY: the block has `room` bytes, by the caller's promise, so its last word is the tag
    // (`harden` rule 2).
    unsafe { place(p, room) }.store(0, Relaxed);
}

/// True if the pad is as it was.
///
/// # Safety
/// As [`write`], which wrote the pad.
#[inline(always)]
pub unsafe fn is_pad_kept(p: *mut u8, room: usize, size: usize) -> bool {
    // SAFETY: the caller promises as much of the block.
    unsafe { is_kept(p, room, room - BYTES - size, pattern(mask(p.addr()) as u64)) }
}

/// [`is_pad_kept`] for a pad of `slack` bytes with this pattern.
///
/// # Safety
/// As [`is_pad_kept`].
#[inline(always)]
unsafe fn is_kept(p: *mut u8, room: usize, slack: usize, pattern: u64) -> bool {
    // SAFETY: the word lies in the block, which the caller has.
    let first = unsafe { p.wrapping_add(room - BYTES - slack).cast::<u64>().read_unaligned() };
    !has::PAD || slack == 0 || (first ^ pattern) << (64 - 8 * slack.min(8)) == 0
}

/// How many bytes behind the request the last one lies that is not as it was, as far as the pattern
/// reaches. The pad is not as it was.
///
/// # Safety
/// As [`write`], which wrote the pad.
#[cold]
pub unsafe fn overflow(p: *mut u8, room: usize, size: usize) -> usize {
    let pattern = pattern(mask(p.addr()) as u64).to_le_bytes();
    let len = 8.min(room - BYTES - size);
    // SAFETY: the pad lies in the block, which the caller has.
    let is_changed = |i: &usize| unsafe { p.wrapping_add(size + i).read() } != pattern[*i];
    (0..len).rev().find(is_changed).map_or(0, |i| i + 1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn each_byte_behind_a_request_is_seen() {
        for size in 1..=56 {
            let mut memory = [0_u64; 8];
            let p = memory.as_mut_ptr().cast::<u8>();
            // SAFETY: the test's memory.
            unsafe {
                p.write_bytes(0x5a, size);
                write(p, 64, size, Origin::NEW);
                assert_eq!(read(p, 64), Tag::Live(size, Origin::NEW));
                assert!(
                    (0..size).all(|i| p.add(i).read() == 0x5a),
                    "{size}: the request is left alone"
                );
                assert!(is_pad_kept(p, 64, size));
                for at in size..(size + 8).min(56) {
                    let was = p.add(at).replace(!p.add(at).read());
                    assert!(!is_pad_kept(p, 64, size), "{size} {at}");
                    assert_eq!(overflow(p, 64, size), at + 1 - size);
                    p.add(at).write(was);
                }
                let tag = place(p, 64);
                tag.store(tag.load(Relaxed) ^ 0xff, Relaxed);
                assert_ne!(read(p, 64), Tag::Live(size, Origin::NEW));
                clear(p, 64);
                assert_eq!(read(p, 64), Tag::Free);
            }
        }
    }

    #[test]
    fn an_alignment_of_rust_is_part_of_the_origin() {
        let mut memory = [0_u64; 8];
        let p = memory.as_mut_ptr().cast::<u8>();
        for align in (0..64).map(|shift| 1 << shift) {
            let origin = Origin::rust(align);
            // SAFETY: the test's memory.
            unsafe {
                write(p, 64, 40, origin);
                assert_eq!(read(p, 64), Tag::Live(40, origin));
                assert!(is_sound(p, 64) && is_live(p, 64, origin, Some(40)));
                assert!(!is_live(
                    p,
                    64,
                    Origin::rust(if align == 1 { 2 } else { align / 2 }),
                    None
                ));
                assert!(
                    ![Origin::C, Origin::NEW, Origin::ARRAY]
                        .iter()
                        .any(|by| is_live(p, 64, *by, None))
                );
            }
            assert_eq!(origin.align(), Some(align));
        }
    }

    /// A free of the block behind reads the tag at any time.
    #[cfg(not(miri))]
    #[test]
    fn a_tag_is_never_half_written() {
        use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
        let (mut memory, over) = ([0_u64; 8], AtomicBool::new(false));
        let address = memory.as_mut_ptr().expose_provenance();
        let at = || core::ptr::with_exposed_provenance_mut::<u8>(address);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: the test's memory. The other thread reads the tag alone.
                (0..2_000_000).for_each(|i| unsafe { write(at(), 64, 48 + i % 9, Origin::C) });
                over.store(true, Relaxed);
            });
            while !over.load(Relaxed) {
                // SAFETY: the test's memory.
                assert!(unsafe { is_sound(at(), 64) });
            }
        });
    }
}
