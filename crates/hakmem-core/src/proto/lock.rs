//! A lock of one word for the rare paths. Waiters sleep in the kernel, and the word names the
//! holder.
//!
//! ```text
//!           lock                       a waiter is about to sleep
//! 0 (free) ──────→ token of the holder ──────────────→ token + SLEEPERS
//!    ↑──── release ────────┘                                 │
//!    ↑──── release, and wake one waiter ─────────────────────┘
//! ```
//!
//! Rules
//! 1. The thread that changes the word from 0 to its token holds the lock (acquire). It releases
//!    the lock by swapping in 0 (release). So each holder sees what the last one wrote.
//! 2. A waiter sets SLEEPERS before it sleeps. A release that finds SLEEPERS wakes one waiter.
//! 3. A waiter that gave up spinning takes the lock with SLEEPERS set, as other waiters may still
//!    sleep. So its release wakes the next one. That costs a needless wake now and then, and loses
//!    none.
//! 4. A waiter that slept for its time sets SLEEPERS before it gives up. The release that woke it
//!    may have found other waiters asleep. So the next release wakes one of them.
//! 5. A waiter reads the word before it tries to change it. So many waiters share the cache line
//!    instead of taking it from each other. It looks less often from one look to the next, and the
//!    token shifts its looks. So few of the waiters find the lock free at the same moment: of
//!    these one takes it, and the others write the line for nothing. A waiter spins for a moment
//!    only, so that a holder of lower priority on the same processor gets its turn.
//! 6. The token tells the child of a fork which locks another thread of the parent held. It also
//!    tells a waiter that it waits for itself: that would never end, so the process does.
//!
//! Model: `tests/loom/lock.rs`.

use crate::base::sync::{AtomicU32, Ordering, const_new, load_or_cas, spin};
use crate::os;

/// The bit of the word that says that a waiter may sleep (rules 2 to 4).
const SLEEPERS: u32 = 1 << 31;
/// The moments that a waiter spins for before it sleeps.
const SPINS: u32 = if cfg!(loom) { 1 } else { 100 };
/// The most moments between two looks of a waiter.
const MOST_BETWEEN: u32 = 16;

/// A mutual exclusion lock. It has a cache line of its own: other threads read what lies beside it.
#[derive(Debug)]
#[repr(align(64))]
pub struct Lock {
    state: AtomicU32,
}

