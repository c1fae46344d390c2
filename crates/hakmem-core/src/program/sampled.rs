//! Samples of the heap profile among the blocks of a program heap (`profile::kept`).
//!
//! Points fall on the bytes that the calling thread allocates from program heaps and as large
//! blocks. An own block, or one without a class, is looked at when it was allocated. A scope looks
//! at all blocks that it is about to get for its list: if a point hits one, the list ends before
//! it, and the scope notes that the block after it is a sample. That block comes singly.
//!
//! Why the estimate of a scope is right: whether a point hits a block depends on nothing but its
//! size, and which blocks are looked at at once does not depend on the points. So a scope looks at
//! no more blocks than the limit allows, and forgets a sample beyond the end of the list. Those
//! behind a sample are looked at anew. Blocks that go back unused were looked at for nothing, and
//! so was a sample that the scope did not come to. It is not exact only where another thread, or
//! the system, takes the memory between the look and the blocks.

use super::scope::Scope;
use super::{Locked, ProgramHeap, Refusal, Way, of, room};
use crate::backend::page::{Block, Meta};
use crate::base::size_class::{CLASSES, SIZES};
use crate::heap::Heap;
use crate::profile::{self, Sample, Samples};
use core::cell::Cell;
use core::ptr::NonNull;

/// The samples that a scope is to come to. All zero bytes are none.
#[repr(C)]
pub struct Due {
    /// The run of the profile in which the others were noted.
    run: Cell<u32>,
    /// By class: the interval of the sample that the first block after the list is. 0: it is none.
    interval: [Cell<u64>; CLASSES],
}

impl Due {
    /// Takes the note for `class`. Notes of another run are void: what came since nobody looked at.
    fn take(&self, class: usize) -> Option<u64> {
        let run = profile::run();
        if self.run.replace(run) != run {
            self.interval.iter().for_each(|interval| interval.set(0));
        }
        Some(self.interval[class].replace(0)).filter(|&interval| interval != 0)
    }

    /// Forgets all: the thread leaves the scope. No run has the number 0.
    pub(super) fn forget(&self) {
        self.run.set(0);
    }
}

impl Scope {
    /// [`Scope::alloc`] while the profile is on. `own` is the heap of the calling thread.
    #[cold]
    pub fn alloc_sampled(
        &self,
        own: &Heap,
        class: usize,
    ) -> Result<(NonNull<Block>, bool), Refusal> {
        if let Some(block) = self.pop(class) {
            return Ok((block, false));
        }
        let size = u64::from(SIZES[class]);
        let count = self.heap().allowed(self.wanted(class), size).max(1);
        let noted = self.due.take(class);
        let due = noted.map(|interval| (0, interval)).or_else(|| own.next_sample(size, count));
        let wanted = due.map_or(count, |(before, _)| before.max(1));
        let (block, zero, goes_on) = self.fill(class, wanted).inspect_err(|_| {
            self.due.interval[class].set(noted.unwrap_or(0));
        })?;
        match due {
            Some((0, interval)) => self.heap().keep(own, Way::Routed, block.cast(), size, interval),
            Some((_, interval)) if goes_on => self.due.interval[class].set(interval),
            _ => {}
        }
        Ok((block, zero))
    }
}

impl ProgramHeap {
    /// Samples the block at `p`, which the calling thread has just allocated, if a sample is due.
    /// `own` is the thread's heap.
    #[cold]
    pub fn sample(&'static self, own: &Heap, way: Way, p: NonNull<u8>) {
        let Some((_, head)) = of(p.as_ptr()) else { return };
        let size = room(head) as u64;
        if let Some((_, interval)) = own.next_sample(size, 1) {
            self.keep(own, way, p, size, interval);
        }
    }

    /// Makes the block at `p` a sample, which the calling thread has just allocated.
    #[inline(never)]
    fn keep(&'static self, own: &Heap, way: Way, p: NonNull<u8>, size: u64, interval: u64) {
        let (Some(sample), at) = (own.sample(size, interval), p.addr().get()) else { return };
        let is_kept = self.lock().is_ok_and(|locked| {
            locked.with_samples(way, |samples| {
                let has_room = samples.make_room();
                if has_room {
                    samples.put(at, sample);
                }
                has_room
            })
        });
        if is_kept { sample.kept(at) } else { sample.lost() }
    }
}

impl Locked {
    /// Runs `f` with the samples among the blocks of a way. `f` does not use the heap.
    #[inline]
    pub(super) fn with_samples<R>(&self, way: Way, f: impl FnOnce(&mut Samples) -> R) -> R {
        // SAFETY: this thread holds the lock. No other thread, and no signal handler, gets it
        // meanwhile, and `f` does not come here. So this is the only reference.
        f(unsafe { &mut *self.pages(way).samples.get() })
    }

    /// Takes the sample of the block at `p` out of the table. None: the block is no sample.
    #[inline]
    pub(super) fn take_sample(&self, p: *mut u8, head: &Meta) -> Option<Sample> {
        self.with_samples(Self::way_of(head), |samples| {
            if samples.is_empty() { None } else { samples.remove(p.addr()) }
        })
    }

