//! The books of the profile: the samples by stack and size, and the sampled blocks that are live.
//!
//! Both are hash tables with linear probing. Program heaps keep their live samples themselves
//! (`kept`). A stack stays in the books for ever, and so do its
//! totals.

use super::live::Live;
use super::pages::Pages;
use super::store::Growing;
use super::{Busy, outside};
use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::{AtomicBool, AtomicU32};
use crate::os;
use crate::proto::lock::{Guard, Lock};
use core::cell::UnsafeCell;

#[unsafe(link_section = ".data.hakmem")]
pub static LOCK: Lock = Lock::new();
pub(crate) static BOOKS: Shared = Shared(UnsafeCell::new(Books::new()));
/// Set in the child of a fork in the middle of a change. Then nothing uses the books any more.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// The books, behind the lock.
#[repr(transparent)]
pub struct Shared(UnsafeCell<Books>);
// SAFETY: only `with_books` and `with_books_at_once` use the books, and both hold the lock (rule 1
// of `profile`).
unsafe impl Sync for Shared {}

/// Samples of blocks of one size by one stack, drawn with one interval.
#[derive(Debug, Clone, Copy)]
pub struct Bucket {
    hash: u64,
    /// The number of its first frame, among the frames of all stacks.
    pub(crate) first_frame: usize,
    /// The number of its frames.
    pub(crate) frames: usize,
    /// Bytes of a block.
    pub size: u64,
    /// The mean distance between samples when these were drawn, in bytes.
    pub interval: u64,
    /// Samples so far, and the freed ones of them.
    pub taken: u64,
    /// See `taken`.
    pub freed: u64,
}

/// What the lock guards.
pub struct Books {
    buckets: Growing<Bucket>,
    frames: Growing<usize>,
    /// By hash: the bucket's number plus 1. 0: none.
    index: Growing<u32>,
    /// The live samples that no heap keeps (`kept`): the numbers of their buckets.
    live: Live<usize>,
    /// Samples that were not taken because there was no memory.
    pub lost: u64,
    /// The pages of sampled blocks.
    pub pages: Pages,
}

/// Runs `f` on the books. None: this thread holds them already (rule 2 of `profile`), a fork delays
/// them, or a child gave them up.
pub fn with_books<R>(f: impl FnOnce(&mut Books) -> R) -> Option<R> {
    let me = os::thread_token();
    if LOCK.is_held_by(me) || is_given_up() {
        return None;
    }
    let held = wait_for_books(me)?;
    Some(open(held, f))
}

/// [`with_books`], after a wait of `ms` milliseconds at most, in any case.
#[cfg(feature = "reports")]
pub fn with_books_within<R>(ms: u32, f: impl FnOnce(&mut Books) -> R) -> Option<R> {
    let me = os::thread_token();
    if LOCK.is_held_by(me) || is_given_up() {
        return None;
    }
    let held = LOCK.lock_within_as(me, ms)?;
    Some(open(held, f))
}

fn open<R>(_: Guard<'static>, f: impl FnOnce(&mut Books) -> R) -> R {
    // SAFETY: this thread holds the lock. A further call by this thread, in `f` or in a signal
    // handler, finds the lock held and gets no reference (rule 2 of `profile`). So this is the only
    // one.
    f(unsafe { &mut *BOOKS.0.get() })
}

/// Threads that are about to fork.
#[unsafe(link_section = ".data.hakmem")]
pub(super) static FORKS: AtomicU32 = AtomicU32::new(0);
/// The token of the thread that holds the lock for its fork.
#[unsafe(link_section = ".data.hakmem")]
static FORKER: AtomicU32 = AtomicU32::new(0);
/// A thread has waited for a fork in vain. Then no further one waits, until the next fork begins or
/// takes the lock.
pub(super) static IS_LONG: AtomicBool = AtomicBool::new(false);

/// Waits for the lock. None: a thread that forks has it, and may wait for a lock of libc's that the
/// calling thread holds. The calling thread then goes on as in rule 2 of `profile`.
#[inline]
fn wait_for_books(me: u32) -> Option<Guard<'static>> {
    const MOMENTS: u32 = 20;
    let mut left = MOMENTS;
    loop {
        let in_fork = FORKS.load(Relaxed) != 0;
        if os::is_ending() {
            // The thread that reports an error may have the lock, and wait in a handler of SIGABRT.
            return LOCK.try_lock_as(me);
        }
        if in_fork && (left == 0 || IS_LONG.load(Relaxed)) {
            IS_LONG.store(true, Relaxed);
            return LOCK.try_lock_as(me);
        }
        if let Some(held) = LOCK.lock_within_as(me, 5) {
            return Some(held);
        }
        left = left.saturating_sub(u32::from(in_fork));
    }
}