/// Proof that its maker holds the lock. Dropping it releases the lock.
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

    /// Waits for the lock and takes it. `me` is the token of the calling thread: above 0, below
    /// 2³⁰, and no other thread's.
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub fn lock_as(&self, me: u32) -> Guard<'_> {
        self.acquire_as(me);
        Guard(self)
    }

    /// Waits for the lock for up to about `ms` milliseconds. Returns None if the time is over, or
    /// if the kernel woke the thread and another one had the lock again.
    pub fn lock_within_as(&self, me: u32, ms: u32) -> Option<Guard<'_>> {
        self.acquire_within_as(me, Some(ms)).then(|| Guard(self))
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock_as(&self, me: u32) -> Option<Guard<'_>> {
        // Acquire: this thread sees what the last holder wrote.
        let got = self.state.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed);
        // Not `then_some`: that makes the guard in any case, and dropping it would release the
        // lock.
        got.is_ok().then(|| Guard(self))
    }

    /// True if thread `me` holds the lock. The answer is certain only for the calling thread: other
    /// threads take and release the lock meanwhile.
    pub fn is_held_by(&self, me: u32) -> bool {
        self.state.load(Ordering::Relaxed) & !SLEEPERS == me
    }

    /// True if some other thread holds the lock.
    pub fn is_held_by_other_than(&self, me: u32) -> bool {
        let holder = self.state.load(Ordering::Relaxed) & !SLEEPERS;
        holder != 0 && holder != me
    }

    /// True if a thread may sleep until the lock is free.
    #[cfg(all(test, not(any(miri, shuttle))))]
    pub fn is_waited_for(&self) -> bool {
        self.state.load(Ordering::Relaxed) & SLEEPERS != 0
    }

    /// Makes the lock free. For the child of a fork: the holder and all waiters are gone there.
    pub fn reset(&self) {
        self.state.store(0, Ordering::Relaxed);
    }

    /// Waits for the lock and takes it without a guard.
    #[inline(always)]
    fn acquire_as(&self, me: u32) {
        while !self.acquire_within_as(me, None) {}
    }

    /// Waits for the lock and takes it without a guard. With a limit, in milliseconds, the thread
    /// sleeps once at most. Returns true if the thread took the lock.
    #[unsafe(link_section = ".text.hot.hakmem")]
    fn acquire_within_as(&self, me: u32, limit: Option<u32>) -> bool {
        // Acquire, where the word changes to `me`: this thread sees what the last holder wrote.
        let (mut spun, mut between) = (0, 1 + me % 4);
        while spun < SPINS {
            if load_or_cas!(self.state, Ordering::Relaxed) == 0
                && self
                    .state
                    .compare_exchange_weak(0, me, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return true;
            }
            (0..between).for_each(|_| spin());
            spun += between;
            between = (2 * between).min(MOST_BETWEEN);
        }
        let mut slept = false;
        loop {
            let mut now = load_or_cas!(self.state, Ordering::Relaxed);
            if now == 0 {
                let taken = me | SLEEPERS;
                let was =
                    self.state.compare_exchange(0, taken, Ordering::Acquire, Ordering::Relaxed);
                match was {
                    Ok(_) => return true,
                    Err(other) => now = other,
                }
            }
            if now & !SLEEPERS == me && limit.is_none() {
                waits_for_itself();
            }
            let marked = now | SLEEPERS;
            if now == marked
                || self
                    .state
                    .compare_exchange(now, marked, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                if slept && limit.is_some() {
                    // The release that woke this thread woke no other one, and another thread may
                    // have taken the lock without the bit since. Now it is set (rule 4). The kernel
                    // orders the wake before the end of the sleep, so `now` is no older value.
                    return false;
                }
                os::futex_wait(&self.state, marked, limit);
                slept = true;
            }
        }
    }

    /// Releases a lock that the caller holds and whose guard it has forgotten.
    #[inline]
    pub fn release(&self) {
        // Release: the next holder sees what this one wrote.
        if self.state.swap(0, Ordering::Release) & SLEEPERS != 0 {
            self.wake();
        }
    }

    /// Wakes a waiter.
    #[cold]
    #[inline(never)]
    fn wake(&self) {
        os::futex_wake(&self.state);
    }
}

/// Ends the process (rule 6).
#[cold]
#[inline(never)]
fn waits_for_itself() -> ! {
    os::fatal(format_args!(
        "malloc or free was called in the middle of another call of hakmem, by a signal handler \
         or by a function that hakmem calls"
    ))
}

