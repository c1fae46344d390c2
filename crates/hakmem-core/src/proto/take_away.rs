//! Take-away: a purge takes a page away from a holder that may be in the middle of a free.
//!
//! ```text
//! holder:  light barrier → is the page mine? → block onto the page's list → light barrier → count
//! purge:   page.owner = another → heavy barrier → used == listed? → heavy barrier → the page is ours
//!                                                       no: page.owner = the holder's heap
//! ```
//!
//! `used` counts the blocks of the page that are not on the page's own list. `listed` counts the
//! blocks of the page on the list of the holder's heap. A block that is live, or that the holder is
//! about to free, is used and not listed.
//!
//! The holder frees millions of times for each take-away. So its barriers cost nothing: they bind
//! the compiler alone. Those of the purge are system calls that make every thread of the process
//! pass a full barrier (`os::HeavyBarriers`).
//!
//! Rules
//! 1. The holder reads the owner once for each free, behind all that it did before. If it read its
//!    own heap before the first heavy barrier, the purge sees all that it did before that read. So
//!    the purge finds the block used and not listed, until the holder counts it.
//! 2. The count is the last word of a free that the holder writes. If the purge reads it, the list
//!    of the page is complete for the purge behind the second heavy barrier.
//! 3. If any barrier fails, all pages go back.
//!
//! Model: `tests/loom/take_away.rs`. There all barriers are fences: loom has no system call that
//! reaches other threads.

use crate::base::sync::light_fence;

/// The holder asks whether it owns a page, to free a block of it.
#[inline(always)]
pub fn asked(is_own: impl FnOnce() -> bool) -> bool {
    light_fence();
    is_own()
}

/// The holder frees a block of a page that it owns: `push` puts the block onto the list of the
/// page, and `count` counts it (rule 2).
#[inline(always)]
pub fn free<R>(push: impl FnOnce(), count: impl FnOnce() -> R) -> R {
    push();
    light_fence();
    count()
}

/// The purge takes away those of `pages` of which no block is live. `take` changes the owner of a
/// page, `is_unused` compares what is used with what is listed, and `barrier` is the heavy one:
/// false if it failed. `give_back` undoes `take`, and leaves the page out of `pages` from then on.
pub fn take_away<P: Copy>(
    pages: impl Iterator<Item = P> + Clone,
    barrier: impl Fn() -> bool,
    take: impl Fn(P),
    is_unused: impl Fn(P) -> bool,
    give_back: impl Fn(P),
) {
    pages.clone().for_each(take);
    let reached = barrier();
    pages.clone().filter(|&page| !reached || !is_unused(page)).for_each(&give_back);
    if !reached || !barrier() {
        pages.for_each(give_back);
    }
}