/// Takes the lock before a fork, so that the child has whole books. Gives up if that takes long:
/// the lock's holder may wait for the calling thread.
pub fn before_fork() {
    let me = os::thread_token();
    if FORKS.fetch_add(1, Relaxed) == 0 {
        IS_LONG.store(false, Relaxed);
    }
    if super::interval() != 0
        && !LOCK.is_held_by(me)
        && let Some(held) = LOCK.lock_for(me, 100, || true)
    {
        core::mem::forget(held);
        FORKER.store(me, Relaxed);
        IS_LONG.store(false, Relaxed);
    }
}

/// Lets go of the lock after a fork, in the parent and in the child.
pub fn release_after_fork() {
    let me = os::thread_token();
    if FORKER.load(Relaxed) == me && FORKER.compare_exchange(me, 0, Relaxed, Relaxed).is_ok() {
        LOCK.release();
    }
    let _ = FORKS.fetch_update(Relaxed, Relaxed, |forks| forks.checked_sub(1));
}

/// [`with_books`] for a caller that must not wait. Err: another thread has the books, or this one,
/// which is then in a signal handler.
pub fn with_books_at_once<R>(f: impl FnOnce(&mut Books) -> R) -> Result<Option<R>, Busy> {
    if is_given_up() {
        return Ok(None);
    }
    let _held = LOCK.try_lock().ok_or(Busy)?;
    // SAFETY: this thread has just taken the lock. A further call, in `f` or in a signal handler,
    // finds the lock held and gets no reference. So this is the only one.
    Ok(Some(f(unsafe { &mut *BOOKS.0.get() })))
}

/// True if the profile cannot record anything any more.
pub fn is_given_up() -> bool {
    GIVEN_UP.load(Relaxed)
}

/// Gives the books up. For the child of a fork in the middle of a change.
pub fn give_up() {
    GIVEN_UP.store(true, Relaxed);
    super::RUN.store(0, Relaxed);
    outside::hide();
}

/// Counts anew, with the live samples as taken. For the child of a fork.
pub fn after_fork() {
    FORKS.store(0, Relaxed);
    FORKER.store(0, Relaxed);
    with_books(|books| {
        for bucket in books.buckets.all_mut() {
            bucket.taken -= bucket.freed;
            bucket.freed = 0;
        }
        if !books.buckets.all().is_empty() {
            books.show();
        }
    });
}

/// The least number of places in a table. A table has twice as many places as it may have entries.
const LEAST: usize = 1024;

fn hash_of(size: u64, interval: u64, stack: &[usize]) -> u64 {
    let mix =
        |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    stack.iter().fold(mix(mix(1, size), interval), |hash, &pc| mix(hash, pc as u64))
}

impl Books {
    const fn new() -> Self {
        Self {
            buckets: Growing::new(),
            frames: Growing::new(),
            index: Growing::new(),
            live: Live::new(),
            lost: 0,
            pages: Pages::new(),
        }
    }

    /// All buckets with their stacks.
    pub fn buckets(&self) -> impl Iterator<Item = (&Bucket, &[usize])> {
        let frames = self.frames.all();
        self.buckets.all().iter().map(|b| (b, &frames[b.first_frame..b.first_frame + b.frames]))
    }

    /// The number of frames of all stacks.
    pub fn frames(&self) -> usize {
        self.frames.all().len()
    }

    /// The number of the bucket. Makes the bucket if there is none. None: out of memory.
    pub fn bucket(&mut self, size: u64, interval: u64, stack: &[usize]) -> Option<usize> {
        if (self.buckets.all().len() + 1) * 2 > self.index.all().len() && !self.grow_index() {
            return None;
        }
        let hash = hash_of(size, interval, stack);
        let mask = self.index.all().len() - 1;
        let mut place = hash as usize & mask;
        while let Some(i) = (self.index.all()[place] as usize).checked_sub(1) {
            let b = &self.buckets.all()[i];
            let frames = &self.frames.all()[b.first_frame..b.first_frame + b.frames];
            if b.hash == hash && b.size == size && b.interval == interval && frames == stack {
                return Some(i);
            }
            place = (place + 1) & mask;
        }
        let first_frame = self.frames.all().len();
        if !self.reserve(stack.len()) {
            return None;
        }
        let bucket =
            Bucket { hash, first_frame, frames: stack.len(), size, interval, taken: 0, freed: 0 };
        // SAFETY: the calls of `reserve` have just made room for all frames and for one bucket.
        unsafe {
            stack.iter().for_each(|&pc| self.frames.push(pc));
            self.buckets.push(bucket);
        }
        let made = self.buckets.all().len();
        self.index.all_mut()[place] = made as u32;
        self.show();
        Some(made - 1)
    }

    /// Makes room for one more bucket with a stack of so many frames. False: out of memory.
    fn reserve(&mut self, frames: usize) -> bool {
        if self.frames.has_room(frames) && self.buckets.has_room(1) {
            return true;
        }
        outside::hide();
        let made = self.frames.reserve(frames) && self.buckets.reserve(1);
        self.show();
        made
    }

