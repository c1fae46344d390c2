//! Heaps of threads that live but make no calls: a purge gives up what is unused there.
//!
//! A thread that sleeps cannot give anything up itself. So a purge keeps it out of the slow paths
//! of its heap for a moment (`proto::pause`), and does in its place what only the holder may do
//! there:
//! - It gives up what is wholly free: retired pages, cached pages and cached large blocks.
//! - It merges the remote frees of pages of which no block but these is used, so that these pages
//!   are wholly free.
//! - It parks the pages of a list if the only blocks of them that are not free are on that list.
//!   The list stays as it is: the thread takes these blocks as before, and frees them
//!   as blocks of a parked page. The list may have all blocks of a page.
//!
//! The purge looks only at heaps whose holders have done nothing on slow paths for the decay
//! (`SharedHeap::work`). A thread may go on by the fast paths of small blocks alone, which do
//! not count as work: it frees its blocks, say, and sleeps again. So the purge looks again after
//! twice the decay, four times and so on, up to `LONGEST_WAIT`.
//!
//! Rules
//! 1. The calling thread makes a pass of the purge. It uses the fields of a heap that it keeps
//!    paused, but for those of the fast path: the lists of the front, and the list and countdown of
//!    pages that the heap owns.
//! 2. The holder may be in the middle of a free by the fast path: it has read that the page is its
//!    own, but has not counted the block yet. So the purge first takes the page away, with a heavy
//!    barrier. From then on a free goes to the new owner, unless it began before. Then the purge
//!    compares the blocks that are used with those on the heap's list. If they are as many, no
//!    block of the page is live, so no free of one is under way, and none can begin before the
//!    program takes a block from the list. Else the page goes back to its owner.
//! 3. So the owner of a page of a paused heap may name the parked pages for a moment. A free that
//!    read its own heap does not read the owner again.
//! 4. A page of which all used blocks are remote frees that the purge has gathered needs no such
//!    step: none of its blocks is live or on the heap's list.
//! 5. The reads of rules 2 and 4 meet a free or an allocation under way. What they read is one of
//!    these:
//!    - The lists of the front, the countdowns of pages, and what says where a block of a page
//!      starts. Only the owner writes these words. They are words of `base::word`, so that the
//!      purge reads some value that the word had. `proto::take_away` says why that is enough.
//!    - The links of listed blocks. They are such words too. But the thread may take the block, and
//!      then the program writes there by plain stores, or the block is the anchor of a batch. No
//!      allocator can make the program's stores atomic, so this race is accepted. What the purge
//!      read may be any number, so `listed` follows it only to metadata that stays. It then
//!      decides nothing: the first block of the list is another one by then, and the page
//!      goes back (`take_away` rules 4 and 5).
//! 6. A heavy barrier may reach the one thread alone whose number the heap had before the pause
//!    (`os::HeavyBarriers`). After it the purge asks whether that thread is still the holder. If
//!    another one became the holder meanwhile, it has told so, or it sees the pause (`pause` rule
//!    4). The holder may give a paused heap up. The next one waits: before it takes or frees a
//!    block it enters a slow path (`Heap::settle`, `Heap::collect`).

use crate::backend::arena::{self, SEGMENT};
use crate::backend::check;
use crate::backend::page::{self, Block, FIRST_LISTED, Kind, Meta, PageState};
use crate::backend::remote_batch::RemoteBatch;
use crate::backend::segment;
use crate::base::size_class::CLASSES;
use crate::base::sync::Ordering::{Acquire, Relaxed};
use crate::base::sync::fence;
use crate::base::sync::plain::{AtomicU32, AtomicU64, AtomicUsize};
use crate::heap::Heap;
use crate::heap::reclaim::whole::Gathered;
use crate::heap::reclaim::{LONGEST, parked};
use crate::heap::shared::SharedHeap;
use crate::os::{self, HeavyBarriers};
use crate::proto::heap_state::With;
use crate::proto::take_away;
use core::cell::Cell;
use core::ptr::null_mut;

/// Bytes in pages of heaps that worked lately, when a pass last looked.
#[unsafe(link_section = ".data.hakmem")]
static AHEAD: AtomicUsize = AtomicUsize::new(0);

/// So many blocks at the beginning of a list that frees go to are looked at for their pages: all of
/// most lists. The time is that of the square of it, and the heap is paused meanwhile.
const LIST_PAGES: usize = 64;

/// In so few bytes there is little to find.
const LITTLE: usize = 16 << 20;

/// The purge waits for 2 to the power of this decays between two looks, at most …
const LONGEST_WAIT: u32 = 6;

/// … and so many ms at least, where the decay is shorter or 0.
const LEAST_WAIT: u32 = 20;

/// The scavenger waits for so many looks at a heap. Later ones are made by passes that have another
/// reason.
const EXPECTED_LOOKS: u32 = 3;

/// The bytes in which a later pass may find what is unused: those in pages of heaps that worked
/// lately. A hint; 0 if they are few.
pub fn bytes_ahead() -> usize {
    AHEAD.load(Relaxed).saturating_sub(LITTLE)
}

