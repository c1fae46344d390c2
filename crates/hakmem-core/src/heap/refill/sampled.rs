//! Refills while the heap profile or sampled guards are on: a list ends where a sample is due
//! (`profile`, `guard`). Behind a filter only the profile has samples.

use crate::backend::arena::SLOT;
use crate::backend::check;
use crate::backend::page::{self, Block, Meta};
use crate::base::size_class::{CLASSES, FIRST_LONG, SIZES, span_of};
use crate::guard::{self, Owner, points};
use crate::heap::counts::{HALF, HeapEvent};
use crate::heap::{Found, Heap};
use crate::os;
use crate::profile::{self, Sample, Sampler, WRAP};
use crate::proto::inbox::Link;
use core::hint::assert_unchecked;
use core::ptr::{NonNull, null_mut};

// Counts are compared modulo `WRAP`, so the half that `make_room` subtracts changes no comparison.
const _: () = assert!(HALF == WRAP && points::WRAP == WRAP);

/// For each class the largest number of blocks that a refill returns: all blocks of a page.
const LONGEST: [u32; CLASSES] = {
    let mut longest = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        longest[class] = span_of(SIZES[class]) * SLOT as u32 / SIZES[class];
        class += 1;
    }
    longest
};

impl Heap {
    /// The heap's sampler; the first call makes it. None: there is no memory for one.
    fn sampler(&self) -> Option<&'static Sampler> {
        // SAFETY: the pointer is null or that of a sampler, which is never freed.
        if let Some(sampler) = unsafe { self.sampler.get().as_ref() } {
            return Some(sampler);
        }
        let made = Sampler::make()?;
        self.sampler.set(made);
        Some(made)
    }

    /// The count of blocks that were put on the list by refills, or taken from it again after a
    /// free. Of small blocks those count that may yet come onto the list by frees. By it a sampler
    /// knows where it is. It uses the count modulo `WRAP`.
    #[inline(always)]
    fn handed(&self, class: usize) -> u32 {
        let list = &self.owner.front.lists[class];
        let back =
            if class < FIRST_LONG { list.most.get() as u64 } else { self.counts.reused(class) };
        self.counts.recent(class, HeapEvent::Listed).wrapping_add(back as u32)
    }

    /// How many blocks of `class` come before the next sample; 0: that has to be asked.
    pub(in crate::heap) fn blocks_to_sample(&self, class: usize) -> u32 {
        if profile::run() | guard::every() == 0 {
            return u32::MAX;
        }
        let (is_profiled, is_guarded) = (profile::is_on(), guard::is_at_work());
        // SAFETY: the pointer is null or that of a sampler, which is never freed.
        let sampler = unsafe { self.sampler.get().as_ref() };
        let left = |sampler: &Sampler| {
            let handed = self.handed(class);
            let profiled = if is_profiled { sampler.left(class, handed) } else { u32::MAX };
            let guarded = &sampler.guards;
            let guarded = match is_guarded {
                true if guarded.is_ahead(class, handed) => guarded.left(class, handed),
                true => 0,
                false => u32::MAX,
            };
            profiled.min(guarded)
        };
        if is_profiled || is_guarded { sampler.map_or(0, left) } else { u32::MAX }
    }

    /// [`Heap::refill`] while allocations are sampled.
    #[inline(never)]
    pub(in crate::heap) fn refill_sampled(&self, class: usize, request: usize) -> Option<Found> {
        self.busy(|| self.count_back(class));
        let found = if guard::is_at_work() {
            self.guard_or_cut(class, request)
        } else if profile::is_on() {
            self.refill_profiled(class)
        } else {
            self.refill_unsampled(class)
        };
        self.busy(|| self.limit_current(class));
        found
    }

    /// Gives the block a guarded place if that is due now. Else cuts the new list before the next
    /// such block, of which the profile knows nothing.
    #[inline(never)]
    fn guard_or_cut(&self, class: usize, request: usize) -> Option<Found> {
        debug_assert!(class < CLASSES);
        // SAFETY: a class comes from `size_class` or from a page, and these are below CLASSES.
        unsafe { assert_unchecked(class < CLASSES) };
        let Some(sampler) = self.sampler() else { return self.refill_unsampled(class) };
        if let Some(guarded) = self.guarded(sampler, class, request) {
            return Some(guarded);
        }
        let (points, handed) = (&sampler.guards, |class| self.handed(class));
        let before = points.left(class, handed(class));
        let fresh = if profile::is_on() {
            self.refill_profiled(class)
        } else {
            self.refill_unsampled(class)
        }?;
        let after = points.left(class, handed(class));
        if before > 0 && after > before {
            if guard::may_come() {
                // The blocks beyond the sample.
                self.busy(|| self.put_rest_back(class, before - 1, WRAP - after));
            } else {
                // A list need not end for a sample that will not come.
                points.draw(class, handed(class));
            }
        }
        Some(fresh)
    }

    /// A block with a guarded place, if the next block of `class` is such a sample and there is a
    /// place for it.
    fn guarded(&self, sampler: &Sampler, class: usize, request: usize) -> Option<Found> {
        let (points, handed) = (&sampler.guards, |class| self.handed(class));
        if !points.is_due(class, handed) {
            return None;
        }
        let block = guard::alloc(request, SIZES[class] as usize, Owner::NONE);
        let next = handed(class).wrapping_add(u32::from(block.is_none()));
        points.draw(class, next);
        block.map(|block| (block.cast(), true))
    }

    /// A block that the profile samples, if the next block of `class` is such a sample.
    fn profiled(&self, sampler: &Sampler, class: usize) -> Option<Found> {
        let handed = |class| self.handed(class);
        if !sampler.is_due(class, handed) {
            return None;
        }
        let block = profile::sample_small(sampler, class, handed)?;
        self.busy(|| {
            self.counts.note(class, HeapEvent::Listed, 1);
            self.counts.note(class, HeapEvent::Takes, 1);
            self.counts.make_room(class);
            self.counts.existing[class].add(1);
            self.note_live(i64::from(SIZES[class]));
        });
        Some((block, false))
    }

    /// A sample in place of the first block of the list of `class`, if that is a freed one and a
    /// sample is due. The list of a class above `SMALL_MAX` gets freed blocks that no refill saw.
    /// That of a smaller one gets them only as far as no sample is among them.
    #[cold]
    #[inline(never)]
    pub fn sample_instead(&self, class: usize, request: usize) -> Option<Found> {
        if self.may_take(class) {
            return None;
        }
        let sampler = self.sampler()?;
        if guard::is_at_work()
            && let Some(guarded) = self.guarded(sampler, class, request)
        {
            return Some(guarded);
        }
        if profile::is_on() { self.profiled(sampler, class) } else { None }
    }

    /// [`Heap::refill`] while the profile is on. Most refills end long before the next sample.
    #[inline(never)]
    #[unsafe(link_section = ".text.hot.hakmem")]
    fn refill_profiled(&self, class: usize) -> Option<Found> {
        debug_assert!(class < CLASSES);
        // SAFETY: a class comes from `size_class` or from a page, and these are below CLASSES.
        unsafe { assert_unchecked(class < CLASSES) };
        // SAFETY: the pointer is null or that of a sampler, which is never freed.
        match unsafe { self.sampler.get().as_ref() } {
            Some(sampler) if sampler.left(class, self.handed(class)) > LONGEST[class] => {
                self.refill_unsampled(class)
            }
            _ => self.sample_or_cut(class),
        }
    }

    /// Allocates a sample if one is due now. Else cuts the new list before the next sample.
    /// O(blocks of the list before the sample), once for each sample.
    #[cold]
    #[inline(never)]
    fn sample_or_cut(&self, class: usize) -> Option<Found> {
        let Some(sampler) = self.sampler() else { return self.refill_unsampled(class) };
        if let Some(sample) = self.profiled(sampler, class) {
            return Some(sample);
        }
        let handed = |class| self.handed(class);
        let before = sampler.distance(class, handed(class));
        let fresh = self.refill_unsampled(class)?;
        // A signal handler may have forked meanwhile. In the child the counts begin anew, so this
        // is 0 in another run of the profile.
        let after = sampler.left(class, handed(class));
        if after > before {
            self.busy(|| self.put_rest_back(class, before - 1, WRAP - after)); // Beyond the sample.
        }
        Some(fresh)
    }

    /// Keeps the first `keep` blocks of the heap's list, and puts the `rest` blocks behind them
    /// back into their page. That page is the first of the queue, or a shared one. Its own list is
    /// empty, but for blocks of this list that were cut off before. A purge that paused the heap
    /// since the refill has left that page: the block that the refill returns is used, and on no
    /// list.
    #[cold]
    #[inline(never)]
    fn put_rest_back(&self, class: usize, keep: u32, rest: u32) {
        let list = &self.owner.front.lists[class].free;
        let mut last: *mut Block = null_mut();
        for _ in 0..keep {
            let next = match last.is_null() {
                true => list.get(),
                // SAFETY: `last` is a block of the heap's list. The check below ends the process if
                // the list is shorter than `keep`.
                false => unsafe { Self::checked_next(class, last) },
            };
            if next.is_null() {
                check::corrupt(last.cast());
            }
            last = next;
        }
        let back = match NonNull::new(last) {
            None => list.replace(null_mut()),
            // SAFETY: `last` is a block of the heap's list, which only the holder of the heap uses.
            Some(last) => unsafe {
                let back = Self::checked_next(class, last.as_ptr());
                Block::set_next(last.as_ptr(), null_mut());
                back
            },
        };
        self.counts.unlist(class, rest);
        let Some(page) = page::lookup(back.cast()) else { check::corrupt(back.cast()) };
        let page = page.head_of_block();
        if page.owner() != self.owner() {
            let mut block = back;
            for _ in 0..rest {
                // SAFETY: the block came from the heap's list, which had `rest` blocks here. It is
                // free, and its page is not the heap's. The loop reads its link before it gives the
                // block up.
                unsafe {
                    let next = Self::checked_next(class, block);
                    self.put_back(page, block);
                    block = next;
                }
            }
            return;
        }
        let earlier = page.list.free.replace(back);
        if !earlier.is_null() {
            let mut end = back;
            for _ in 1..rest {
                // SAFETY: `end` is one of the `rest` blocks of the list at `back`, and not the last
                // one.
                end = unsafe { Self::checked_next(class, end) };
            }
            // SAFETY: the last one of these blocks, which are free and belong to this heap.
            unsafe { Block::set_next(end, earlier) };
        }
        page.list.until_slow.set(page.list.until_slow.get() - rest as i32);
    }

    /// True if the first block of the list of `class` may be allocated without a question for
    /// samples: it counted when a refill put it there, or no sample is due.
    pub fn may_take(&self, class: usize) -> bool {
        let (is_profiled, is_guarded) = (profile::is_on(), guard::is_at_work());
        // Neither: guards are on under a filter.
        if class < FIRST_LONG
            || self.owner.front.lists[class].kept() == 0
            || !is_profiled && !is_guarded
        {
            return true;
        }
        // SAFETY: the pointer is null or that of a sampler, which is never freed.
        match unsafe { self.sampler.get().as_ref() } {
            Some(sampler) => {
                let handed = self.handed(class);
                (!is_profiled || sampler.left(class, handed) > 0)
                    && (!is_guarded || sampler.guards.is_ahead(class, handed))
            }
            None => false, // `sample_instead` makes it.
        }
    }

    /// Tells the sampler that the thread ends.
    pub(in crate::heap) fn end_samples(&self) {
        // SAFETY: the pointer is null or that of a sampler, which is never freed.
        if let Some(sampler) = unsafe { self.sampler.get().as_ref() } {
            sampler.change_thread();
        }
    }

    /// Samples a large or huge block of `size` bytes that was just allocated, if a sample is due.
    pub fn sample_large(&self, meta: &Meta, size: usize) {
        if let Some(sampler) = self.sampler() {
            profile::sample_large(sampler, meta, size, |class| self.handed(class));
        }
    }

    /// The first sample of the next `count` blocks of `size` bytes that the thread allocates from a
    /// program heap: how many come before it, and its interval. None: there is none.
    pub fn next_sample(&self, size: u64, count: u64) -> Option<(u64, u64)> {
        self.sampler()?.take_first(size, count, |class| self.handed(class), os::now_ns)
    }

    /// Counts a sample of a program heap, with the stack of the calling thread.
    pub fn sample(&self, size: u64, interval: u64) -> Option<Sample> {
        Sample::count(self.sampler()?, size, interval)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// If a page had more blocks, a refill could go past a sample.
    #[test]
    fn no_page_has_room_for_one_more_than_the_longest_list() {
        for (size, longest) in SIZES.into_iter().zip(LONGEST) {
            let page = span_of(size) * SLOT as u32;
            assert!(longest * size <= page && page < (longest + 1) * size, "{longest} of {size}");
        }
    }
}
