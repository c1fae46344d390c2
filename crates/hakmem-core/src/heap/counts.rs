//! The counters of a heap. Only slow paths count. The lists that move between pages and heap give
//! the number of blocks allocated and freed:
//!
//! ```text
//! allocations   = blocks put on the heap's list − blocks still on it
//! frees found   = blocks put on the heap's list − existing blocks
//!                 (a block comes onto the list a second time only after a free)
//! existing      = blocks carved − blocks of pages given up
//! ```
//!
//! Blocks of other owners that the heap keeps (`free::scattered`) count as put on its list, too.
//!
//! Frees of blocks above `SMALL_MAX` go to the heap's list. They count among those put there: the
//! ones that the list still has by its countdown, the others in `reused`. Frees of smaller blocks
//! that go there count by the countdown, too, until a slow path adds them to `Listed`.
//!
//! The counters of a class have 32 bits, so that they fit into the heap. Long before a counter
//! could wrap, half of its range moves to a wider one.

use super::shared::SharedHeap;
use crate::backend::arena::SLOT;
use crate::base::counter::Counter;
use crate::base::renew::Renew;
use crate::base::size_class::{CLASSES, FIRST_LONG, SIZES, span_of};
use crate::base::sync::{AtomicI64, AtomicU32, Ordering::Relaxed};

/// What a heap counts for each class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeapEvent {
    /// Blocks put on the heap's list.
    Listed,
    /// Lists taken from pages, and from holes in them.
    Takes,
    /// Groups of blocks carved at once.
    Carves,
    /// Pages that became full.
    Filled,
    /// Full pages that went back into the queue.
    Unfulled,
    /// Pages claimed from segments.
    Claims,
    /// Pages made of empty pages that the heap had cached.
    Reuses,
    /// Empty pages given up.
    Empties,
    /// Blocks that other threads freed, and this heap merged.
    Received,
}

/// Number of [`HeapEvent`]s.
pub const EVENTS: usize = 9;
/// The amount that moves from a counter to the wider one at a time.
pub const HALF: u32 = 1 << 31;

/// Halves that moved, of all heaps together.
pub static MOVED: [[AtomicU32; EVENTS]; CLASSES] =
    [const { [const { AtomicU32::new(0) }; EVENTS] }; CLASSES];
/// In the child of a fork: the figures at the moment when the child reset its counters.
pub static BEFORE: [Before; CLASSES] = [const {
    Before { blocks: AtomicI64::new(0), pages: AtomicI64::new(0), full: AtomicI64::new(0) }
}; CLASSES];

pub struct Before {
    /// Existing blocks less blocks put on lists.
    pub blocks: AtomicI64,
    pub pages: AtomicI64,
    pub full: AtomicI64,
}

/// The counters of one heap. Those of the largest blocks come last.
#[repr(C)]
pub struct Counts {
    /// Halves that moved from the counters of this heap, over all classes.
    pub moved: [Counter<u32>; EVENTS],
    /// Refills from another page of the queue than the first.
    pub next_pages: Counter<u64>,
    /// Refills from a hole.
    pub holes_filled: Counter<u64>,
    /// Pages that the heap parked.
    pub parked: Counter<u64>,
    /// Parked pages that the heap took.
    pub unparked: Counter<u64>,
    /// Times that the heap merged its inbox.
    pub merges: Counter<u64>,
    /// Remote batches merged.
    pub batches: Counter<u64>,
    /// Large blocks allocated from a segment.
    pub large_fresh: Counter<u64>,
    /// Large blocks allocated from the heap's cache.
    pub large_hits: Counter<u64>,
    /// Large blocks freed by this heap's threads.
    pub large_freed: Counter<u64>,
    /// Existing blocks, by class: carved, and their page is not given up.
    pub existing: [Counter<i64>; CLASSES],
    pub events: [[Counter<u32>; EVENTS]; CLASSES],
    /// For each class above `SMALL_MAX`: how many blocks were taken off the heap's list to which a
    /// free had put them.
    pub reused: [Counter<u64>; CLASSES - FIRST_LONG],
}

impl Counts {
    /// How many blocks of `class` were taken off the heap's list to which a free had put them.
    #[inline(always)]
    pub fn reused(&self, class: usize) -> u64 {
        self.reused.get(class.wrapping_sub(FIRST_LONG)).map_or(0, Counter::get)
    }

    /// Adds `n` to a counter, and returns its value.
    #[inline(always)]
    pub fn note(&self, class: usize, what: HeapEvent, n: u32) -> u32 {
        let counter = &self.events[class][what as usize];
        let count = counter.get().wrapping_add(n);
        counter.set(count);
        count
    }

    /// The value of the counter without the halves that moved: enough to base decisions on.
    #[inline(always)]
    pub fn recent(&self, class: usize, what: HeapEvent) -> u32 {
        self.events[class][what as usize].get()
    }

