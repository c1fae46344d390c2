//! Tags: the last word of each block, and the pad in front of it.
//!
//! ```text
//! | request | pad …      | tag |      the pad's first 8 bytes are a pattern,
//! | request …   | pad | tag |        or all of a pad that is shorter
//! ```

use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::{AtomicBool, AtomicU64};
use crate::harden::{has, key::mask};
#[cfg(not(any(loom, miri, shuttle)))]
use crate::os;
#[cfg(not(any(loom, miri, shuttle)))]
use core::ffi::CStr;

/// Bytes of a tag.
pub const BYTES: usize = 8;
/// The least bytes of a block that has a tag: the words that a free block uses lie in front of it.
pub const LEAST_BLOCK: usize = 32;
// A decoded tag, from its lowest byte on: the origin, `LOWER` XOR the origin, four bytes of slack,
// and two of `UPPER`. The slack is the number of bytes between the request and the tag. A write
// that goes too far changes the origin first, and one in front of the block behind changes `UPPER`.
const LOWER: u32 = 0x6c;
const UPPER: u32 = 0x76_69;
/// Rotated so far, a tag has all but the slack in its lower half: `UPPER`, the origin, `LOWER`.
const TURN: u32 = 16;
const SLACK_SHIFT: u32 = 32;

/// The lower half of a rotated tag.
const fn lower_half(origin: Origin) -> u32 {
    (LOWER ^ origin.0 as u32) << 24 | (origin.0 as u32) << 16 | UPPER
}

/// The part of a word in front of the tag that a pad of so many bytes has, 8 at most.
static PAD_BITS: [u64; 9] = {
    let mut bits = [0; 9];
    let mut i = 1;
    while i < 9 {
        bits[i] = u64::MAX << (64 - 8 * i);
        i += 1;
    }
    bits
};

/// True if neither the program nor a library has C++ operators of its own. Until that is known, one
/// may have some: the constructors of other libraries may come first.
static APART: AtomicBool = AtomicBool::new(false);

/// Notes that the program has no C++ operators of its own, unless a library has some that is loaded
/// by now. Until then, C's functions and all operators may free each other's blocks, with any size:
/// see [`Origin::may_be_freed_by`]. A library's constructor calls this: it waits for the loader.
pub fn keep_apart() {
    #[cfg(not(any(loom, miri, shuttle)))]
    {
        const OPERATORS: [&CStr; 4] = [c"_Znwm", c"_Znam", c"_ZdlPv", c"_ZdaPv"];
        // The runtime's own. It is bound to those that come first.
        const RUNTIMES: [&[u8]; 2] = [b"libstdc++.so", b"libc++"];
        if os::is_defined_elsewhere(&OPERATORS, &RUNTIMES) {
            return;
        }
    }
    APART.store(true, Relaxed);
}

/// Which function made a block, and for Rust with which alignment. Another kind of function, or one
/// with another alignment, must not free it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
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

    /// True if the program may have C++ operators of its own, and may then free by `by` what this
    /// made: its operators call C's functions, and those that it does not replace are hakmem's. Or
    /// a library has some and is bound to them, and its user is not.
    pub fn may_be_freed_by(self, by: Self) -> bool {
        self.align().is_none() && by.align().is_none() && !APART.load(Relaxed)
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
    // unmapped while its page has an owner. Other threads load the word alone, and the holder
    // stores to it atomically. Only a wipe, which finds 0 there, writes 0 over it as a part of
    // more.
    unsafe { AtomicU64::from_ptr(p.wrapping_add(room - BYTES).cast()) }
}

/// The pattern of a pad. Each byte has its upper bit set: writes that go too far rarely do. The
/// lowest byte of a mask varies least, so it lies in the middle.
#[inline(always)]
fn pattern(mask: u64) -> u64 {
    mask.rotate_left(32) | 0x8080_8080_8080_8080
}

/// Writes the tag and the pad of a block of `room` bytes that becomes live, for a request of
/// `size`. The last eight bytes of the request may become zero.
///
/// # Safety
/// The caller has the block, and nobody needs its contents but zeroes. `room` is 16 at least, and
/// `size + BYTES` at most `room`.
#[inline(always)]
pub unsafe fn write(p: *mut u8, room: usize, size: usize, origin: Origin) {
    // SAFETY: the caller promises as much of the block.
    unsafe { write_over(p, room, size, origin, |_| 0) }
}

/// [`write`] for a block of which the program keeps the contents.
///
/// # Safety
/// The caller has the block, whose bytes are initialised. The sizes are as for [`write`].
pub unsafe fn rewrite(p: *mut u8, room: usize, size: usize, origin: Origin) {
    // SAFETY: the caller promises as much of the block, and `write_over` passes a place in it.
    unsafe { write_over(p, room, size, origin, |pad| pad.read_unaligned()) }
}

