//! Where the owner of a page keeps it.
//!
//! Only the owner changes the state, and in general only the owner reads it. One state is for
//! others too: a thread that has all blocks of a page, and finds it [`PageState::Full`], may end
//! the page in place of the owner (`heap::reclaim::whole`).
//!
//! Rules
//! 1. The owner writes `Full` (release) after it has taken the page out of its queue. It does not
//!    touch the metadata of the page again until it gets a block of the page back.
//! 2. A thread that has all blocks of the page reads the state (acquire). If that is `Full`, it has
//!    seen all that the owner did to the page, and the page is its own from now on.
//!
//! Model: `tests/loom/page_state.rs`.

use crate::base::sync::{AtomicU8, Ordering, const_new};

/// Where the owner keeps a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PageState {
    /// In the queue of its class.
    Queue = 0,
    /// Full: all its blocks are used. It is in no list.
    Full = 1,
    /// In the queue, empty, without an owner: the heap keeps it because it is the only one of its
    /// class.
    Retired = 2,
    /// Among the heap's cached empty pages.
    Cached = 3,
    /// In the queue, with few blocks used: the heap is about to park it.
    Candidate = 4,
    /// Parked: few blocks are used, or many heaps share it.
    Parked = 5,
}

impl PageState {
    #[inline(always)]
    fn of(number: u8) -> Self {
        match number {
            1 => Self::Full,
            2 => Self::Retired,
            3 => Self::Cached,
            4 => Self::Candidate,
            5 => Self::Parked,
            _ => Self::Queue,
        }
    }
}

/// The state of a page. All zero bytes are `Queue`.
#[derive(Debug)]
#[repr(transparent)]
pub struct StateCell(AtomicU8);

impl Default for StateCell {
    fn default() -> Self {
        Self::new()
    }
}

impl StateCell {
    const_new! {
        /// `Queue`.
        pub fn new() -> Self {
            Self(AtomicU8::new(PageState::Queue as u8))
        }
    }

    /// The state, for the owner.
    #[inline(always)]
    pub fn get(&self) -> PageState {
        // Relaxed: the owner reads what it wrote, or what the former owner wrote before it gave the
        // page up.
        PageState::of(self.0.load(Ordering::Relaxed))
    }

    /// Changes the state. Only the owner does.
    #[inline(always)]
    pub fn set(&self, state: PageState) {
        // Release: pairs with `is_full_for_others` (rule 1).
        self.0.store(state as u8, Ordering::Release);
    }

    /// True if the page is full, for a thread that has all its blocks (rule 2).
    pub fn is_full_for_others(&self) -> bool {
        // Acquire: pairs with `set`.
        PageState::of(self.0.load(Ordering::Acquire)) == PageState::Full
    }
}
