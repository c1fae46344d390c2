//! Tags: the last word of each block, and the pad in front of it.

use crate::base::sync::{Ordering::Relaxed, plain::AtomicU64};
use crate::harden::key::mask;

/// Bytes of a tag.
pub const BYTES: usize = 8;
/// The least bytes of a block that has a tag: the words that a free block uses lie in front of it.
pub const LEAST_BLOCK: usize = 32;
/// The pad is checked up to so many bytes.
const PAD_MOST: usize = 64;
/// The upper bits of a decoded tag: none that a program writes by chance.
const LIVE: u64 = 0x6c_69_76 << 40;
const LIVE_BITS: u64 = 0xff_ff_ff << 40;

/// Which function made a block. Another kind of function must not free it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Origin {
    /// malloc and what C has beside it.
    C = 0,
    /// C++ `new`.
    New = 1,
    /// C++ `new[]`.
    Array = 2,
    /// Rust's `GlobalAlloc`.
    Rust = 3,
}

impl Origin {
    /// Its name in reports: what allocated the block.
    pub fn made_by(self) -> &'static str {
        ["malloc", "new", "new[]", "Rust's alloc"][self as usize]
    }

    /// Its name in reports: what frees the block.
    pub fn freed_by(self) -> &'static str {
        ["free", "delete", "delete[]", "Rust's dealloc"][self as usize]
    }
}

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

#[inline(always)]
fn pattern(mask: usize) -> u8 {
    (mask >> 8) as u8 | 0x80
}

/// Writes the tag and the pad of a block of `room` bytes that becomes live, for a request of `size`.
///
/// # Safety
/// The caller has the block, and `size + BYTES` is at most `room`.
#[inline(always)]
pub unsafe fn write(p: *mut u8, room: usize, size: usize, origin: Origin) {
    let mask = mask(p.addr());
    let slack = room - BYTES - size;
    let word = LIVE | (origin as u64) << 32 | slack as u64;
    // SAFETY: the pad and the tag lie in the block, which the caller has.
    unsafe {
        p.wrapping_add(size).write_bytes(pattern(mask), slack.min(PAD_MOST));
        place(p, room).store(word ^ mask as u64, Relaxed);
    }
}

/// Reads the tag of a block.
///
/// # Safety
/// As [`place`].
#[inline(always)]
pub unsafe fn read(p: *mut u8, room: usize) -> Tag {
    // SAFETY: the caller promises the same.
    let word = unsafe { place(p, room) }.load(Relaxed);
    if word == 0 {
        return Tag::Free;
    }
    let plain = word ^ mask(p.addr()) as u64;
    let slack = (plain & 0xffff_ffff) as usize;
    if plain & LIVE_BITS != LIVE || slack > room - BYTES {
        return Tag::Broken;
    }
    let origin = match plain >> 32 & 0xff {
        0 => Origin::C,
        1 => Origin::New,
        2 => Origin::Array,
        3 => Origin::Rust,
        _ => return Tag::Broken,
    };
    Tag::Live(room - BYTES - slack, origin)
}

/// Marks a block as free.
///
/// # Safety
/// The caller has the block.
#[inline(always)]
pub unsafe fn clear(p: *mut u8, room: usize) {
    // SAFETY: the caller promises the same.
    unsafe { place(p, room) }.store(0, Relaxed);
}

/// The bytes behind a request of `size` bytes that are not as they were: the offset of the last one
/// behind the request, 0 for none.
///
/// # Safety
/// As [`write`], which wrote the pad.
#[inline(always)]
pub unsafe fn overflow(p: *mut u8, room: usize, size: usize) -> usize {
    let pattern = pattern(mask(p.addr()));
    let pad = (room - BYTES - size).min(PAD_MOST);
    // SAFETY: the pad lies in the block, which the caller has.
    let is_kept = |i: usize| unsafe { p.wrapping_add(size + i).read() } == pattern;
    if (0..pad).all(is_kept) { 0 } else { (0..pad).rev().find(|&i| !is_kept(i)).map_or(0, |i| i + 1) }
}