    /// Subtracts `n` blocks from those put on lists: the heap put them back unused.
    pub fn unlist(&self, class: usize, n: u32) {
        let handed = &self.events[class][HeapEvent::Listed as usize];
        if handed.get() < n {
            MOVED[class][HeapEvent::Listed as usize].fetch_sub(1, Relaxed);
            self.moved[HeapEvent::Listed as usize]
                .set(self.moved[HeapEvent::Listed as usize].get().wrapping_sub(1));
            handed.set(handed.get() + HALF);
        }
        handed.set(handed.get() - n);
    }

    /// Moves full halves of the class's counters to the wide ones. The heap calls this before any
    /// of these counters can have counted 2³¹ since the last call.
    #[cold]
    #[inline(never)]
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub fn make_room(&self, class: usize) {
        for (what, counter) in
            self.events[class].iter().enumerate().filter(|(_, c)| c.get() >= HALF)
        {
            counter.set(counter.get() - HALF);
            MOVED[class][what].fetch_add(1, Relaxed);
            self.moved[what].set(self.moved[what].get().wrapping_add(1));
        }
    }

    /// Bytes of the pages that the heap has, or more. In the child of a fork without those that it
    /// had before. O(classes).
    pub fn page_bytes(&self) -> usize {
        let pages = |class| {
            let now = |what| i64::from(self.recent(class, what));
            (now(HeapEvent::Claims) + now(HeapEvent::Reuses) - now(HeapEvent::Empties)).max(0)
                as usize
        };
        (0..CLASSES).map(|class| pages(class) * span_of(SIZES[class]) as usize * SLOT).sum()
    }

    /// Large blocks allocated.
    pub fn large_allocated(&self) -> u64 {
        self.large_fresh.get() + self.large_hits.get()
    }

    /// A number that changes when the holder works on slow paths. O(classes).
    pub fn work(&self) -> u64 {
        let events = self.events.iter().flatten().map(|event| u64::from(event.get())).sum::<u64>();
        events
            + self.merges.get()
            + self.parked.get()
            + self.large_allocated()
            + self.large_freed.get()
    }

    /// The heap's total of an event, over all classes.
    pub fn sum(&self, what: HeapEvent) -> u64 {
        let moved = i64::from(self.moved[what as usize].get() as i32) * i64::from(HALF);
        let events = self.events.iter().map(|of| u64::from(of[what as usize].get())).sum::<u64>();
        events.wrapping_add_signed(moved)
    }

    /// Resets the counters, in the child of a fork. `listed` returns the number of blocks in the
    /// heap's list of a class, which are not allocated, and how many of them frees put there.
    pub fn reset(&self, listed: impl Fn(usize) -> (u64, u64)) {
        for (class, before) in BEFORE.iter().enumerate() {
            let now = |what| i64::from(self.recent(class, what));
            let pages = now(HeapEvent::Claims) + now(HeapEvent::Reuses) - now(HeapEvent::Empties);
            add(&before.pages, pages);
            add(&before.full, now(HeapEvent::Filled) - now(HeapEvent::Unfulled));
            let (listed, freed) = listed(class);
            let counted = listed.saturating_sub(freed);
            for (what, event) in self.events[class].iter().enumerate() {
                event.renew(if what == HeapEvent::Listed as usize { counted as u32 } else { 0 });
            }
            add(&before.blocks, self.existing[class].get() - listed as i64);
        }
        self.moved.iter().for_each(|moved| moved.renew(0));
        self.reused.iter().for_each(|reused| reused.renew(0));
        let rest = [
            &self.next_pages,
            &self.holes_filled,
            &self.parked,
            &self.unparked,
            &self.merges,
            &self.batches,
            &self.large_fresh,
            &self.large_hits,
            &self.large_freed,
        ];
        rest.iter().for_each(|counter| counter.renew(0));
    }
}

/// Resets the counters that heaps share, in the child of a fork, before the child resets those of
/// each heap. `given_up` says what others than heaps gave up of a class: `parked` resets its counts
/// of pages itself.
pub fn reset_all(given_up: impl Fn(usize) -> GivenUp) {
    for (class, before) in BEFORE.iter().enumerate() {
        let given_up = given_up(class);
        let moved =
            |what| i64::from(MOVED[class][what as usize].load(Relaxed) as i32) * i64::from(HALF);
        let pages = moved(HeapEvent::Claims) + moved(HeapEvent::Reuses) - moved(HeapEvent::Empties);
        add(&before.pages, pages - given_up.pages as i64);
        let full = moved(HeapEvent::Filled) - moved(HeapEvent::Unfulled);
        add(&before.full, full - given_up.full as i64);
        before.blocks.renew(-(given_up.blocks as i64));
        MOVED[class].iter().for_each(|moved| moved.renew(0));
    }
}

/// Adds `n` in the child of a fork, whose only thread this is.
fn add(sum: &AtomicI64, n: i64) {
    sum.renew(sum.load(Relaxed).wrapping_add(n));
}

/// What others than heaps gave up of a class.
pub struct GivenUp {
    /// Blocks that `parked` and `profile` ever gave up.
    pub blocks: u64,
    /// Pages that `parked` gave up since the last fork.
    pub pages: u64,
    /// Those of them that were full pages of a heap.
    pub full: u64,
}

