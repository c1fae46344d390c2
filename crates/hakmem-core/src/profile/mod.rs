//! The heap profile: which code allocated what is live, and what was allocated in all, from a sample of the allocations.
//!
//! **What is a sample.** Points are thrown on the bytes that are handed out, at distances that are exponential with the
//! *interval* for a mean; an allocation that is hit is a sample. One of a block of `s` bytes is hit with
//! `p = 1 − exp(−s / interval)`, whatever else happens, and so stands for `1 / p` blocks and `s / p` bytes: the sum over the
//! samples of some code has the true number of its bytes for its mean, and a relative error of about `1 / √samples`. As the
//! points forget where the last one was, they may be thrown on each class of each heap by itself, and anew at any time.
//!
//! **How often.** At the default interval and above, a heap whose samples come too fast stretches its interval by a power of two,
//! and takes that back when they come slower (`pace`). Each sample is recorded with the interval that its distance was drawn
//! with, and stands for `1 / p` by that one's `p`: so the sums stay right, and only the number of samples that they rest on is
//! bounded.
//!
//! **Which are.** The fast path counts nothing. When a heap is given a list of a class, it is known how many blocks come
//! before the next sample: the list is cut there, what is beyond stays in the page (`heap::sampled`). So the allocation
//! that is to be sampled is one that finds the list empty and takes the slow path, and no other one is seen.
//!
//! **How the free is seen.** A sampled block lies in a page that has no owner (`pages`), so its free takes the path of large
//! blocks, and leaves that one where it would be found an error. Large blocks and huge blocks are marked in their metadata
//! instead, to the same effect. Nothing is asked on any path that a program without a profile takes often, but for one
//! word on the slow path of malloc.
//!
//! **Stacks** are followed in a copy of the thread's stack, by the unwind tables or frame pointers (`stack`); they are
//! addresses until somebody outside resolves them.
//!
//! Rules
//! 1. `table::LOCK` guards the tables and the pages of sampled blocks. Nothing that is done under it allocates or waits for
//!    another lock but those of segments and the arena.
//!    Nobody waits for it in a signal handler that asks for the profile (`asked`).
//!    The thread that forks holds it, so that the child has whole books; then nobody waits for it for long.
//! 2. A thread that finds that it holds the lock itself is in a signal handler: its allocation is no sample, its free of one
//!    is left undone. So nobody who holds the books is given them again, and nobody waits for himself.
//! 3. A `Sampler` is its heap's; its scratch is used by one frame of that thread at a time (`Sampler::with_scratch`).

mod asked;
mod estimate;
mod marked;
mod pace;
mod pages;
mod rules;
mod sampler;
mod stack;
mod store;
mod table;
mod text;

pub use asked::dump_soon;
pub(crate) use marked::{Freed, freed, plain, resize, sample_large};
pub(crate) use pages::{returned, sample_small};
pub(crate) use sampler::{Sampler, WRAP};
pub use table::Busy;
pub(crate) use table::{LOCK, before_fork, give_up, release_after_fork};
pub use text::{Event, dump, dump_at_once};

use crate::base::sync::Ordering::{Acquire, Relaxed, Release};
use crate::base::sync::plain::{AtomicU32, AtomicU64};
use crate::os;
use crossbeam_utils::CachePadded;

/// Bytes from one sample to the next, on average, unless another number is asked for.
///
/// ```
/// use hakmem_core::profile;
///
/// assert!(profile::start(profile::DEFAULT_INTERVAL));
/// assert_eq!(profile::interval(), 524_288);
/// ```
pub const DEFAULT_INTERVAL: u64 = 512 << 10;
/// The largest interval.
///
/// ```
/// use hakmem_core::profile;
///
/// assert!(!profile::start(profile::MAX_INTERVAL + 1));
/// ```
pub const MAX_INTERVAL: u64 = 1 << 40;