/// Counts anew, in the child of a fork.
pub fn after_fork() {
    AHEAD.store(0, Relaxed);
}

/// What the passes of the purge saw of a heap. All zero bytes are: nothing yet.
pub struct Seen {
    /// `SharedHeap::work`.
    work: AtomicU64,
    /// When a pass first saw this, or last looked, in coarse milliseconds.
    at: AtomicU32,
    /// How often passes have looked since `work` changed.
    looks: AtomicU32,
}

/// Whether a pass of the purge may pause heaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pauses {
    /// It is the scavenger's.
    Yes,
    /// The program asked for all that is free, whatever earlier passes saw.
    Always,
    /// It is one of the program's threads, which may have a filter for system calls.
    No,
}

/// Gives up what is unused in those of `heaps` whose holders have done nothing on slow paths for
/// `decay` ms at `now`. Not in the calling thread's. O(heaps, and the pages that are given up).
pub fn give_up_all(
    heaps: impl Iterator<Item = &'static SharedHeap>,
    now: u32,
    decay: u32,
    pauses: Pauses,
    goes_on: impl Fn() -> bool + Copy,
) {
    let own = With::Thread(os::thread_token());
    let mut barriers = None;
    let mut ahead = 0;
    for heap in heaps {
        heap.look_at_untold();
        if heap.state().with() == own {
            continue;
        }
        let seen = heap.seen();
        let is_now = seen.is_due(heap, now, decay, pauses) && pauses != Pauses::No && goes_on();
        // Where there is no barrier, as under a filter that the process made, a later pass finds
        // nothing either.
        let mut comes = !is_now;
        if is_now && let Some(barriers) = barriers.get_or_insert_with(HeavyBarriers::get) {
            let give_up = |heap: &'static Heap, barrier: &dyn Fn() -> bool| {
                give_up(heap, barrier, goes_on);
                // A sleeping holder would not tell of it.
                heap.home.tell();
                // What was given up counts as work too.
                seen.work.store(heap.shared().work(), Relaxed);
            };
            while_paused(heap, barriers, give_up);
            // One that could not be paused may be later.
            seen.at.store(now, Relaxed);
            seen.looks.store(seen.looks.load(Relaxed).saturating_add(1), Relaxed);
            comes = true;
        }
        if comes && seen.looks.load(Relaxed) < EXPECTED_LOOKS {
            ahead += heap.counts().page_bytes();
        }
    }
    // Of pages that others end the counts of their heap do not tell.
    AHEAD.store(ahead.min(segment::in_use() * SEGMENT), Relaxed);
}

impl Seen {
    /// True if the holder has done nothing on slow paths for `decay` ms, as far as passes have
    /// seen, and if the next look is due. Remote frees do not wait for that.
    fn is_due(&self, heap: &SharedHeap, now: u32, decay: u32, pauses: Pauses) -> bool {
        let work = heap.work();
        if self.work.swap(work, Relaxed) != work {
            self.at.store(now, Relaxed);
            self.looks.store(0, Relaxed);
        }
        let looks = self.looks.load(Relaxed);
        let wait = if looks == 0 || heap.owner().waiting_bytes() != 0 {
            decay
        } else {
            decay.max(LEAST_WAIT).saturating_mul(1 << looks.min(LONGEST_WAIT))
        };
        pauses == Pauses::Always || os::age(now, self.at.load(Relaxed)) >= wait
    }
}

