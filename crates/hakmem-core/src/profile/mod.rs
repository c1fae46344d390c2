//! The heap profile: which code allocated what is live, and how much in all, estimated from a
//! sample of the allocations.
//!
//! **What a sample is.** Random points fall on the bytes that are allocated. The distances between
//! them are exponential, with the *interval* as their mean. An allocation that a point hits is a
//! sample. A block of `s` bytes is hit with `p = 1 − exp(−s / interval)`, whatever else happens. So
//! a sample stands for `1 / p` blocks and `s / p` bytes. Over the samples of some code, the sum has
//! the true number of bytes as its mean, and a relative error of about `1 / √samples`. The points
//! do not depend on where the last one was. So each class of each heap may have points of its own,
//! and may draw them anew at any time.
//!
//! **How often.** At the default interval and above, a heap with too many samples a second
//! stretches its interval by a power of two, and shortens it again when fewer come (`pace`). A
//! sample keeps the interval that its distance was drawn with, and stands for `1 / p` with the `p`
//! of that interval. So the sums stay right. Only the number of samples that they rest on is
//! bounded.
//!
//! **How an allocation becomes one.** The fast path counts nothing. When a heap gets a free list of
//! a class, it knows how many blocks come before the next sample. It cuts the list there, and the
//! rest stays in the page (`heap::sampled`). So the allocation to sample is one that finds the list
//! empty and takes the slow path. The profile never sees another one.
//!
//! **How its free is seen.** A sampled block lies in a page without an owner (`pages`). So its free
//! takes the path of large blocks, and leaves it at the point where that path would report an
//! error. Large and huge blocks have a mark in their metadata, to the same effect. Paths that a
//! program without a profile takes often check nothing, except one word on the slow path of malloc.
//! A program heap has a table of its samples (`kept`), as all its frees take its lock.
//!
//! **Stacks.** The profile follows a copy of the thread's stack, by unwind tables or frame pointers
//! (`stack`). A stack is a list of addresses until another program resolves them.
//!
//! Rules
//! 1. `table::LOCK` guards the tables and the pages of sampled blocks. A thread that holds it
//!    allocates nothing, and waits for no other lock but those of segments and the arena. A signal
//!    handler that requests the profile never waits for it (`asked`). A thread that forks holds it,
//!    so that the child has whole books. Other threads then stop waiting after a moment.
//! 2. A thread that finds that it holds the lock already is in a signal handler. Its allocation is
//!    no sample, and its free of a sample does nothing. So the books have one user at a time, and
//!    no thread waits for itself.
//! 3. A `Sampler` belongs to its heap. One frame of the holder at a time uses the sampler's scratch
//!    (`Sampler::with_scratch`).

mod asked;
mod estimate;
mod kept;
mod live;
mod marked;
pub(crate) mod outside;
mod pace;
mod pages;
mod probe;
mod sampler;
mod store;
pub(crate) mod table;
mod text;

pub use asked::dump_soon;
pub(crate) use kept::{Sample, Samples, all_freed};
pub(crate) use marked::{Freed, freed, is_sample, plain, resize, sample_large};
pub(crate) use pages::{returned, sample_small};
pub(crate) use sampler::{Sampler, WRAP};
pub(crate) use table::{LOCK, before_fork, give_up, release_after_fork};
pub use text::{dump, dump_at_once};

pub use crate::types::profile::{Busy, DEFAULT_INTERVAL, Event, MAX_INTERVAL};

use crate::base::sync::Ordering::{Acquire, Relaxed, Release};
use crate::base::sync::plain::{AtomicU32, AtomicU64};
use crate::os;
use crossbeam_utils::CachePadded;

/// The number of the present run of the profile. 0: the profile is off. Its lower three bytes are
/// the run that the program began, from 1; its highest byte is another process's (`outside`). Each
/// refill reads it, so it does not lie beside words that threads write often.
#[unsafe(link_section = ".data.hakmem")]
pub(crate) static RUN: CachePadded<AtomicU32> = CachePadded::new(AtomicU32::new(0));
/// The part of [`RUN`] that this process changes.
const OWN: u32 = (1 << 24) - 1;
/// Runs so far.
static RUNS: AtomicU32 = AtomicU32::new(0);
static INTERVAL: AtomicU64 = AtomicU64::new(0);

/// True while allocations are sampled.
///
/// O(1).
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::profile;
///
/// assert!(!profile::is_on());
/// profile::start(profile::DEFAULT_INTERVAL);
/// assert!(profile::is_on());
/// ```
#[inline(always)]
pub fn is_on() -> bool {
    run() != 0
}

