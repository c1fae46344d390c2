//! A lock for the rare paths: one word, asleep in the kernel while it waits, and it knows who holds it.
//!
//! The word is 0 while the lock is free, else the holder's token, with the top bit set if somebody may sleep. A waiter
//! that gets the lock keeps that bit, so that the next one is woken; that costs a needless wake now and then and never
//! loses one. Knowing the holder lets a fork in a signal handler see that it interrupted the holder itself.

use crate::mutant::{Mutant, is, relaxed_if};
use crate::sync::{AtomicU32, Ordering, const_new, spin};

const SLEEPERS: u32 = 1 << 31;

/// A mutual exclusion lock, held across fork by the fork handlers.
#[derive(Debug)]
pub struct Lock {
    state: AtomicU32,
}

/// Letting go of it unlocks.
#[derive(Debug)]
#[must_use]
pub struct Guard<'a>(&'a Lock);

impl Default for Lock {
    fn default() -> Self {
        Self::new()
    }
}

impl Lock {
    const_new! {
        /// A free lock.
        pub fn new() -> Self {
            Self { state: AtomicU32::new(0) }
        }
    }

    /// Waits for the lock and takes it, as thread `me`: a token above 0 and below 2³¹ that is the thread's alone.
    pub fn lock_as(&self, me: u32) -> Guard<'_> {
        self.acquire_as(me);
        Guard(self)
    }

    /// Takes the lock if it is free.
    pub fn try_lock_as(&self, me: u32) -> Option<Guard<'_>> {
        // Acquire: what the last holder wrote.
        let got = self.state.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed);
        if is(Mutant::LockTriesAndReleases) {
            return got.is_ok().then_some(Guard(self));
        }
        // Not `then_some`: a guard that is made is dropped, and that would unlock.
        got.is_ok().then(|| Guard(self))
    }

    /// True if thread `me` holds the lock: only it can say so of itself.
    pub fn is_held_by(&self, me: u32) -> bool {
        self.state.load(Ordering::Relaxed) & !SLEEPERS == me
    }

    /// Takes the lock without a guard, for fork handlers.
    pub fn acquire_as(&self, me: u32) {
        // Acquire: what the last holder wrote.
        let acquire = relaxed_if(Mutant::LockAcquiresRelaxed, Ordering::Acquire);
        for _ in 0..if cfg!(loom) { 1 } else { 100 } {
            if self.state.compare_exchange_weak(0, me, acquire, Ordering::Relaxed).is_ok() {
                return;
            }
            spin();
        }
        loop {
            let Err(now) = self.state.compare_exchange(0, me | SLEEPERS, acquire, Ordering::Relaxed) else {
                return;
            };
            let asleep = now | SLEEPERS;
            if now == asleep || self.state.compare_exchange(now, asleep, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                wait(&self.state, asleep);
            }
        }
    }

    /// Lets go of the lock; the caller holds it.
    pub fn release(&self) {
        // Release: what this holder wrote.
        let release = relaxed_if(Mutant::LockReleasesRelaxed, Ordering::Release);
        if self.state.swap(0, release) & SLEEPERS != 0 {
            wake(&self.state);
        }
    }
}

#[cfg(not(loom))]
impl Lock {
    /// [`Lock::lock_as`] the calling thread.
    pub fn lock(&self) -> Guard<'_> {
        self.lock_as(crate::os::thread_token())
    }

    /// [`Lock::try_lock_as`] the calling thread.
    pub fn try_lock(&self) -> Option<Guard<'_>> {
        self.try_lock_as(crate::os::thread_token())
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

#[cfg(not(loom))]
fn wait(word: &AtomicU32, while_it_is: u32) {
    crate::os::futex_wait(word, while_it_is, None);
}
#[cfg(not(loom))]
fn wake(word: &AtomicU32) {
    crate::os::futex_wake(word);
}
#[cfg(loom)]
fn wait(_: &AtomicU32, _: u32) {
    spin();
}
#[cfg(loom)]
fn wake(_: &AtomicU32) {}
