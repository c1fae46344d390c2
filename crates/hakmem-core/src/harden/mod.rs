//! The hardened build: what it adds to each block.
//!
//! ```text
//! live block:  | bytes that were asked for | pad | tag |
//! free block:  | link | zeros                    |  0  |
//! ```
//!
//! - The *tag* is the last word of a block. It says how long the request was and which function
//!   made it, encoded by a secret and the block's address (`tag`).
//! - The *pad* is a pattern between the request and the tag. Both show a write beyond the block.
//! - A free block is zero, so that old contents are gone and a write after the free shows (`wipe`).
//! - The links of free lists are encoded (`key`).
//! - A block above `SMALL_MAX` from untouched memory has a mark until it is handed out (`fresh`).
//! - Large blocks lie without access for a while after their free (`fence`).
//! - Small blocks wait between free and free list (`quarantine`).
//!
//! `api::hardened` writes and checks all this around the allocator that every build has.
//!
//! Rules
//! 1. `ON` is a constant. In the ordinary build the compiler removes all of this.
//! 2. The tag of a block belongs to who has the block: the program's thread while it is live, who
//!    has it on a list while it is free. Another thread may only read it, by an atomic load.

use crate::base::size_class::SMALL_MAX;
use crate::base::sync::{Ordering::Relaxed, plain::AtomicBool};
use crate::os;
use crate::policy::{self, Hardened};

pub mod fence;
pub mod fresh;
pub mod key;
pub mod quarantine;
pub mod tag;
pub mod to_tell;
pub mod wipe;

/// True in the child of a fork.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// For the child of a fork.
pub fn after_fork() {
    IS_CHILD.store(true, Relaxed);
}

/// False if the process does not have all of a range of memory that is in use: its parent left
/// some of it out of its child by MADV_DONTFORK.
pub fn has_all(p: *mut u8, bytes: usize) -> bool {
    !IS_CHILD.load(Relaxed) || {
        let start = p.addr() & !(os::page_size() - 1);
        os::is_mapped(start, p.addr() + bytes - start)
    }
}

/// True in the hardened build.
pub const ON: bool = cfg!(feature = "hardened");

/// What the hardened build has. For measurements, `--cfg hakmem_without="PART"` in RUSTFLAGS leaves
/// a part out, so that `ci/hardened-price` can tell what it costs. Tags are in each such build.
pub mod has {
    /// Frees check the pad.
    pub const PAD: bool = !cfg!(hakmem_without = "pad");
    /// Frees check the tag of the block before.
    pub const NEIGHBOUR: bool = !cfg!(hakmem_without = "neighbour");
    /// Frees wipe the block.
    pub const WIPING: bool = !cfg!(hakmem_without = "wiping");
    /// Allocations check that the block is zero.
    pub const CHECK: bool = WIPING && !cfg!(hakmem_without = "check");
    /// Links are encoded.
    pub const LINKS: bool = super::ON && !cfg!(hakmem_without = "links");
    /// Freed blocks wait.
    pub const QUARANTINE: bool = super::ON && !cfg!(hakmem_without = "quarantine");
    /// Large blocks are fenced.
    pub const FENCE: bool = !cfg!(hakmem_without = "fence");
}

/// True at the level `low`: freed blocks are neither wiped nor do they wait.
#[inline(always)]
pub fn is_low() -> bool {
    policy::HARDENED.get() == Hardened::Low as u32
}

/// True if nobody wrote to a free block, or if it has the mark of a fresh one, which this takes.
///
/// # Safety
/// The caller has the block, which has `room` bytes.
#[inline(always)]
pub unsafe fn is_as_it_was(p: *mut u8, room: usize) -> bool {
    // SAFETY: the caller has the block, which has `room` bytes.
    unsafe { room > SMALL_MAX && fresh::take(p) || is_zero(p, room) }
}

/// True if a free block without a mark is zero, but for its link.
///
/// # Safety
/// As [`is_as_it_was`].
#[inline(always)]
pub unsafe fn is_zero(p: *mut u8, room: usize) -> bool {
    // SAFETY: the caller has the block, which has `room` bytes.
    unsafe {
        if is_low() || !has::CHECK {
            tag::is_clear(p, room)
        } else {
            // Behind what is wiped lie old contents, and then the tag.
            wipe::is_wiped(p, room) && (room <= wipe::MOST || tag::is_clear(p, room))
        }
    }
}

/// Makes memory free blocks: `count` of `room` bytes each, side by side from `first` on.
///
/// # Safety
/// The caller has all these bytes. `first` is aligned to 16. `room` is a multiple of 16, and 32 at
/// least: so is each size of a block that has a tag.
pub unsafe fn wipe_blocks(first: *mut u8, room: usize, count: usize) {
    for p in (0..count).map(|i| first.wrapping_add(i * room)) {
        // SAFETY: the caller has each of the blocks whole.
        unsafe {
            wipe::wipe(p, room);
            tag::clear(p, room);
        }
    }
}
