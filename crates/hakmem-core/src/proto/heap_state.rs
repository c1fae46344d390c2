//! Who has a heap: its thread, nobody, or for a moment somebody who tidies it.
//!
//! ```text
//!            adopt            tidy, hold
//! LIVE(me) ⇄ IDLE ───────────────⇄ TIDY(tidier) ── adopt ──→ TIDY(tidier) + POPPED
//!            give_up             end
//! LIVE(gone) ── seize ──→ TIDY(tidier) + POPPED              LOST: unfit since a fork, for ever
//! ```
//!
//! Nobody waits. Who tidies leaves the heap in the pool. A thread that pops such a heap leaves it to the tidier, which puts it
//! back into the pool when it is through, and the thread takes the next heap.
//!
//! LIVE and TIDY carry a thread's token: the child of a fork sees which heaps were whose, and a fork in a signal handler that
//! a heap is its own thread's, even while the thread's word does not point there yet, or not any more.
//!
//! Rules
//! 1. Who moved the word from IDLE owns the heap until it moves it back; acquire there, release on the way back.
//! 2. LOST is set in the child of a fork, where there is one thread. If that tidied the heap, it goes on, and ends it.
//! 3. An IDLE heap is in the pool, or its last owner is about to put it there: the one that was told so.

use crate::base::sync::{AtomicU32, Ordering, const_new, look};

/// In the pool, or on the way there or from there.
const IDLE: u32 = 0;
/// It may still be in the pool, and is dropped when it comes up.
const LOST: u32 = 1;
/// A thread has it, whose token is in the low bits.
const LIVE: u32 = 1 << 31;
/// Somebody tidies it, whose token is in the low bits. With LIVE: it is not in the pool.
const TIDY: u32 = 1 << 30;
const POPPED: u32 = TIDY | LIVE;

/// The state of a heap. All zero bytes are IDLE.
#[derive(Debug)]
pub struct HeapState(pub(crate) AtomicU32);

/// What an adopter got of a heap that it popped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adopted {
    /// The heap.
    Yes,
    /// Nothing: somebody tidies the heap, and puts it back into the pool.
    Tidied,
    /// Nothing: it is lost.
    Lost,
}

/// What came of tidying a heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Tidied {
    /// It was not idle: nothing was done.
    No,
    /// It is idle, and where it was.
    Yes,
    /// It is idle, and the caller puts it into the pool (rule 3).
    Popped,
}

/// Whom a heap was with when the process forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum With {
    /// The thread of this token.
    Thread(u32),
    /// The thread of this token, which tidied it.
    Tidier(u32),
    /// Nobody, and it stays so.
    Nobody,
}

impl Default for HeapState {
    fn default() -> Self {
        Self::new()
    }
}

impl HeapState {
    const_new! {
        /// IDLE.
        pub fn new() -> Self {
            Self(AtomicU32::new(IDLE))
        }
    }

    /// Makes a heap thread `me`'s that is fresh, or that the thread got out of the pool: by its token, as for
    /// [`Lock::lock_as`](super::lock::Lock::lock_as). Lock-free: it tries again only after a tidier came or went.
    pub fn adopt(&self, me: u32) -> Adopted {
        let mut now = look!(self.0, Ordering::Relaxed);
        loop {
            let (new, got) = match now {
                IDLE => (LIVE | me, Adopted::Yes),
                LOST => return Adopted::Lost,
                tidied => (tidied | POPPED, Adopted::Tidied),
            };
            match self.0.compare_exchange_weak(now, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return got,
                Err(other) => now = other,
            }
        }
    }

    /// Gives the caller's heap up: the caller puts it into the pool.
    pub fn give_up(&self) {
        self.0.store(IDLE, Ordering::Release);
    }

    /// Runs `f` on an idle heap as its owner, by thread `me`.
    pub fn tidy(&self, me: u32, f: impl FnOnce()) -> Tidied {
        if !self.hold(me) {
            return Tidied::No;
        }
        f();
        self.let_go(me)
    }

    /// Runs `f` on the heap of a thread that is gone, whose token was `gone`, as its owner, by thread `me`. The caller knows that
    /// it is gone, and that it has seen what that thread did.
    pub fn seize(&self, gone: u32, me: u32, f: impl FnOnce()) -> Tidied {
        // Acquire: as for a heap that was given up.
        let seized = self.0.compare_exchange(LIVE | gone, POPPED | me, Ordering::Acquire, Ordering::Relaxed);
        if seized.is_err() {
            return Tidied::No;
        }
        f();
        self.let_go(me)
    }