/// [`write`], with the bytes of a word from `was` in front of a pad that is shorter than a word.
///
/// # Safety
/// The caller has the block, and `was` may read a word of it. The sizes are as for [`write`].
#[inline(always)]
unsafe fn write_over(
    p: *mut u8,
    room: usize,
    size: usize,
    origin: Origin,
    was: impl Fn(*mut u64) -> u64,
) {
    let mask = mask(p.addr()) as u64;
    let slack = room - BYTES - size;
    let plain = (slack as u64) << SLACK_SHIFT | u64::from(lower_half(origin));
    // SAFETY: both words lie in the block, which the caller has.
    unsafe {
        if has::PAD {
            // Another thread may read the tag, for its free of the block behind. So it changes
            // once: the word with the pad ends in front of it at the latest. The lower bytes of a
            // pad that is shorter than the word are the request's.
            let (pad, bits) = pad(p, room, slack);
            pad.write_unaligned(was(pad) & !bits | pattern(mask) & bits);
        }
        place(p, room).store(plain.rotate_right(TURN) ^ mask, Relaxed);
    }
}

/// The word that has the beginning of the pad, and the bits of it that are the pad's. `slack` bytes
/// lie between the request and the tag.
#[inline(always)]
fn pad(p: *mut u8, room: usize, slack: usize) -> (*mut u64, u64) {
    let at = p.wrapping_add(room - BYTES - slack.max(8));
    // SAFETY: the index is 8 at most.
    (at.cast(), unsafe { *PAD_BITS.get_unchecked(slack.min(8)) })
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
    let plain = (word ^ mask(p.addr()) as u64).rotate_left(TURN);
    let (slack, origin) = ((plain >> SLACK_SHIFT) as usize, Origin((plain >> TURN) as u8));
    if plain as u32 != lower_half(origin) || slack > room - BYTES {
        return Tag::Broken;
    }
    if origin.0 > RUST && origin.align().is_none() {
        return Tag::Broken;
    }
    Tag::Live(room - BYTES - slack, origin)
}

/// The tag of the block, decoded and rotated.
///
/// # Safety
/// As [`place`].
#[inline(always)]
unsafe fn plain(p: *mut u8, room: usize, mask: u64) -> u64 {
    // SAFETY: the block has `room` bytes, by the caller's promise, so its last word is the tag
    // (`harden` rule 2).
    (unsafe { place(p, room) }.load(Relaxed) ^ mask).rotate_left(TURN)
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
    let slack = (plain >> SLACK_SHIFT) as usize;
    plain as u32 == lower_half(origin)
        && slack <= room - BYTES
        && size.is_none_or(|size| size == room - BYTES - slack)
        // SAFETY: the block is live, and so many bytes lie between request and tag.
        && unsafe { is_kept(p, room, slack, pattern(mask)) }
}

/// True if the tag is that of a live block or of a free one, as far as its upper bytes tell.
///
/// # Safety
/// As [`place`].
#[inline(always)]
pub unsafe fn is_sound(p: *mut u8, room: usize) -> bool {
    // SAFETY: the caller promises as much of the block.
    unsafe {
        let word = place(p, room).load(Relaxed);
        let upper = (word ^ mask(p.addr()) as u64) >> (64 - TURN);
        // One of both is 0. A minimum in place of a branch: whether a neighbour is free cannot be
        // predicted.
        (upper ^ u64::from(UPPER)).min(word) == 0
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
/// The caller has the block, and its tag says that it has `room` bytes and a request of `size`.
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
    let (pad, bits) = pad(p, room, slack);
    // SAFETY: the word lies in the block, which the caller has.
    !has::PAD || (unsafe { pad.read_unaligned() } ^ pattern) & bits == 0
}

/// How many bytes behind the request the last one lies that is not as it was, as far as the pattern
/// reaches. The pad is not as it was.
///
/// # Safety
/// The caller has the block, and its tag says that it has `room` bytes and a request of `size`.
#[cold]
pub unsafe fn overflow(p: *mut u8, room: usize, size: usize) -> usize {
    let pattern = pattern(mask(p.addr()) as u64).to_le_bytes();
    let len = 8.min(room - BYTES - size);
    // A short pad has the last bytes of the pattern.
    let pattern = &pattern[8 - len..];
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
                assert!((0..size - size.min(8)).all(|i| p.add(i).read() == 0x5a), "{size}");
                p.write_bytes(0x5a, size);
                rewrite(p, 64, size, Origin::NEW);
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
                // Each byte of the tag, from either side.
                for byte in 0..8 {
                    let (tag, was) = (place(p, 64), place(p, 64).load(Relaxed));
                    tag.store(was ^ 1 << (8 * byte + 7), Relaxed);
                    assert!(!is_live(p, 64, Origin::NEW, None), "byte {byte} for {size}");
                    assert_eq!(is_sound(p, 64), byte < 6, "byte {byte} for {size}");
                    tag.store(was, Relaxed);
                }
                assert!(is_live(p, 64, Origin::NEW, Some(size)) && is_sound(p, 64));
                // No other origin is read, whatever the first byte becomes.
                for change in 1..=0xff {
                    let (tag, was) = (place(p, 64), place(p, 64).load(Relaxed));
                    tag.store(was ^ change, Relaxed);
                    assert_eq!(read(p, 64), Tag::Broken, "{change:#x}");
                    tag.store(was, Relaxed);
                }
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