/// The totals of a class over all heaps.
pub struct OfClass {
    /// The counts, indexed by [`HeapEvent`].
    pub events: [u64; EVENTS],
    /// Existing blocks. Blocks of pages that `parked` gave up are still included.
    pub existing: i64,
    /// Frees found. Frees of blocks whose pages `parked` gave up are not included.
    pub returned: i64,
    /// Pages. Pages that `parked` gave up are still included.
    pub pages: i64,
    /// Full pages.
    pub full: i64,
}

/// Adds up the counters of a class. `heaps` are all heaps.
#[inline(never)]
pub fn of_class(heaps: impl Iterator<Item = &'static SharedHeap>, class: usize) -> OfClass {
    let (mut events, mut existing) = ([0u64; EVENTS], 0);
    for (what, sum) in events.iter_mut().enumerate() {
        let moved = i64::from(MOVED[class][what].load(Relaxed) as i32);
        *sum = sum.wrapping_add_signed(moved * i64::from(HALF));
    }
    for heap in heaps {
        existing += heap.counts().existing[class].get();
        for (sum, counter) in events.iter_mut().zip(&heap.counts().events[class]) {
            *sum = sum.wrapping_add(u64::from(counter.get()));
        }
        let listed = &mut events[HeapEvent::Listed as usize];
        *listed = listed.wrapping_add(heap.freed_to_list(class));
    }
    let of = |what| events[what as usize] as i64;
    let before = &BEFORE[class];
    OfClass {
        existing,
        returned: of(HeapEvent::Listed) - existing + before.blocks.load(Relaxed),
        pages: of(HeapEvent::Claims) + of(HeapEvent::Reuses) - of(HeapEvent::Empties)
            + before.pages.load(Relaxed),
        full: of(HeapEvent::Filled) - of(HeapEvent::Unfulled) + before.full.load(Relaxed),
        events,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;
    use super::*;
    use std::sync::Mutex;

    /// `MOVED` belongs to the whole process, so one test at a time uses it.
    static TURN: Mutex<()> = Mutex::new(());

    fn zero() -> std::boxed::Box<Counts> {
        // SAFETY: all zero bytes are counters with the value zero.
        unsafe { std::boxed::Box::new(core::mem::zeroed()) }
    }

    #[test]
    fn counters_count_beyond_their_width() {
        let _turn = TURN.lock();
        let counts = zero();
        for round in 1..=5u64 {
            counts.note(3, HeapEvent::Takes, HALF - 1);
            counts.note(3, HeapEvent::Takes, 1);
            counts.note(4, HeapEvent::Takes, 7);
            counts.make_room(3);
            assert_eq!(counts.sum(HeapEvent::Takes), round * u64::from(HALF) + round * 7);
        }
        assert_eq!(counts.recent(3, HeapEvent::Takes), 0);
        let all = of_class(core::iter::empty(), 3).events[HeapEvent::Takes as usize];
        assert_eq!(all, 5 * u64::from(HALF), "the process's are moved with them");
    }

    #[test]
    fn what_was_put_back_unused_may_have_been_counted_long_ago() {
        let _turn = TURN.lock();
        let counts = zero();
        counts.note(0, HeapEvent::Listed, HALF);
        counts.make_room(0);
        counts.unlist(0, 5);
        assert_eq!(counts.sum(HeapEvent::Listed), u64::from(HALF) - 5);
        counts.note(0, HeapEvent::Listed, 9);
        assert_eq!(counts.sum(HeapEvent::Listed), u64::from(HALF) + 4);
    }

    /// The child's counts of events start at zero. Its numbers of pages and full pages go on.
    #[test]
    fn a_child_counts_from_what_there_is() {
        const CLASS: usize = CLASSES - 1;
        let _turn = TURN.lock();
        let of = || of_class(core::iter::empty(), CLASS);
        for (what, halves) in [
            (HeapEvent::Listed, 9),
            (HeapEvent::Claims, 20),
            (HeapEvent::Reuses, 7),
            (HeapEvent::Empties, 25),
            (HeapEvent::Filled, 6),
            (HeapEvent::Unfulled, 5),
        ] {
            MOVED[CLASS][what as usize].store(halves, Relaxed);
        }
        let half = i64::from(HALF);
        let before = of();
        assert_eq!(before.events[HeapEvent::Claims as usize], 20 * u64::from(HALF));
        assert_eq!((before.returned, before.pages, before.full), (9 * half, 2 * half, half));
        // Others gave up five pages, three of which were full, and eleven blocks.
        let given_up = |blocks, pages, full| GivenUp { blocks, pages, full };
        reset_all(|class| if class == CLASS { given_up(11, 5, 3) } else { given_up(0, 0, 0) });
        let after = of();
        assert_eq!(after.events, [0; EVENTS]);
        assert_eq!((after.returned, after.pages, after.full), (-11, 2 * half - 5, half - 3));
        let stands = &BEFORE[CLASS];
        [&stands.blocks, &stands.pages, &stands.full]
            .iter()
            .for_each(|stands| stands.store(0, Relaxed));
    }
}