    /// Takes all samples of a way out, whose blocks are about to be free. The caller counts them
    /// without the lock, by [`profile::all_freed`].
    pub(super) fn take_samples(&self, way: Way) -> Samples {
        let samples = self.with_samples(way, |samples| core::mem::replace(samples, Samples::new()));
        samples.all().for_each(|(at, sample)| sample.let_go(at));
        samples
    }
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    extern crate std;
    use super::*;
    use crate::base::size_class::of16;
    use crate::profile::table;
    use crate::program::registry;
    use crate::testing::in_child;
    use crate::thread;

    /// A block of 50 KB. At interval 1 it is a sample.
    fn take(heap: &'static ProgramHeap) -> *mut u8 {
        let p = heap.alloc(Way::Own, 50_000, 16, Some(of16(50_000))).expect("memory").0;
        if profile::is_on() {
            thread::with_heap(|own| {
                heap.sample(own, Way::Own, p);
                Some(())
            });
        }
        p.as_ptr()
    }

    fn free(p: *mut u8) {
        let (heap, head) = of(p).expect("a block of a program heap");
        // SAFETY: the tests free what they took, once.
        unsafe { heap.free(p, head) };
    }

    /// All samples, the freed ones, and the lost ones.
    fn counts() -> (u64, u64, u64) {
        let counts = table::with_books(|books| {
            let add = |(taken, freed), (bucket, _): (&table::Bucket, _)| {
                (taken + bucket.taken, freed + bucket.freed)
            };
            let (taken, freed) = books.buckets().fold((0, 0), add);
            (taken, freed, books.lost)
        });
        counts.expect("nobody has the books")
    }

    /// Runs `f` in a child with a heap of which every block is a sample.
    fn sampled(f: impl FnOnce(&'static ProgramHeap)) {
        in_child(|| {
            assert!(profile::start(1));
            f(registry::make("sampled", None).expect("memory"));
        });
    }

    /// What a signal handler freed under the lock is counted when the blocks are freed.
    #[test]
    fn samples_in_the_inbox_are_counted_one_by_one() {
        sampled(|heap| {
            let (profile_off, blocks) = (take_unsampled(heap), [(); 4].map(|()| take(heap)));
            let before = counts();
            let interrupted = heap.lock().expect("free");
            blocks.into_iter().chain([profile_off]).for_each(free);
            assert_eq!(counts(), before);
            drop(interrupted);
            assert!(heap.lock().is_ok());
            assert_eq!(counts(), (before.0, before.1 + 4, before.2));
            assert_eq!((heap.figures.live.get(), heap.figures.frees.get()), (0, 5));
        });
    }

    fn take_unsampled(heap: &'static ProgramHeap) -> *mut u8 {
        profile::stop();
        let p = take(heap);
        assert!(profile::start(1));
        p
    }

    /// Rule 2 of `profile::kept`: the blocks are free, and the heap is in order.
    #[test]
    fn who_interrupts_the_books_is_served() {
        sampled(|heap| {
            let blocks = [(); 4].map(|()| take(heap));
            let before = counts();
            table::with_books(|_| {
                free(blocks[0]);
                free(take(heap));
                // SAFETY: nobody uses the blocks any more.
                unsafe { heap.reset() }.expect("not in use");
            });
            assert_eq!((counts(), heap.figures.live.get()), (before, 0));
            free(take(heap));
            assert_eq!(counts(), (before.0 + 1, before.1 + 5, before.2), "they waited");
        });
    }

    /// The program gets its block all the same.
    #[test]
    fn a_sample_that_the_heap_cannot_keep_is_lost() {
        sampled(|heap| {
            let other = registry::make("other", None).expect("memory");
            free(take(other));
            let p = take_unsampled(heap);
            free(p);
            let before = counts();
            let none = libc::rlimit { rlim_cur: 0, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: only sets a limit.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &none) }, 0);
            assert_eq!(take(heap), p);
            assert_eq!(counts(), (before.0, before.1, before.2 + 1));
            free(p);
            free(take(other));
            assert_eq!(counts(), (before.0 + 1, before.1 + 1, before.2 + 1));
        });
    }

    /// A sample that the scope was to come to is void in another run of the profile, and so it is
    /// when the thread has left the scope.
    #[test]
    fn what_is_due_is_forgotten() {
        in_child(|| {
            let heap = registry::make("due", None).expect("memory");
            let scope = heap.enter(core::ptr::null()).expect("memory");
            assert!(profile::start(1));
            let note = || scope.due.interval[3].set(77);
            assert_eq!(scope.due.take(3), None);
            note();
            assert_eq!(
                (scope.due.take(2), scope.due.take(3), scope.due.take(3)),
                (None, Some(77), None)
            );
            note();
            assert!(profile::start(1));
            assert_eq!(scope.due.take(3), None, "another run");
            note();
            heap.leave(scope);
            let again = heap.enter(core::ptr::null()).expect("memory");
            assert!(core::ptr::eq(scope, again));
            assert_eq!(scope.due.take(3), None, "another thread");
        });
    }
}
