//! Take-away: a purge takes a page away from a holder that may be in the middle of a call.
//!
//! ```text
//! malloc: the heap's list goes on → light barrier → the program has the block
//! free:   is the page mine? → block onto the page's list → light barrier → count
//!                           → block onto the heap's list → no room? off the list again
//!                                    → light barrier → is the page mine? → …
//! purge:  page.owner = another → heavy barrier → first? → used == listed? → heavy barrier
//!                 → first as before? → the page is ours
//!         no: page.owner = the holder's heap
//! ```
//!
//! `used` counts the blocks of the page that are not on the page's own list. `listed` counts the
//! blocks of the page on the list of the holder's heap, and `first` is the first block there. A
//! block that is live, or that the holder is about to free, is used and not listed. A block that
//! the holder frees onto the heap's list stays used, and the holder writes nothing to its page.
//!
//! The holder calls millions of times for each take-away. So its barriers cost nothing: they bind
//! the compiler alone. Those of the purge are system calls that make the holder pass a full barrier
//! (`os::HeavyBarriers`).
//!
//! Rules
//! 1. The holder reads the owner for each free, after the pop that gave the block. It may pop
//!    several blocks of one page off the heap's list by one store, and count them by one. It reads
//!    the owner again only if it read another owner, and acts by the last read. If it read its own
//!    heap before the first heavy barrier, the purge sees that pop. So the purge finds the block
//!    used and not listed, until the holder counts it. In a page of several slots each slot has
//!    such a word, and a free reads that of its block. The purge writes all of them ahead of the
//!    barrier.
//! 2. The count is the last word of a free that the holder writes. If the purge reads it, the list
//!    of the page is complete for the purge after the second heavy barrier.
//! 3. If any barrier fails, all pages go back. A purge that has all used blocks of a page itself,
//!    as remote frees, takes nothing away: it needs the second barrier alone ([`settle`]).
//! 4. The purge walks the heap's list by the links in its blocks. The holder may take such a block
//!    meanwhile, and the program may write anything there. But the list goes on before the program
//!    writes. So if the walk read what the program wrote, the first block is another one after the
//!    second heavy barrier, and the page goes back.
//! 5. Before the first heavy barrier the purge keeps the holder out of its slow paths
//!    (`proto::pause`). So after that barrier a block of a taken page comes onto the heap's list
//!    only by a free that read the owner before it: a free of a block that was live then.
//!    - The holder pops a listed block of a taken page. From now on it is live. Its next free reads
//!      the new owner, and does not put it onto this list. So `first` is not the same again.
//!    - The holder pops blocks of other pages, and frees them again. `first` may be the same then.
//!      A block that the walk found listed may be live. Its page was taken before the pop, so its
//!      free goes to the new owner.
//! 6. A free makes its block the first one by a release, and the purge reads that by an acquire. So
//!    the walk does not read from the block what the program wrote before the free.
//!
//! Models: `tests/loom/take_away.rs` and `tests/loom/walk.rs`. There all barriers are fences: loom
//! has no system call that reaches other threads.

use crate::base::sync::{Ordering, light_fence};

/// The holder takes the first block off its heap's list: `go_on` writes the list. After this the
/// program may write to the block, and free it (rules 1 and 4).
#[inline(always)]
pub fn pop(go_on: impl FnOnce()) {
    go_on();
    light_fence();
}

/// The holder takes the first blocks off its heap's list again, as the list has no room for them.
/// `go_on` writes the list, and `owner` reads whose page they are of: only after that, as a purge
/// may have found them listed and taken the page (rule 1).
#[inline(always)]
pub fn pass_on<O>(go_on: impl FnOnce(), owner: impl FnOnce() -> O) -> O {
    let ((), owner) = (pop(go_on), owner());
    owner
}

/// The holder frees a block of a page that it owns: `push` puts the block onto the list of the
/// page, and `count` counts it (rule 2).
#[inline(always)]
pub fn free<R>(push: impl FnOnce(), count: impl FnOnce() -> R) -> R {
    push();
    light_fence();
    count()
}

/// The holder frees a block onto its heap's list: `link` writes to the block what follows it, and
/// `put` makes it the first one, by a store of this order (rule 6).
#[inline(always)]
pub fn keep(link: impl FnOnce(), put: impl FnOnce(Ordering)) {
    link();
    put(Ordering::Release);
}

/// The purge reads the first block of the heap's list, by a load of this order (rule 6).
pub fn first<R>(read: impl FnOnce(Ordering) -> R) -> R {
    read(Ordering::Acquire)
}

/// The purge has read the counts of some pages. Behind this their lists are complete (rule 2).
/// `barrier` is the heavy one: false if it failed.
pub fn settle(barrier: impl Fn() -> bool) -> bool {
    barrier()
}

/// The purge takes away those of `pages` of which no block is live. `take` changes the owner of a
/// page, `is_unused` compares what is used with what is listed, and `is_as_it_was` asks whether
/// that list has the same first block still. `barrier` is the heavy one: false if it failed.
/// `give_back` undoes `take`, and leaves the page out of `pages` from then on.
pub fn take_away<P: Copy>(
    pages: impl Iterator<Item = P> + Clone,
    barrier: impl Fn() -> bool,
    take: impl Fn(P),
    is_unused: impl Fn(P) -> bool,
    is_as_it_was: impl Fn(P) -> bool,
    give_back: impl Fn(P),
) {
    pages.clone().for_each(take);
    let reached = barrier();
    pages.clone().filter(|&page| !reached || !is_unused(page)).for_each(&give_back);
    let reached = reached && settle(barrier);
    pages.filter(|&page| !reached || !is_as_it_was(page)).for_each(give_back);
}