/// The number of the present run, which tells each start from the last. 0: allocations are not
/// sampled.
#[inline(always)]
pub(crate) fn run() -> u32 {
    // Acquire: a thread that sees a run sees its interval, too.
    RUN.load(Acquire)
}

/// The mean distance between samples, in bytes: what the last [`start`] named, or what `hakmem
/// profile --pid` named if the program never started the profile. 0: there never was a profile.
///
/// O(1).
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::profile;
///
/// assert_eq!(profile::interval(), 0);
/// profile::start(4096);
/// assert_eq!(profile::interval(), 4096);
/// ```
pub fn interval() -> u64 {
    match INTERVAL.load(Relaxed) {
        0 => outside::interval(),
        own => own,
    }
}

/// The interval for the points of a run.
fn interval_of(run: u32) -> u64 {
    let own = if run & OWN == 0 { 0 } else { INTERVAL.load(Relaxed) };
    // What another process writes is in the range as a whole, but maybe half-written.
    if own == 0 { outside::interval().clamp(1, MAX_INTERVAL) } else { own }
}

/// Starts sampling: one allocation for each `interval` bytes on average, from 1 to
/// [`MAX_INTERVAL`]. With 1 almost all allocations are samples. False: there is no such interval,
/// or a fork has cut the profile short in this process.
///
/// If the profile is on, it goes on with the new interval. Threads first use up the blocks on their
/// lists. Allocations from before the start are not in the profile. O(1), and it may allocate.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::profile;
///
/// assert!(!profile::start(0), "no interval");
/// assert!(profile::start(4096));
/// assert!(profile::start(8192), "from now on");
/// assert_eq!(profile::interval(), 8192);
/// ```
pub fn start(interval: u64) -> bool {
    if !(1..=MAX_INTERVAL).contains(&interval) {
        return false;
    }
    os::find_objects();
    os::find_program();
    if table::is_given_up() {
        return false;
    }
    INTERVAL.store(interval, Relaxed);
    begin_run();
    true
}

fn begin_run() {
    let run = RUNS.fetch_add(1, Relaxed) % OWN + 1;
    // Release: pairs with the acquire of `run`.
    let _ = RUN.fetch_update(Release, Relaxed, |now| Some(now & !OWN | run));
}

/// Starts a new run if the profile is on. For the child of a fork, where heaps count anew.
pub(crate) fn after_fork() {
    // The other process profiles the parent.
    let own = RUN.fetch_and(OWN, Relaxed) & OWN;
    if own != 0 {
        begin_run();
    }
    table::after_fork();
}