/// Runs `f` while the holder of a heap stays out of its slow paths. Not if it is in one, or cannot
/// be kept out.
fn while_paused(
    heap: &'static SharedHeap,
    barriers: &HeavyBarriers,
    f: impl FnOnce(&'static Heap, &dyn Fn() -> bool),
) {
    let holder = heap.number();
    let is_live = || matches!(heap.state().with(), With::Thread(_));
    heap.pause().stop();
    let barrier = || barriers.pass(holder);
    let is_same = barrier() && is_live() && heap.number() == holder;
    // A heap that had other holders meanwhile is seen as the last of them left it.
    fence(Acquire);
    let is_paused = is_same && heap.pause().is_out();
    if is_paused {
        // SAFETY: the holder stays out of its slow paths until `resume` (rule 6). What is used of
        // the heap until then is what rule 1 names.
        f(unsafe { heap.holder() }, &barrier);
    }
    heap.pause().resume();
}

/// Gives up what is unused in a paused heap.
fn give_up(heap: &'static Heap, barrier: &dyn Fn() -> bool, goes_on: impl Fn() -> bool) {
    let mut waiting = Gathered::take(&heap.owner, &goes_on);
    waiting.end_whole();
    // SAFETY: `take_out` passes batches of this thread.
    let complete =
        waiting.take_out(|batch, page| used(page) == Some(unsafe { RemoteBatch::length(batch) }));
    if !complete.is_null() && take_away::settle(barrier) {
        // SAFETY: the batches come from the heap's inbox, and belong to this thread. The pages have
        // no other used block, so the holder is in the middle of no free there (rule 4).
        unsafe { heap.receive(complete) };
    } else if !complete.is_null() {
        waiting.add_again(complete);
    }
    heap.give_up_unused();
    // The first block of the list of each class, when `is_unused` last looked.
    let firsts = [const { Cell::new(null_mut()) }; CLASSES];
    let is_unused = |class: usize, page: &Meta| {
        let first = take_away::first(|order| heap.owner.front.lists[class].free.glance_by(order));
        firsts[class].set(first);
        let elsewhere = used(page).and_then(|used| used.checked_sub(waiting.of(page)));
        elsewhere.is_some_and(|count| is_listed(first, class, page, count))
    };
    let is_as_it_was =
        |class: usize| heap.owner.front.lists[class].free.glance() == firsts[class].get();
    // A list of blocks up to `SMALL_MAX` is of one page of the heap, and of blocks of other owners'
    // pages. One of larger blocks is of as many pages as the program freed the last blocks of.
    for nth in (0..LIST_PAGES).take_while(|_| goes_on()) {
        let mut pages = [const { Cell::new(None) }; CLASSES];
        let mut found = false;
        let classes = if nth == 0 { 0 } else { FIRST_LISTED };
        for (class, entry) in pages.iter_mut().enumerate().skip(classes) {
            *entry =
                Cell::new(page_of_list(heap, class, nth).filter(|page| is_unused(class, page)));
            found |= entry.get().is_some();
        }
        if found {
            // SAFETY: `page_of_list` found the pages to be the heap's own, and it is paused.
            unsafe {
                parked::park_unused(
                    heap.owner(),
                    barrier,
                    &pages,
                    is_unused,
                    is_as_it_was,
                    |class, page| {
                        heap.let_go(class, page);
                    },
                );
            }
        }
    }
    waiting.put_back();
}

/// The used blocks of a page in a queue. None: the page is elsewhere, or the holder may be on its
/// way to the slow path with one of its blocks.
fn used(page: &Meta) -> Option<u32> {
    if !matches!(page.state.get(), PageState::Queue | PageState::Candidate) {
        return None;
    }
    u32::try_from(page.list.until_slow.glance())
        .ok()
        .filter(|&left| left > 0)
        .map(|left| left + u32::from(page.park_at.get()))
}

/// The page of the `nth` block on the heap's list of `class`, if the heap owns it.
fn page_of_list(heap: &Heap, class: usize, nth: usize) -> Option<&'static Meta> {
    let first = take_away::first(|order| heap.owner.front.lists[class].free.glance_by(order));
    let (_, page) = listed(first, class).nth(nth)?;
    (page.owner() == heap.owner()).then_some(page)
}

/// The blocks of `class` on the list that begins with `first`, and their pages. It ends at a word
/// that is no block of the class: the holder may take blocks meanwhile, and the program write them.
fn listed(first: *mut Block, class: usize) -> impl Iterator<Item = (*mut Block, &'static Meta)> {
    let mut block = first;
    core::iter::from_fn(move || {
        if !arena::is_for_ever(block.addr()) {
            return None;
        }
        let page = page::lookup(block.cast())?.head_of_block();
        let is_of_class = page.kind() == Kind::Page && usize::from(page.class.glance()) == class;
        if !is_of_class || !check::is_block_of(page, block) {
            return None;
        }
        let found = block;
        // SAFETY: the block lies in the carved part of a page, whose memory is readable. The
        // program may have it and write it meanwhile: rule 5.
        block = Block::decoded(block, unsafe { (*block).next.glance() });
        Some((found, page))
    })
    .take(LONGEST as usize)
}

/// True if `count` blocks of the list of `class` that begins with `first` are of `page`. O(list).
fn is_listed(first: *mut Block, class: usize, page: &Meta, count: u32) -> bool {
    listed(first, class).filter(|(_, of)| core::ptr::eq(*of, page)).count() == count as usize
}

impl Heap {
    /// Takes a page that is being parked out of its queue.
    fn let_go(&self, class: usize, page: &Meta) {
        self.withdraw(page);
        self.queue[class].remove(page);
        self.pages.set(self.pages.get() - 1);
        self.counts.parked.add(1);
    }
}

// Miri has no fork, and models have their own fork.
#[cfg(all(test, not(any(miri, loom, shuttle))))]
mod tests {
    extern crate std;

    use super::*;
    use crate::api::c;
    use crate::purge;
    use crate::testing::in_child;
    use std::sync::Barrier;

    /// A pass that may pause no heap leaves those that are due to the next one that may.
    #[test]
    fn what_a_pass_without_pauses_leaves_is_expected() {
        in_child(|| {
            let barrier = Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..3 * LITTLE / 1000 {
                        // SAFETY: `malloc` takes any size.
                        assert!(unsafe { !c::malloc(1000).is_null() });
                    }
                    barrier.wait();
                    barrier.wait();
                });
                barrier.wait();
                purge::all();
                let ahead = bytes_ahead();
                barrier.wait();
                assert!(ahead > LITTLE, "{ahead}");
            });
        });
    }
}
