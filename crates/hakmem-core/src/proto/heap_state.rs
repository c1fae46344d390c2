//! Which thread holds a heap: its own thread, a thread that tidies it for a moment, or none.
//!
//! ```text
//! LIVE(thread) ── give_up ──→ IDLE ── hold, tidy ──→ TIDY(tidier) ── adopt ──→ POPPED(tidier)
//!      ↑                      │  ↑                       │                        │
//!      └─────── adopt ────────┘  └──────── let_go ───────┴──────── let_go ────────┘
//! LIVE(a thread that is gone) ── seize ──→ POPPED(tidier)
//! any state ── lose ──→ LOST, for ever
//! ```
//!
//! No thread waits. A thread that tidies a heap leaves it in the pool. Another thread may pop such
//! a heap. That thread marks the heap as POPPED and pops the next one. The tidier then puts the
//! heap back into the pool when it is done.
//!
//! LIVE, TIDY and POPPED carry a thread's token. So the child of a fork sees which thread held
//! which heap. And a fork in a signal handler sees that its own thread holds a heap, even while the
//! thread's word does not point there yet, or not any more.
//!
//! Rules
//! 1. The thread that changes the word from IDLE (acquire) holds the heap until it changes the word
//!    back (release). So each holder sees what the last one did. An adopter that changes TIDY to
//!    POPPED does not hold the heap.
//! 2. The child of a fork sets LOST. It has one thread. If that thread was tidying the heap, it
//!    goes on with that, and its `let_go` does nothing.
//! 3. An IDLE heap is in the pool, or one thread is about to put it there: the one that called
//!    `give_up`, or the one whose `let_go` returned [`Tidied::Popped`]. A fork between the two
//!    steps loses the heap to the child: there it is in no pool. A new heap is LIVE before other
//!    threads can find it.
//! 4. A thread that becomes the holder tells the purge so before it uses the heap (`pause` rule 4).
//!    The adopter tells it by the number of its thread, and others by the state.
//!
//! Model: `tests/loom/heap_state.rs`.

use super::pause::changed_hands;
use crate::base::sync::{AtomicU32, Ordering, const_new, load_or_cas};

/// No thread holds the heap. It is in the pool, or a thread is putting it there or has just popped
/// it.
const IDLE: u32 = 0;
/// No thread holds the heap ever again. It may still be in the pool: the thread that pops it drops
/// it.
const LOST: u32 = 1;
/// The heap's thread holds it. The low bits have that thread's token.
const LIVE: u32 = 1 << 31;
/// A thread tidies the heap. The low bits have that thread's token.
const TIDY: u32 = 1 << 30;
/// A thread tidies the heap, which is not in the pool. The low bits have the tidier's token.
const POPPED: u32 = TIDY | LIVE;

/// The state of a heap. All zero bytes are IDLE.
#[derive(Debug)]
pub struct HeapState(pub(crate) AtomicU32);

/// What the adopter of a popped heap got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adopted {
    /// The heap.
    Yes,
    /// Nothing: another thread tidies the heap, and will put it back into the pool.
    Tidied,
    /// Nothing: the heap is lost.
    Lost,
}

/// What became of a heap that a thread tried to tidy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Tidied {
    /// The heap was not idle: nothing was done.
    No,
    /// The heap is idle, and still in the pool if it was there.
    Yes,
    /// The heap is idle, and the caller puts it into the pool (rule 3).
    Popped,
}

/// Which thread holds a heap. The child of a fork asks which one held it at the fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum With {
    /// The thread with this token, whose heap it is.
    Thread(u32),
    /// The thread with this token, which tidies the heap.
    Tidier(u32),
    /// None: the heap is idle or lost.
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

    /// Makes a heap the heap of thread `me`. The heap is new, or the thread has popped it. `me` is
    /// the calling thread's token, as for [`Lock::lock_as`](super::lock::Lock::lock_as). Lock-free:
    /// the loop goes round only after a tidier took the heap or let it go.
    pub fn adopt(&self, me: u32) -> Adopted {
        let mut now = load_or_cas!(self.0, Ordering::Relaxed);
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

    /// Gives the calling thread's heap up. The caller then puts it into the pool (rule 3).
    pub fn give_up(&self) {
        self.0.store(IDLE, Ordering::Release);
    }

    /// If the heap is idle, holds it as thread `me`, runs `f`, and lets the heap go.
    pub fn tidy(&self, me: u32, f: impl FnOnce()) -> Tidied {
        if !self.hold(me) {
            return Tidied::No;
        }
        f();
        self.let_go(me)
    }

    /// Takes the heap of a thread that is gone, whose token was `gone`, and runs `f` as thread
    /// `me`. The caller knows that the thread is gone, and has seen all that the thread did.
    pub fn seize(&self, gone: u32, me: u32, f: impl FnOnce()) -> Tidied {
        // Acquire, as for every change that makes a thread the holder (rule 1). Here the caller
        // must have seen what the thread did already: that thread wrote no word with release.
        let seized =
            self.0.compare_exchange(LIVE | gone, POPPED | me, Ordering::Acquire, Ordering::Relaxed);
        if seized.is_err() {
            return Tidied::No;
        }
        changed_hands();
        f();
        self.let_go(me)
    }

    /// Holds the heap as its tidier, if it is idle, until `let_go`.
    fn hold(&self, me: u32) -> bool {
        let held = self.0.compare_exchange(IDLE, TIDY | me, Ordering::Acquire, Ordering::Relaxed);
        if held.is_ok() {
            changed_hands();
        }
        held.is_ok()
    }

    /// Ends `hold`. Does nothing if thread `me` does not hold the heap.
    pub fn let_go(&self, me: u32) -> Tidied {
        if self.0.compare_exchange(TIDY | me, IDLE, Ordering::Release, Ordering::Relaxed).is_ok() {
            return Tidied::Yes;
        }
        // An adopter sets POPPED once. From then on only the tidier changes the word.
        let popped = self
            .0
            .compare_exchange(POPPED | me, IDLE, Ordering::Release, Ordering::Relaxed)
            .is_ok();
        if popped { Tidied::Popped } else { Tidied::No }
    }

    /// Which thread holds the heap.
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
        let tidied =
            heap.tidy(ME, || assert!(heap.with() == With::Tidier(ME) && !heap.hold(OTHER)));
        assert_eq!((tidied, heap.with()), (Tidied::Yes, With::Nobody));
        assert!(heap.hold(ME) && !heap.hold(OTHER) && heap.with() == With::Tidier(ME));
        assert_eq!(heap.let_go(OTHER), Tidied::No, "it is held by another");
        assert_eq!((heap.let_go(ME), heap.with()), (Tidied::Yes, With::Nobody));
    }

    /// An adopter waits for no thread: with the tidier preempted, it would wait for ever on one
    /// processor.
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
