//! The code that both front ends share. A request finds its class by size, and a pointer finds its
//! metadata by arithmetic.
//!
//! The two hot functions in pseudo-code. The compiled fast paths do nothing else:
//!
//! ```text
//! malloc(n):  h = thread's word; if n > 1024: slow
//!             l = h.lists + 8 * h.place16[(n + 15) / 16]; b = l.free; if b is null: slow
//!             if (b ^ b.next) has a bit from 16 on, or one of the lowest 3: slow
//!             if b.next.next == b: slow            (freed twice)
//!             l.free = b.next; return b
//! free(p):    x = rotate_right(p - data, 4)
//!             if x >= limit: slow                  (foreign, NULL, or not a multiple of 16)
//!             m = metas + x / 4096; if m.owner != thread's word: slow   (remote, large, no page)
//!             l = m.frees_to; if l.free == p: error
//!             p.next = l.free; l.free = p; l.until_slow -= 1; if l.until_slow == 0: slow
//! ```

mod alloc;
mod free;
mod free_remote;
mod free_whole;
mod refused;
mod resize;

use crate::backend::held;
use crate::heap::Heap;
use crate::purge;
use crate::thread;

#[cfg(all(test, not(any(loom, miri, shuttle))))]
pub use alloc::kept_huge;
pub use alloc::{
    Clear, alloc_aligned, alloc_big, alloc_class, alloc_class_or, alloc_class_slow, alloc_of,
    alloc16, alloc16_or, alloc16_unlisted, alloc16_zeroed, keep_limit_of, pop_kept, pop_large,
    pop16, sample_of, zeroed_class,
};
pub use free::{free_in_page, free_known, free_own, free_slow, free16, own_page};
pub use free_whole::{free_guarded, free_of};
pub use refused::set_callback;
pub use resize::{
    fits, move_block, move_grown, resize, resize_at_last, size_of_block, size_of_small,
    size_of_whole,
};

/// No request above this can succeed: pointer differences are signed.
const PTRDIFF_MAX: usize = isize::MAX as usize;

/// Handles pages that went back to their segments: a purge may be due. Other owners get what waits
/// for them here, because the thread may sleep soon.
#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
fn note_released(heap: &Heap) {
    heap.set_released(false);
    heap.send_remote_frees();
    if held::is_beyond() {
        thread::give_up_own();
        heap.set_released(false);
    }
    purge::tick();
}

/// Keeps the soft limit, after an allocation that may have taken clean memory. The caller has no
/// lock.
fn keep_limit() {
    if held::is_beyond() {
        keep_limit_now();
    }
}

#[cold]
#[inline(never)]
fn keep_limit_now() {
    thread::give_up_own();
    purge::keep_limit();
}
