//! The state of a guarded place.
//!
//! ```text
//! allocation:  Unused or Freed → Busy → Live
//! free:        Live → Busy → Freed, or Reported for an error
//! access:      Live → Busy → Faulted, or Freed → Busy → Reported: an error was reported
//! free:        Faulted → Busy → Reported
//! ```
//!
//! Rules
//! 1. A place belongs to the thread that changed its state to `Busy`, until the thread sets another
//!    one. No thread waits for a place.
//! 2. If two threads free one block, one of them seizes the place. The other one reports an error.
//! 3. A thread that seizes a place, or reads its state (acquire), sees what the last owner wrote
//!    before it set the state (release).
//!
//! Model: `tests/loom/guarded.rs`.

use crate::base::sync::{AtomicU32, Ordering, const_new};

/// What a place is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Nothing yet.
    Unused = 0,
    /// A thread changes it (rule 1).
    Busy = 1,
    /// A live block.
    Live = 2,
    /// Nothing since the block was freed. The room has no access.
    Freed = 3,
    /// An error of its block was reported. The place is not used again.
    Reported = 4,
    /// The same of a block that is live.
    Faulted = 5,
}

impl State {
    fn of(number: u32) -> Self {
        let all =
            [Self::Unused, Self::Busy, Self::Live, Self::Freed, Self::Reported, Self::Faulted];
        all[number as usize]
    }
}

/// The state of a place. All zero bytes are `Unused`.
#[derive(Debug)]
pub struct GuardedState(AtomicU32);

impl Default for GuardedState {
    fn default() -> Self {
        Self::new()
    }
}

impl GuardedState {
    const_new! {
        /// `Unused`.
        pub fn new() -> Self {
            Self(AtomicU32::new(State::Unused as u32))
        }
    }

    /// The state.
    pub fn get(&self) -> State {
        // Acquire: pairs with `set` (rule 3).
        State::of(self.0.load(Ordering::Acquire))
    }

    /// Ends the ownership of the place (rule 1).
    pub fn set(&self, state: State) {
        // Release: pairs with `get` and `seize` (rule 3).
        self.0.store(state as u32, Ordering::Release);
    }

    /// Takes the place, if its state is `from`.
    pub fn seize(&self, from: State) -> bool {
        // Acquire: pairs with `set` (rule 3).
        self.0
            .compare_exchange(from as u32, State::Busy as u32, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }
}
