//! A heap as any thread may see it.
//!
//! A [`Heap`] is full of cells, so it is for one thread at a time: its holder. All other threads
//! have a [`SharedHeap`] in its place, which gives out only fields that are made for many threads.
//! The two are one piece of memory.
//!
//! | thread | has | by |
//! |---|---|---|
//! | the one that adopted the heap | `Heap` | its thread's word, from `adopt` to `give_up` |
//! | one that tidies an idle heap | `Heap` | `tidy`, `hold` or `seize`, until `let_go` |
//! | a purge, for the slow paths alone | `Heap` | `pause`, until `resume` (`reclaim::sleeping`) |
//! | the only one of a fork's child | `Heap` | no other thread is there |
//! | any, at any time | `SharedHeap` | `all_heaps`, a number of the pool |
//!
//! The functions in the first two rows are those of `HeapState`.
//!
//! Rule
//! 1. The fields that `SharedHeap` gives out are atomics, or made of them. Counters have one
//!    writer, the holder.

use super::Heap;
use super::counts::{Counts, HeapEvent};
use super::reclaim::sleeping::Seen;
use crate::backend::owner::{Front, Owner};
use crate::base::size_class::{CLASSES, FIRST_LONG};
use crate::base::sync::{AtomicPtr, AtomicU64, Ordering::Relaxed};
use crate::large::huge::kept::Kept;
use crate::os;
use crate::proto::heap_state::HeapState;
use crate::proto::pause::{Pause, changed_hands};
use core::ptr::from_ref;

/// A heap that may be another thread's.
#[repr(transparent)]
pub struct SharedHeap(Heap);

// SAFETY: the methods give out only fields that many threads may use (rule 1). `holder` gives out
// the rest, and is unsafe.
unsafe impl Sync for SharedHeap {}

/// Frees for other heaps that a heap's threads have sent.
pub struct Sent {
    pub blocks: u64,
    pub batches: u64,
    pub chains: u64,
}

impl SharedHeap {
    /// The heap for its holder.
    ///
    /// # Safety
    /// The calling thread holds the heap for as long as it uses the reference: see the table above.
    #[inline(always)]
    pub unsafe fn holder(&self) -> &Heap {
        &self.0
    }

    /// Notes the end of a full page of the heap that did not go by way of the heap.
    pub fn note_ended(&self) {
        // Relaxed: a number alone. The heap counted the page before it made it full, and the caller
        // has seen that it is full. So the heap never takes off more pages than it counted.
        self.0.ended.fetch_add(1, Relaxed);
    }

    /// Who holds it.
    #[inline(always)]
    pub fn state(&self) -> &HeapState {
        &self.0.state
    }

    /// The numbers of its process and thread (`pool` rule 2).
    pub fn thread(&self) -> &AtomicU64 {
        &self.0.thread
    }

    /// The number that libc has for the thread of its holder, or of its last one; 0: unknown.
    pub fn number(&self) -> u32 {
        self.0.number.load(Relaxed)
    }

    /// Notes the number that libc has for the calling thread, which holds the heap. Not where it
    /// may have a filter for system calls that hakmem does not know: nothing asks for it there.
    pub fn note_number(&self) {
        if os::sees_filters() {
            // Relaxed: `changed_hands` orders it.
            self.0.number.store(os::libc_number(), Relaxed);
            changed_hands();
        }
    }

    /// The heap as an owner of pages, whose inbox any thread may use.
    pub fn owner(&self) -> &Owner {
        &self.0.owner
    }

    /// The count of merges when a purge last looked into the inbox. Only the thread that makes a
    /// pass changes it.
    pub fn merges_seen(&self) -> &AtomicU64 {
        &self.0.merges_seen
    }

    /// Where its holder is inside.
    pub fn pause(&self) -> &Pause {
        &self.0.pause
    }

    /// What a purge last saw of the heap (`reclaim::sleeping`). Only the thread that makes a pass
    /// changes it.
    pub fn seen(&self) -> &Seen {
        &self.0.seen
    }

    /// The link of the pool.
    #[inline(always)]
    pub fn link(&self) -> &AtomicU64 {
        &self.0.link
    }

    /// The heap made before this one.
    pub fn next_heap(&self) -> &AtomicPtr<SharedHeap> {
        &self.0.next_heap
    }

    /// See [`Home::look_at_untold`](crate::backend::segment::Home::look_at_untold).
    pub fn look_at_untold(&self) {
        self.0.home.look_at_untold();
    }

    /// The change of dirty bytes that the process's total does not have yet.
    pub fn untold_dirty_bytes(&self) -> i64 {
        self.0.home.untold_dirty_bytes()
    }

    /// The node of memory that its thread is on, or its last thread was.
    pub fn node(&self) -> usize {
        self.0.home.node()
    }

    /// The huge blocks that it keeps.
    pub fn huge(&self) -> &Kept {
        &self.0.huge
    }

    /// Its counters.
    pub fn counts(&self) -> &Counts {
        &self.0.counts
    }

    /// How many blocks of `class` came onto its list by a free, and are still there or were taken
    /// again; of a class up to `SMALL_MAX` since the heap last counted them.
    pub fn freed_to_list(&self, class: usize) -> u64 {
        self.0.counts.reused(class) + u64::from(self.0.owner.front.lists[class].kept())
    }

    /// Blocks that were put on its lists, of all classes.
    pub fn listed(&self) -> u64 {
        self.0.counts.sum(HeapEvent::Listed) + self.freed_to_lists(0)
    }

    /// A number that changes when the holder works on slow paths, or allocates and frees blocks
    /// above `SMALL_MAX`. O(classes).
    pub fn work(&self) -> u64 {
        self.0.counts.work() + self.freed_to_lists(FIRST_LONG)
    }

    fn freed_to_lists(&self, from: usize) -> u64 {
        (from..CLASSES).map(|class| self.freed_to_list(class)).sum()
    }

    /// The counts of its remote frees.
    pub fn sent(&self) -> Sent {
        let outgoing = &self.0.outgoing;
        Sent {
            blocks: outgoing.sent.get(),
            batches: outgoing.batches_sent.get(),
            chains: outgoing.chains_sent.get(),
        }
    }

    /// The change of live bytes that the process's total does not have yet.
    pub fn unreported(&self) -> i64 {
        self.0.live.get()
    }

    /// True if other threads have freed blocks that are not merged yet.
    pub fn has_remote_frees(&self) -> bool {
        !self.0.owner.inbox().is_empty()
    }

    /// True in the middle of a change (`heap` rule 3). The holder calls this from a signal handler,
    /// and other threads call it after the holder has ended.
    pub fn is_busy(&self) -> bool {
        self.0.pause.is_inside()
    }

    /// True if the heap is the calling thread's. `front` is the thread's word.
    pub fn has_front(&self, front: *const Front) -> bool {
        core::ptr::eq(&self.0.owner.front, front)
    }
}

impl Heap {
    /// The heap as others see it.
    #[inline(always)]
    pub fn shared(&self) -> &SharedHeap {
        // SAFETY: `SharedHeap` is a transparent wrapper of `Heap`, so both have the same layout.
        unsafe { &*from_ref(self).cast::<SharedHeap>() }
    }
}
