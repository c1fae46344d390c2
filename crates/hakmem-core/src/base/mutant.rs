//! Deliberate mistakes: each model must fail once the mistake that it is there to find is made.
//!
//! The places where a mistake can be made ask [`is`] or [`relaxed_if`]. In a model the answer is what the test chose;
//! everywhere else it is a constant, and the question costs nothing.

use crate::base::sync::Ordering;

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// `proto::inbox`: a chain is published without a release.
    InboxPublishesRelaxed,
    /// `proto::inbox`: chains are taken without an acquire.
    InboxTakesRelaxed,
    /// `proto::inbox`: what is taken stays in the inbox too.
    InboxKeepsWhatItGives,
    /// `proto::page_list`: a block is put in without order.
    PageListAddsRelaxed,
    /// `proto::page_list`: emptied without order.
    PageListOpensRelaxed,
    /// `proto::page_list`: the link is read when another may write it already.
    PageListReadsLinkLate,
    /// `proto::slots`: the compare-and-swap has no order.
    SlotsCasRelaxed,
    /// `proto::slots`: the purger looks at DIRTY slots without making them its own.
    SlotsPurgeWithoutOwning,
    /// `proto::slots`: a segment is retired by a store.
    SlotsRetireByStore,
    /// `proto::slots`: a claimed slot stays DIRTY.
    SlotsStayEmpty,
    /// `proto::id_stack`: the word has no tag.
    PoolHasNoTag,
    /// `proto::id_stack`: a node is put in without a release.
    PoolPushesRelaxed,
    /// `proto::id_stack`: a node is taken without an acquire.
    PoolPopsRelaxed,
    /// `proto::lock`: let go without a release.
    LockReleasesRelaxed,
    /// `proto::lock`: taken without an acquire.
    LockAcquiresRelaxed,
    /// `proto::lock`: who tries in vain unlocks.
    LockTriesAndReleases,
    /// `proto::heap_state`: the adopter does not ask whether somebody tidies the heap.
    HeapStateAdoptsWhileTidied,
    /// `proto::heap_state`: who tidied a heap that was popped meanwhile does not put it back.
    HeapStateForgetsPopped,
    /// `proto::heap_state`: a heap is adopted without an acquire.
    HeapStateAdoptsRelaxed,
    /// `proto::heap_state`: a heap is let go without a release.
    HeapStateEndsRelaxed,
    /// `proto::heap_state`: who tidies does not ask whether the heap is idle.
    HeapStateTidiesLive,
    /// `proto::heap_state`: a lost heap is adopted.
    HeapStateAdoptsLost,
    /// `proto::slots`: the purger's look at DIRTY slots has no order.
    SlotsPurgeAtAGlance,
    /// `proto::slots`: free slots are counted without order.
    SlotsCountAtAGlance,
    /// `proto::hints`: the look that spares a step has no order.
    HintsListAtAGlance,
    /// `proto::hints`: the summary is put right without a second look.
    HintsLookOnce,
    /// `proto::hints`: that look has no order.
    HintsLookAgainAtAGlance,
    /// `proto::owner`: named without a release.
    OwnerIsNamedRelaxed,
    /// `proto::owner`: read without an acquire, to be reached.
    OwnerIsReadRelaxed,
    /// `proto::bounds`: before there is an arena, it begins at address 0.
    BoundsBeginAtZero,
    /// `proto::run_bin`: listed without a second look.
    RunBinChecksOnce,
    /// `proto::worker`: ended without a second look.
    WorkerLooksOnce,
    /// `proto::worker`: ended without the fence before the second look.
    WorkerEndsUnfenced,
    /// `proto::worker`: called without a fence.
    WorkerCallsUnfenced,
    /// `proto::worker`: begun while the last thread is still there.
    WorkerForgetsTheLast,
    /// `proto::worker`: who holds the worker off asks for its thread alone, which may be about to be made.
    WorkerGoneByThread,
    /// `proto::worker`: that the thread has ended is seen without an acquire.
    WorkerGoneRelaxed,
    /// `proto::journal`: a record's number is not odd while it changes.
    JournalWritesUnmarked,
    /// `proto::journal`: written without the fence behind the odd number.
    JournalMarksUnfenced,
    /// `proto::journal`: the number is put there without a release.
    JournalFinishesRelaxed,
    /// `proto::journal`: the first look at the number has no acquire.
    JournalReadsRelaxed,
    /// `proto::journal`: the second look is not behind a fence.
    JournalChecksUnfenced,
    /// `proto::journal`: there is no second look.
    JournalLooksOnce,
    /// `heap`: blocks of pages that are another's by now are merged all the same.
    HeapKeepsStrayBatches,
    /// `heap`: a thread that ends keeps what it freed for others.
    HeapEndsUnsent,
    /// `thread`: fork's handlers leave a lock out.
    ForkLeavesALock,
    /// `purge`: the scavenger does not end before a fork, and is believed to be there in the child.
    ForkKeepsScavenger,
}

#[cfg(any(loom, shuttle))]
std::thread_local! {
    /// One for each test: the threads of a model are coroutines of the test's.
    static MADE: core::cell::Cell<Option<Mutant>> = const { core::cell::Cell::new(None) };
}

#[cfg(loom)]
std::thread_local! {
    static LOADS_ARE_CAS: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
}

/// From now on, loads that a compare-and-swap follows are such steps too, or loads again: see `sync::look`.
#[cfg(loom)]
pub fn make_loads_cas(on: bool) {
    LOADS_ARE_CAS.set(on);
}

/// What `sync::look` compares with and writes.
#[cfg(loom)]
pub(crate) trait Zero {
    const ZERO: Self;
}
#[cfg(loom)]
impl Zero for u32 {
    const ZERO: Self = 0;
}
#[cfg(loom)]
impl Zero for u64 {
    const ZERO: Self = 0;
}
#[cfg(loom)]
impl<T> Zero for *mut T {
    const ZERO: Self = core::ptr::null_mut();
}

#[cfg(loom)]
pub(crate) fn loads_are_cas() -> bool {
    LOADS_ARE_CAS.get()
}

/// Makes a mistake, from now on, in what the calling test models.
#[cfg(any(loom, shuttle))]
pub fn make(mutant: Mutant) {
    MADE.set(Some(mutant));
}

/// Whether a mistake is to be made.
#[cfg(any(loom, shuttle))]
pub fn is(mutant: Mutant) -> bool {
    MADE.get() == Some(mutant)
}

/// Whether a mistake is to be made: not outside a model.
#[cfg(not(any(loom, shuttle)))]
#[inline(always)]
pub const fn is(_: Mutant) -> bool {
    false
}

/// `right`, or no order at all.
#[cfg(any(loom, shuttle))]
pub fn relaxed_if(mutant: Mutant, right: Ordering) -> Ordering {
    if is(mutant) { Ordering::Relaxed } else { right }
}

/// `right`, outside a model.
#[cfg(not(any(loom, shuttle)))]
#[inline(always)]
pub const fn relaxed_if(_: Mutant, right: Ordering) -> Ordering {
    right
}