impl Lock {
    /// [`Lock::lock_as`] the calling thread.
    pub fn lock(&self) -> Guard<'_> {
        self.lock_as(os::thread_token())
    }

    /// [`Lock::try_lock_as`] the calling thread.
    pub fn try_lock(&self) -> Option<Guard<'_>> {
        self.try_lock_as(os::thread_token())
    }

    /// Waits for the lock, but only tries once `is_over` says so, at the latest half a second
    /// after.
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub fn lock_unless(&self, me: u32, is_over: impl Fn() -> bool) -> Option<Guard<'_>> {
        // Twice as long each time: thousands of waiters that woke each few milliseconds would keep
        // the holder from its processor.
        const MOST_MS: u32 = 320;
        let mut ms = 5;
        while !is_over() {
            if self.is_held_by(me) {
                waits_for_itself();
            }
            if let Some(held) = self.lock_within_as(me, ms) {
                return Some(held);
            }
            ms = (2 * ms).min(MOST_MS);
        }
        self.try_lock_as(me)
    }

    /// Waits for the lock for up to `ms` milliseconds, while `goes_on` says so. Asks that once in
    /// 5 ms or more often, and tries once at the end.
    pub fn lock_for(&self, me: u32, ms: u32, goes_on: impl Fn() -> bool) -> Option<Guard<'_>> {
        const STEP: u32 = 5;
        let begun = os::now_ms();
        // A sleep may take longer than it should, or end at once. And a clock may stand still.
        (0..20 * ms)
            .take_while(|_| goes_on() && os::age(os::now_ms(), begun) <= ms)
            .find_map(|_| self.lock_within_as(me, STEP))
            .or_else(|| self.try_lock_as(me))
    }

    /// Waits for the lock for half a second. The holder may never release it: a child that was made
    /// without fork's handlers has a copy of the lock, but not the thread that holds it.
    pub fn lock_patiently(&self) -> Option<Guard<'_>> {
        self.lock_for(os::thread_token(), 500, || true)
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.release();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const ME: u32 = 5;
    const OTHER: u32 = 9;

    #[test]
    fn a_lock_knows_its_holder() {
        let lock = Lock::new();
        assert!(!lock.is_held_by(ME) && !lock.is_held_by_other_than(ME));
        let held = lock.lock_as(ME);
        assert!(lock.is_held_by(ME) && !lock.is_held_by(OTHER));
        assert!(!lock.is_held_by_other_than(ME) && lock.is_held_by_other_than(OTHER));
        assert!(lock.try_lock_as(OTHER).is_none());
        assert!(lock.is_held_by(ME), "a try leaves the holder alone");
        drop(held);
        let got = lock.try_lock_as(OTHER);
        assert!(got.is_some() && lock.is_held_by(OTHER));
        drop(got);
        assert!(!lock.is_held_by_other_than(ME));
    }

    #[test]
    fn a_lock_that_was_reset_is_free() {
        let lock = Lock::new();
        core::mem::forget(lock.lock_as(OTHER));
        lock.reset();
        assert!(lock.try_lock_as(ME).is_some());
    }

    #[test]
    #[cfg(not(any(miri, shuttle)))]
    fn whoever_waits_for_itself_ends() {
        let waits = |me| {
            crate::testing::goes_well_in_child(|| {
                let lock = Lock::new();
                core::mem::forget(lock.lock_as(ME));
                // With a limit the wait ends by itself.
                assert!(lock.lock_within_as(ME, 1).is_none());
                if me == ME {
                    _ = lock.lock_as(me);
                }
            })
        };
        assert!(waits(OTHER) && !waits(ME));
    }

    #[test]
    fn patience_ends() {
        let (me, lock) = (crate::os::thread_token(), Lock::new());
        assert!(lock.lock_within_as(ME, 1).is_some());
        let held = lock.lock_as(OTHER);
        assert!(lock.lock_within_as(ME, 1).is_none() && lock.is_held_by(OTHER));
        drop(held);
        assert!(lock.lock_within_as(ME, 1).is_some());
        let got = lock.lock_patiently();
        assert!(got.is_some() && lock.is_held_by(me));
        drop(got);
        let held = lock.lock_as(OTHER + me);
        assert!(lock.lock_patiently().is_none());
        assert!(lock.lock_unless(ME, || true).is_none());
        drop(held);
        drop(lock.lock());
        assert!(lock.try_lock().is_some() && !lock.is_held_by(me));
    }

    #[test]
    fn a_sleeper_is_woken_and_does_not_hide_the_holder() {
        extern crate std;
        let lock = Lock::new();
        let asleep = || lock.state.load(Ordering::Relaxed) & SLEEPERS != 0;
        let held = lock.lock_as(ME);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let held = lock.lock_as(OTHER);
                assert!(lock.is_held_by(OTHER) && !lock.is_held_by_other_than(OTHER));
                drop(held);
            });
            while !asleep() {
                std::thread::yield_now();
            }
            assert!(lock.is_held_by(ME) && !lock.is_held_by_other_than(ME));
            drop(held);
            waiter.join().unwrap();
        });
        assert!(lock.try_lock_as(ME).is_some(), "it is free again");
    }

    /// The second waiter finds the bit set, and leaves it set.
    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel who sleeps")]
    fn two_sleepers_are_both_woken() {
        extern crate std;
        let lock = Lock::new();
        let held = lock.lock_as(ME);
        std::thread::scope(|scope| {
            let (send, ids) = std::sync::mpsc::channel();
            for waiter in [OTHER, OTHER + 1] {
                let (send, lock) = (send.clone(), &lock);
                scope.spawn(move || {
                    // SAFETY: `gettid` takes no arguments and touches no memory of the process.
                    send.send(unsafe { libc::syscall(libc::SYS_gettid) }).unwrap();
                    drop(lock.lock_as(waiter));
                });
            }
            for id in ids.iter().take(2) {
                let stat = std::format!("/proc/self/task/{id}/stat");
                while !std::fs::read_to_string(&stat).unwrap().contains(") S ") {
                    std::thread::yield_now();
                }
            }
            drop(held);
        });
    }
}