    /// Says where the buckets and the frames lie, for another process.
    fn show(&self) {
        outside::show(self.buckets.place(), self.frames.place());
    }

    #[cold]
    fn grow_index(&mut self) -> bool {
        let places = (self.index.all().len() * 2).max(LEAST);
        // SAFETY: zero is a valid `u32`.
        if !unsafe { self.index.renew_zeroed(places) } {
            return false;
        }
        for (i, bucket) in self.buckets.all().iter().enumerate() {
            let mut place = bucket.hash as usize & (places - 1);
            while self.index.all()[place] != 0 {
                place = (place + 1) & (places - 1);
            }
            self.index.all_mut()[place] = i as u32 + 1;
        }
        true
    }

    /// Makes room for one more live sample. False: out of memory.
    pub fn make_room(&mut self) -> bool {
        self.live.make_room()
    }

    /// The size and the interval of the samples of a bucket.
    pub fn kind_of(&self, bucket: usize) -> (u64, u64) {
        let Bucket { size, interval, .. } = self.buckets.all()[bucket];
        (size, interval)
    }

    /// Notes that the block at `at` is a sample of the bucket. The caller made room.
    pub fn took(&mut self, at: usize, bucket: usize) {
        self.count_taken(bucket);
        self.put(at, bucket);
    }

    /// Counts a sample of the bucket.
    pub fn count_taken(&mut self, bucket: usize) {
        self.buckets.all_mut()[bucket].taken += 1;
    }

    /// Takes back [`Books::count_taken`], for a sample that there is no memory for.
    pub fn count_lost(&mut self, bucket: usize) {
        self.buckets.all_mut()[bucket].taken -= 1;
        self.lost += 1;
    }

    /// Puts the sample at `at` back among the live ones. The caller made room.
    pub fn put(&mut self, at: usize, bucket: usize) {
        self.live.put(at, bucket);
    }

    /// Takes the sample at `at` out of the live ones. Returns its bucket. None: there is no sample
    /// at `at`.
    pub fn remove(&mut self, at: usize) -> Option<usize> {
        self.live.remove(at)
    }

    /// Sets the counts of a bucket.
    #[cfg(test)]
    pub fn set_counts(&mut self, bucket: usize, taken: u64, freed: u64) {
        let bucket = &mut self.buckets.all_mut()[bucket];
        (bucket.taken, bucket.freed) = (taken, freed);
    }

    /// Counts a free of a sample of the bucket, which is no longer among the live ones.
    pub fn count_freed(&mut self, bucket: usize) {
        self.count_frees(bucket, 1);
    }

    /// [`Books::count_freed`] for several samples of a bucket.
    pub fn count_frees(&mut self, bucket: usize, frees: u64) {
        self.buckets.all_mut()[bucket].freed += frees;
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_bucket_is_a_stack_a_size_and_an_interval() {
        let mut books = Books::new();
        let count = if cfg!(miri) { 50 } else { 3000 };
        let stack =
            |i: usize| [i, i + 1, i * 7].into_iter().take(1 + i % 3).collect::<std::vec::Vec<_>>();
        let mut first = std::vec::Vec::new();
        for i in 0..count {
            first.push(books.bucket(8 + (i as u64 & 1), 5 << (i & 2), &stack(i / 4)).unwrap());
            // As large as it must be, so that half of the places are free.
            assert_eq!(books.index.all().len(), (2 * (i + 1)).next_power_of_two().max(LEAST));
        }
        for (i, &number) in first.iter().enumerate() {
            assert_eq!(books.bucket(8 + (i as u64 & 1), 5 << (i & 2), &stack(i / 4)), Some(number));
            let (bucket, frames) = books.buckets().nth(number).unwrap();
            let size_and_interval = (8 + (i as u64 & 1), 5 << (i & 2));
            assert_eq!(
                ((bucket.size, bucket.interval), frames),
                (size_and_interval, &*stack(i / 4))
            );
        }
        assert_eq!(books.buckets().count(), count);
        assert_eq!(books.frames(), (0..count).map(|i| stack(i / 4).len()).sum::<usize>());
    }

    /// Entries in one place would lie behind each other, and a search would check them one by one.
    #[test]
    fn what_differs_lies_apart() {
        const N: usize = 1000;
        let hashes: [&dyn Fn(usize) -> u64; 4] = [
            &|i| hash_of(i as u64, 1 << 19, &[1, 2]),
            &|i| hash_of(16, i as u64, &[1, 2]),
            &|i| hash_of(16, 1 << 19, &[0x5555_0000 + 4 * i, 2]),
            &|i| hash_of(16, 1 << 19, &[1, 0x5555_0000 + 4 * i]),
        ];
        for (what, hash) in hashes.iter().enumerate() {
            let places = (0..N).map(|i| hash(i) as usize % (4 * N.next_power_of_two()));
            let places = places.collect::<HashSet<_>>().len();
            assert!(places > N / 2, "{what}: {places}");
        }
    }
}