/// The run that it is, from 1; 0: the profile is off. Read in each refill, so not beside what is written often.
#[unsafe(link_section = ".data.hakmem")]
static RUN: CachePadded<AtomicU32> = CachePadded::new(AtomicU32::new(0));
/// Runs so far.
static RUNS: AtomicU32 = AtomicU32::new(0);
static INTERVAL: AtomicU64 = AtomicU64::new(0);

/// True while allocations are sampled.
///
/// O(1).
///
/// ```
/// use hakmem_core::profile;
///
/// assert!(!profile::is_on());
/// profile::start(profile::DEFAULT_INTERVAL);
/// assert!(profile::is_on());
/// ```
#[inline(always)]
pub fn is_on() -> bool {
    run() != 0
}

/// Which run of the profile it is, so that each start may be told from the last; 0: allocations are not sampled.
#[inline(always)]
fn run() -> u32 {
    // Acquire: who sees that there is a run has its interval too.
    RUN.load(Acquire)
}

/// Bytes from one sample to the next, on average; 0: there never was a profile.
///
/// O(1).
///
/// ```
/// use hakmem_core::profile;
///
/// assert_eq!(profile::interval(), 0);
/// profile::start(4096);
/// assert_eq!(profile::interval(), 4096);
/// ```
pub fn interval() -> u64 {
    INTERVAL.load(Relaxed)
}

/// Begins to sample allocations, one for each `interval` bytes on average, 1 to [`MAX_INTERVAL`]; 1 takes almost all. False:
/// no such interval, or the profile began with another one before.
///
/// Blocks that lie in threads' lists are handed out first; those allocated before are not in the profile.
///
/// ```
/// use hakmem_core::profile;
///
/// assert!(!profile::start(0), "no interval");
/// assert!(profile::start(4096));
/// profile::stop();
/// assert!(!profile::start(8192), "it began with 4096");
/// assert!(profile::start(4096));
/// ```
pub fn start(interval: u64) -> bool {
    if !(1..=MAX_INTERVAL).contains(&interval) {
        return false;
    }
    if INTERVAL.compare_exchange(0, interval, Relaxed, Relaxed).is_err_and(|now| now != interval) {
        return false;
    }
    os::find_objects();
    os::find_program();
    if !table::is_given_up() {
        begin_run();
    }
    is_on()
}

fn begin_run() {
    // Release: see `run`.
    RUN.store(RUNS.fetch_add(1, Relaxed).wrapping_add(1), Release);
}

/// In the child of a fork, where heaps count anew.
pub(crate) fn after_fork() {
    if is_on() {
        begin_run();
    }
    table::after_fork();
}