    /// Holds a heap if it is idle, as who tidies it does, until `let_go`: for one who looks into many at once.
    pub fn hold(&self, me: u32) -> bool {
        self.0.compare_exchange(IDLE, TIDY | me, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Ends `hold`. Nothing, for a heap that thread `me` does not hold.
    pub fn let_go(&self, me: u32) -> Tidied {
        if self.0.compare_exchange(TIDY | me, IDLE, Ordering::Release, Ordering::Relaxed).is_ok() {
            return Tidied::Yes;
        }
        // An adopter sets POPPED once, and then nobody changes the word but the tidier.
        let popped = self.0.compare_exchange(POPPED | me, IDLE, Ordering::Release, Ordering::Relaxed).is_ok();
        if popped { Tidied::Popped } else { Tidied::No }
    }

    /// Whom the heap is with.
    pub fn with(&self) -> With {
        let state = self.0.load(Ordering::Relaxed);
        match state & POPPED {
            0 => With::Nobody,
            LIVE => With::Thread(state & !POPPED),
            _ => With::Tidier(state & !POPPED),
        }
    }

    /// Makes the heap unfit for ever (rule 2).
    pub fn lose(&self) {
        self.0.store(LOST, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const ME: u32 = 7;
    const OTHER: u32 = 9;

    #[test]
    fn a_heap_is_its_threads_alone() {
        let heap = HeapState::new();
        assert_eq!(heap.with(), With::Nobody);
        assert_eq!(heap.adopt(ME), Adopted::Yes);
        assert_eq!(heap.with(), With::Thread(ME));
        assert_eq!(heap.tidy(OTHER, || unreachable!("it is not idle")), Tidied::No);
        assert!(!heap.hold(OTHER));
        assert_eq!(heap.let_go(OTHER), Tidied::No);
        assert_eq!(heap.with(), With::Thread(ME), "it was not held");
        heap.give_up();
        assert_eq!(heap.with(), With::Nobody);
    }

    #[test]
    fn an_idle_heap_is_tidied_or_held_by_one() {
        let heap = &HeapState::new();
        let tidied = heap.tidy(ME, || assert!(heap.with() == With::Tidier(ME) && !heap.hold(OTHER)));
        assert_eq!((tidied, heap.with()), (Tidied::Yes, With::Nobody));
        assert!(heap.hold(ME) && !heap.hold(OTHER) && heap.with() == With::Tidier(ME));
        assert_eq!(heap.let_go(OTHER), Tidied::No, "it is held by another");
        assert_eq!((heap.let_go(ME), heap.with()), (Tidied::Yes, With::Nobody));
    }

    /// An adopter waits for nobody: with the tidier preempted, it would wait for ever on one processor.
    #[test]
    fn who_pops_a_heap_that_is_tidied_leaves_it_to_the_tidier() {
        let heap = HeapState::new();
        assert!(heap.hold(OTHER));
        assert_eq!(heap.adopt(ME), Adopted::Tidied);
        assert_eq!(heap.with(), With::Tidier(OTHER));
        assert_eq!((heap.let_go(OTHER), heap.with()), (Tidied::Popped, With::Nobody));
        assert_eq!(heap.adopt(ME), Adopted::Yes);
    }

    #[test]
    fn the_heap_of_a_thread_that_is_gone_is_seized_once() {
        let heap = HeapState::new();
        assert_eq!(heap.adopt(OTHER), Adopted::Yes);
        assert_eq!(heap.seize(ME, ME, || unreachable!("it is another thread's")), Tidied::No);
        let tidied = heap.seize(OTHER, ME, || assert_eq!(heap.with(), With::Tidier(ME)));
        assert_eq!((tidied, heap.with()), (Tidied::Popped, With::Nobody));
        assert_eq!(heap.seize(OTHER, ME, || unreachable!("it is idle")), Tidied::No);
    }

    #[test]
    fn a_lost_heap_stays_lost() {
        let heap = HeapState::new();
        heap.lose();
        assert_eq!(heap.let_go(ME), Tidied::No);
        assert!(heap.adopt(ME) == Adopted::Lost && !heap.hold(ME));
        assert_eq!(heap.tidy(ME, || unreachable!("it is lost")), Tidied::No);
        assert_eq!(heap.with(), With::Nobody);
    }
}