/// Stops sampling. The profile still sees frees of the samples that were taken.
///
/// [`dump`] still writes what there is, and [`start`] goes on from it. While `hakmem profile --pid`
/// profiles the program, allocations are sampled all the same. O(1).
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::profile;
///
/// profile::start(profile::DEFAULT_INTERVAL);
/// profile::stop();
/// assert!(!profile::is_on());
/// ```
pub fn stop() {
    RUN.fetch_and(!OWN, Relaxed);
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    extern crate std;
    use super::*;
    use crate::testing::alone;
    use crate::testing::in_child;
    use std::vec::Vec;

    const SIZES: [usize; 4] = [16, 5000, 100_000, 3 << 20];

    fn take(size: usize) -> *mut u8 {
        // SAFETY: `malloc` takes any size, and a block that is not null has `size` bytes.
        unsafe {
            let p = crate::api::c::malloc(size);
            assert!(!p.is_null());
            p.write_bytes(1, size);
            p
        }
    }

    fn free(p: *mut u8) {
        // SAFETY: the tests free each block once.
        unsafe { crate::api::c::free(p) }
    }

    fn taken() -> u64 {
        table::with_books(|books| books.buckets().map(|(bucket, _)| bucket.taken).sum()).unwrap()
    }

    /// Rule 2: a signal handler that interrupts the profile. Only a small sample that it frees is
    /// lost. The test runs in a process of its own, as a profile never ends.
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

    /// Runs `f` in a child of which every allocation is a sample.
    fn sampled(f: impl FnOnce()) {
        in_child(|| {
            stop();
            INTERVAL.store(0, Relaxed);
            assert!(start(1));
            f();
        });
    }

    /// All samples, the freed ones, and the lost ones.
    fn counts() -> (u64, u64, u64) {
        let of = |books: &mut table::Books| {
            let sum =
                |of: fn(&table::Bucket) -> u64| books.buckets().map(|(bucket, _)| of(bucket)).sum();
            (sum(|bucket| bucket.taken), sum(|bucket| bucket.freed), books.lost)
        };
        table::with_books(of).unwrap()
    }

    /// In the child, live samples count as taken from the start.
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

    /// As another process does (`outside`).
    fn switch(byte: u8) {
        // SAFETY: the byte lies in `RUN`, which is an atomic. The child has one thread, so nothing
        // else reads or writes `RUN` meanwhile.
        unsafe { RUN.as_ptr().cast::<u8>().wrapping_add(outside::SWITCH).write_volatile(byte) }
    }

    /// Neither side undoes what the other did, and a child is not profiled.
    #[test]
    fn another_process_has_a_byte_of_its_own() {
        in_child(|| {
            stop();
            INTERVAL.store(0, Relaxed);
            outside::ASKED.interval.store(1, Relaxed);
            switch(0x81);
            assert!(is_on() && interval() == 1);
            SIZES.map(take).into_iter().for_each(free);
            let first = taken();
            assert!(first >= 4);
            in_child(|| assert!(!is_on()));
            assert!(start(4096) && interval() == 4096);
            stop();
            assert!(is_on(), "the other process did not switch it off");
            SIZES.map(take).into_iter().for_each(free);
            assert!(taken() >= first + 4, "at its interval");
            switch(0);
            assert!(!is_on());
            assert!(start(1));
            switch(0x82);
            switch(0);
            assert!(is_on(), "the program did not");
            in_child(|| assert!(is_on()));
        });
    }

    /// What the other process may write in part.
    #[test]
    fn any_interval_of_another_process_will_do() {
        in_child(|| {
            stop();
            for (i, interval) in [0, 1 << 63, u64::MAX].into_iter().enumerate() {
                outside::ASKED.interval.store(interval, Relaxed);
                switch(0x81 + i as u8);
                SIZES.map(take).into_iter().for_each(free);
            }
        });
    }

    /// What is shown is where the books are, and whole.
    #[test]
    fn the_books_are_shown_where_they_are() {
        sampled(|| {
            SIZES.map(take).into_iter().for_each(free);
            let shown = || outside::SHOWN.last().next().unwrap().1;
            let before = shown();
            let books = |of: fn(&mut table::Books) -> [u64; 2]| table::with_books(of).unwrap();
            let lengths = books(|books| [books.buckets().count() as u64, books.frames() as u64]);
            assert_eq!([before[1], before[3]], lengths);
            table::with_books(|books| {
                for i in 0..10_000 {
                    books.bucket(16, 1, &[i, i + 1]).unwrap();
                }
            });
            let after = shown();
            assert_eq!([after[1], after[3]], [lengths[0] + 10_000, lengths[1] + 20_000]);
            assert!(after[0] != before[0], "they moved");
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

    /// The program gets its blocks all the same, and each lost sample is counted.
    #[test]
    fn samples_that_there_is_no_memory_for_are_lost() {
        const EACH: u64 = 2000;
        sampled(|| {
            SIZES.map(take).into_iter().for_each(free);
            let before = counts();
            let none = libc::rlimit { rlim_cur: 0, rlim_max: libc::RLIM_INFINITY };
            let mut usual = none;
            // SAFETY: only reads and sets a limit. The arenas are reserved already, so only the
            // profile maps more.
            unsafe {
                assert_eq!(libc::getrlimit(libc::RLIMIT_AS, &mut usual), 0);
                assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &none), 0);
            }
            let mut blocks = [core::ptr::null_mut(); EACH as usize];
            let mut all = before;
            // The blocks have pages of their own, which the test does not write to: they are many.
            for size in [5000, 70_000] {
                for block in &mut blocks {
                    // SAFETY: `malloc` takes any size.
                    *block = unsafe { crate::api::c::malloc(size) };
                }
                let now = counts();
                assert_eq!((now.0 - all.0) + (now.2 - all.2), EACH, "{size}");
                assert!(now.2 - all.2 > EACH / 4, "{size}: {} lost", now.2 - all.2);
                assert!(blocks.iter().all(|block| !block.is_null()));
                blocks.into_iter().for_each(free);
                all = now;
            }
            // SAFETY: sets the limit to its former value.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &usual) }, 0);
        });
    }
}
