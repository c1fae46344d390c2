//! Who has a heap: its thread, nobody, or for a moment somebody who tidies it.
//!
//! ```text
//!          adopt               tidy
//! LIVE ⇄ IDLE ⇄ TIDY        LOST: unfit since a fork, for ever
//!          give_up             end
//! ```
//!
//! A heap that comes out of the pool has one adopter, which waits for whoever tidies it: a matter of its mail. Who
//! tidies does not take the heap out of the pool, and does nothing to one that is not IDLE.
//!
//! LIVE carries the thread's token: so a fork in a signal handler sees that a heap is its own thread's, even while the
//! thread's word does not point there yet, or not any more.
//!
//! Rules
//! 1. Who moved the word from IDLE owns the heap until it moves it back; acquire there, release on the way back.
//! 2. LOST is set in the child of a fork, where there is one thread. If that tidied the heap, it goes on, and ends it.

use crate::mutant::{Mutant, is, relaxed_if};
use crate::sync::{AtomicU32, Ordering, const_new, spin};

/// In the pool, or on the way there or from there.
const IDLE: u32 = 0;
/// It may still be in the pool, and is dropped when it comes up.
const LOST: u32 = 1;
/// In the pool, and being tidied.
const TIDY: u32 = 2;
/// A thread has it, whose token is in the other bits.
const LIVE: u32 = 1 << 31;

/// The state of a heap. All zero bytes are IDLE.
#[derive(Debug)]
pub struct Tenure(pub(crate) AtomicU32);

/// Whom a heap was with when the process forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum With {
    /// The thread of this token.
    Thread(u32),
    /// Somebody who tidied it.
    Tidier,
    /// Nobody, and it stays so.
    Nobody,
}

impl Default for Tenure {
    fn default() -> Self {
        Self::new()
    }
}

impl Tenure {
    const_new! {
        /// IDLE.
        pub fn new() -> Self {
            Self(AtomicU32::new(IDLE))
        }
    }

    /// Makes a heap thread `me`'s that is fresh, or that the thread got out of the pool: by its token, as for
    /// [`Lock::lock_as`](super::lock::Lock::lock_as). False: it is lost.
    pub fn adopt(&self, me: u32) -> bool {
        let acquire = relaxed_if(Mutant::TenureAdoptsRelaxed, Ordering::Acquire);
        loop {
            match self.0.compare_exchange_weak(IDLE, LIVE | me, acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(LOST) => return is(Mutant::TenureAdoptsLost),
                Err(_) if is(Mutant::TenureAdoptsWhileTidied) => return true,
                Err(_) => spin(),
            }
        }
    }

    /// Gives the caller's heap up: it may be put into the pool.
    pub fn give_up(&self) {
        self.0.store(IDLE, relaxed_if(Mutant::TenureEndsRelaxed, Ordering::Release));
    }

    /// Runs `f` on an idle heap as its owner. False: it is not idle.
    pub fn tidy(&self, f: impl FnOnce()) -> bool {
        let idle = self.0.compare_exchange(IDLE, TIDY, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if idle || is(Mutant::TenureTidiesLive) {
            f();
            self.0.store(IDLE, relaxed_if(Mutant::TenureEndsRelaxed, Ordering::Release));
        }
        idle
    }

    /// Holds a heap if it is idle, as who tidies it does, until `let_go`: for one who looks into many at once.
    pub fn hold(&self) -> bool {
        self.0.compare_exchange(IDLE, TIDY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Ends `hold`. Nothing, for a heap that is not held.
    pub fn let_go(&self) {
        let _ = self.0.compare_exchange(TIDY, IDLE, Ordering::Release, Ordering::Relaxed);
    }

    /// Whom the heap is with.
    pub fn with(&self) -> With {
        match self.0.load(Ordering::Relaxed) {
            TIDY => With::Tidier,
            state if state & LIVE != 0 => With::Thread(state & !LIVE),
            _ => With::Nobody,
        }
    }

    /// Makes the heap unfit for ever (rule 2).
    pub fn lose(&self) {
        self.0.store(LOST, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;

    use super::*;
    use std::sync::{Barrier, atomic::AtomicBool};

    const ME: u32 = 7;

    #[test]
    fn a_heap_is_its_threads_alone() {
        let heap = Tenure::new();
        assert_eq!(heap.with(), With::Nobody);
        assert!(heap.adopt(ME));
        assert_eq!(heap.with(), With::Thread(ME));
        assert!(!heap.tidy(|| unreachable!("it is not idle")) && !heap.hold());
        heap.let_go();
        assert_eq!(heap.with(), With::Thread(ME), "it was not held");
        heap.give_up();
        assert_eq!(heap.with(), With::Nobody);
    }

    #[test]
    fn an_idle_heap_is_tidied_or_held_by_one() {
        let heap = &Tenure::new();
        let mut tidied = false;
        assert!(heap.tidy(|| {
            assert!(heap.with() == With::Tidier && !heap.hold());
            tidied = true;
        }));
        assert!(tidied && heap.with() == With::Nobody);
        assert!(heap.hold() && !heap.hold() && heap.with() == With::Tidier);
        let (start, is_held) = (Barrier::new(2), AtomicBool::new(true));
        std::thread::scope(|scope| {
            // It waits for whoever holds the heap.
            let adopter = scope.spawn(|| {
                start.wait();
                heap.adopt(ME) && !is_held.load(Ordering::Relaxed)
            });
            start.wait();
            (0..1000).for_each(|_| std::thread::yield_now()); // Time to do it wrong.
            is_held.store(false, Ordering::Relaxed);
            heap.let_go();
            assert!(adopter.join().unwrap());
        });
        assert_eq!(heap.with(), With::Thread(ME));
    }

    #[test]
    fn a_lost_heap_stays_lost() {
        let heap = Tenure::new();
        heap.lose();
        heap.let_go();
        assert!(!heap.adopt(ME) && !heap.hold() && !heap.tidy(|| unreachable!("it is lost")));
        assert_eq!(heap.with(), With::Nobody);
    }
}
