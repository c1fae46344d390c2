//! Places that threads take and give up, a bit of a word for each.
//!
//! Rules
//! 1. A place is taken while its bit is set. The thread that sets the bit has the place, until a
//!    thread clears the bit.
//! 2. A thread that takes a place (acquire) sees what was done with it before it was given up
//!    (release).
//! 3. If two threads give up one place, one of them is told so.
//!
//! Model: `tests/loom/taken.rs`.

use crate::base::sync::{AtomicU64, Ordering};

/// Takes a place of the word. None: all are taken.
#[inline]
pub fn take(word: &AtomicU64) -> Option<u32> {
    let mut taken = word.load(Ordering::Relaxed);
    while taken != u64::MAX {
        let place = taken.trailing_ones();
        // Acquire: pairs with `give_up` (rule 2).
        match word.compare_exchange_weak(
            taken,
            taken | 1 << place,
            Ordering::Acquire,
            Ordering::Relaxed,
        ) {
            Ok(_) => return Some(place),
            Err(now) => taken = now,
        }
    }
    None
}

/// Gives a place up. False: nobody had it.
#[inline]
pub fn give_up(word: &AtomicU64, place: u32) -> bool {
    // Release: pairs with `take` (rule 2).
    word.fetch_and(!(1 << place), Ordering::Release) & 1 << place != 0
}