/// Takes no more samples. Frees of those that there are go on being seen.
///
/// [`dump`] still writes what there is, and [`start`] goes on from it. O(1).
///
/// ```
/// use hakmem_core::profile;
///
/// profile::start(profile::DEFAULT_INTERVAL);
/// profile::stop();
/// assert!(!profile::is_on());
/// ```
pub fn stop() {
    RUN.store(0, Relaxed);
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    extern crate std;
    use super::*;
    use crate::alone::alone;
    use crate::in_child::in_child;
    use std::vec::Vec;

    const SIZES: [usize; 4] = [16, 5000, 100_000, 3 << 20];

    fn take(size: usize) -> *mut u8 {
        // SAFETY: any size may be asked for, and a block holds so much.
        unsafe {
            let p = crate::api::c::malloc(size);
            assert!(!p.is_null());
            p.write_bytes(1, size);
            p
        }
    }

    fn free(p: *mut u8) {
        // SAFETY: each is freed once.
        unsafe { crate::api::c::free(p) }
    }

    fn taken() -> u64 {
        table::with_books(|books| books.buckets().map(|(bucket, _)| bucket.taken).sum()).unwrap()
    }

    /// Rule 2: what a handler does that interrupts the profile. A small sample that it frees is lost, and nothing else. In
    /// a process of its own: a profile is for good.
    #[test]
    fn whoever_interrupts_the_profile_is_served() {
        alone("profile::tests::whoever_interrupts_the_profile_is_served", while_the_lock_is_held);
    }

    fn while_the_lock_is_held() {
        assert!(start(1));
        let ours: Vec<_> = SIZES.map(take).into();
        let before = taken();
        assert!(before >= 4, "with this interval all are samples");
        table::with_books(|_| {
            assert!(table::with_books(|_| ()).is_none());
            ours.into_iter().for_each(free);
            let inside: Vec<_> = (0..100).flat_map(|_| SIZES).map(take).collect();
            inside.into_iter().for_each(free);
        });
        assert_eq!(taken(), before, "none of those inside was one");
        for _ in 0..100 {
            SIZES.map(take).into_iter().for_each(free);
        }
        assert!(taken() >= before + 390);
    }

    /// In a child whose every allocation is sampled.
    fn sampled(f: impl FnOnce()) {
        in_child(|| {
            stop();
            INTERVAL.store(0, Relaxed);
            assert!(start(1));
            f();
        });
    }

    /// All samples, those that were freed, and those that were lost.
    fn counts() -> (u64, u64, u64) {
        let of = |books: &mut table::Books| {
            let sum = |of: fn(&table::Bucket) -> u64| books.buckets().map(|(bucket, _)| of(bucket)).sum();
            (sum(|bucket| bucket.taken), sum(|bucket| bucket.freed), books.lost)
        };
        table::with_books(of).unwrap()
    }

    /// What is live was there from the start.
    #[test]
    fn a_child_has_counts_of_its_own() {
        sampled(|| {
            SIZES.map(take).into_iter().for_each(free);
            let live = SIZES.map(take);
            let (taken, freed, _) = counts();
            assert!(taken - freed >= 4 && freed >= 4);
            in_child(|| {
                assert_eq!(counts(), (taken - freed, 0, 0));
                live.into_iter().for_each(free);
                let _live = SIZES.map(take);
                assert_eq!(counts(), (taken - freed + 4, 4, 0));
            });
        });
    }

    #[test]
    fn samples_share_pages() {
        sampled(|| {
            for (size, most) in [(64, 2), (5000, 9)] {
                let blocks: Vec<_> = (0..100).map(|_| take(size)).collect();
                let mut pages: Vec<_> = blocks.iter().map(|p| p.addr() >> 16).collect();
                pages.sort();
                pages.dedup();
                assert!(pages.len() <= most, "{size}: {}", pages.len());
                blocks.into_iter().for_each(free);
            }
        });
    }

    /// Blocks are handed out all the same, and each is counted.
    #[test]
    fn samples_that_there_is_no_memory_for_are_lost() {
        const EACH: u64 = 2000;
        sampled(|| {
            SIZES.map(take).into_iter().for_each(free);
            let before = counts();
            let none = libc::rlimit { rlim_cur: 0, rlim_max: libc::RLIM_INFINITY };
            let mut usual = none;
            // SAFETY: two limits; the arenas are there, and only the profile maps more.
            unsafe {
                assert_eq!(libc::getrlimit(libc::RLIMIT_AS, &mut usual), 0);
                assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &none), 0);
            }
            let mut blocks = [core::ptr::null_mut(); EACH as usize];
            let mut all = before;
            // Pages of their own that are not written: these are many.
            for size in [5000, 70_000] {
                for block in &mut blocks {
                    // SAFETY: any size may be asked for.
                    *block = unsafe { crate::api::c::malloc(size) };
                }
                let now = counts();
                assert_eq!((now.0 - all.0) + (now.2 - all.2), EACH, "{size}");
                assert!(now.2 - all.2 > EACH / 4, "{size}: {} lost", now.2 - all.2);
                assert!(blocks.iter().all(|block| !block.is_null()));
                blocks.into_iter().for_each(free);
                all = now;
            }
            // SAFETY: as above.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &usual) }, 0);
        });
    }
}
