//! The checks at the end of the process: of blocks that wait, and of what lies behind live blocks.
//!
//! Rules
//! 1. Live blocks are read only if the process has no other thread, and if it has their memory: the
//!    parent may have left it out of its child by MADV_DONTFORK.

use super::checked::{bad_tag, overflowed};
use super::free::check_waited;
use crate::api::front;
use crate::backend::arena::{self, SEGMENT, SLOT};
use crate::backend::page::{self, Kind, Meta};
use crate::harden::tag::{self, Tag};
use crate::harden::{self, fence};
use crate::os;
use crate::thread::{self, ThreadState};

/// Slots of a segment.
const SLOTS: usize = SEGMENT / SLOT;

/// Live blocks that are checked at the end of the process.
const AT_EXIT: usize = 100_000;

/// Checks what waits in the calling thread's quarantine, at the end of the process. If the process
/// has no other thread, checks what lies behind live blocks, too. O(`AT_EXIT`).
pub fn check_at_exit() {
    if let ThreadState::Live(heap) = thread::state() {
        let is_there = |p: &*mut u8| {
            page::lookup(*p).is_some_and(|meta| {
                harden::has_all(*p, meta.head_of_block().block_size.get() as usize)
            })
        };
        // SAFETY: the blocks are this thread's.
        heap.quarantine
            .blocks()
            .filter(is_there)
            .for_each(|p| unsafe { check_waited(p, usize::MAX) });
    }
    if !os::is_single_threaded() {
        return;
    }
    let mut left = AT_EXIT;
    for arena in arena::all() {
        for slot in
            arena.used().flat_map(|segment| (0..SLOTS).map(move |slot| segment * SLOTS + slot))
        {
            // SAFETY: a used segment has metadata, which is accessible for ever.
            check_slot(unsafe { &*arena.meta(slot).cast::<Meta>() }, &mut left);
            if left == 0 {
                return;
            }
        }
    }
}

/// Checks the ends of the live blocks that begin in the slot.
fn check_slot(meta: &'static Meta, left: &mut usize) {
    let (room, count) = match meta.kind() {
        Kind::Page if !meta.owner().is_null() => {
            (meta.block_size.get() as usize, meta.carved.get() as usize)
        }
        Kind::Large | Kind::Huge if !fence::has(meta.start()) => {
            (front::size_of_whole(meta.start(), meta), 1)
        }
        _ => return,
    };
    if !harden::has_all(meta.start(), room * count) {
        return;
    }
    for p in (0..count.min(*left)).map(|i| meta.start().wrapping_add(i * room)) {
        *left -= 1;
        // SAFETY: a block of `room` bytes was carved there, or is a large one. The process has one
        // thread, so nobody changes it.
        match unsafe { tag::read(p, room) } {
            Tag::Free => {}
            Tag::Broken => bad_tag(p, room, Tag::Broken),
            Tag::Live(size, _) => {
                // SAFETY: `read` found that the request and the tag fit into the block's `room`
                // bytes, so the pad lies between them.
                if unsafe { !tag::is_pad_kept(p, room, size) } {
                    overflowed(p, room, size);
                }
            }
        }
    }
}
