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
//! rest stays in the page (`heap::refill::sampled`). As many frees as there are blocks before the
//! sample may go to the list (`heap::free::current`). So the allocation to sample is one that finds
//! the list empty and takes the slow path. The profile never sees another one.
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
//!    no sample, and its free of a sample waits (`late`). So the books have one user at a time, and
//!    no thread waits for itself.
//! 3. A `Sampler` belongs to its heap. One frame of the holder at a time uses the sampler's scratch
//!    (`Sampler::with_scratch`).

mod asked;
mod estimate;
mod kept;
mod late;
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
pub(crate) use asked::free_late;
pub(crate) use kept::{Sample, Samples, all_freed};
pub(crate) use late::bytes as late_bytes;
pub(crate) use marked::{Freed, freed, is_sample, plain, resize, sample_large};
pub(crate) use pages::{returned, sample_small};
pub(crate) use sampler::{Sampler, WRAP};
pub(crate) use table::{LOCK, before_fork, give_up, release_after_fork};
#[cfg(feature = "reports")]
pub(crate) use text::dump_at_end;
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
/// [`MAX_INTERVAL`]. With 1 almost all allocations are samples. False: there is no such interval (0
/// is none), or a fork has cut the profile short in this process. The option `PROFILE_INTERVAL`
/// takes up to 2³⁰.
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
#[must_use = "false: nothing is sampled"]
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
mod tests;
