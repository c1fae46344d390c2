//! Deferred counts: threads put them aside, under names, until a thread can book them.
//!
//! ```text
//! put:   adds to the place of the name · sets the flag
//! take:  clears the flag · empties each place
//! ```
//!
//! There is no lock. Most takers find the flag clear, and read no place.
//!
//! Rules
//! 1. A place has the count of one name until a taker empties it.
//! 2. What was put aside is taken once. While no thread is in [`put`] or [`take`], the flag is set
//!    if a place is not empty: the flag is set after the place (release), and cleared before it
//!    (acquire).
//!
//! Model: `tests/loom/deferred.rs`.

use crate::base::sync::{AtomicBool, AtomicU64, Ordering};

/// A place has the name plus 1 above so many bits of the count. 0: it is empty.
const COUNT_BITS: u32 = 32;

/// Puts a count aside under a name. False: all places have other names, or the sum has no room.
pub fn put(places: &[AtomicU64], flag: &AtomicBool, name: u32, count: u32) -> bool {
    let empty = (u64::from(name) + 1) << COUNT_BITS;
    let more = |place: u64| match place {
        0 => Some(empty + u64::from(count)),
        _ if place >> COUNT_BITS != empty >> COUNT_BITS => None,
        _ => (place as u32).checked_add(count).map(|sum| empty + u64::from(sum)),
    };
    // Relaxed: the flag's release comes after it (rule 2), and the count guards nothing else.
    let add =
        |place: &AtomicU64| place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
    let has_room = places.iter().any(add);
    // Release: a taker that sees the flag sees the place (rule 2). A swap: a store would hide the
    // places of those who set the flag before.
    flag.swap(true, Ordering::Release);
    has_room
}

/// Passes all that was put aside to `f`: name and count. `f` may put some aside again.
pub fn take(places: &[AtomicU64], flag: &AtomicBool, mut f: impl FnMut(u32, u32)) {
    // Acquire: it sees the places of those who set the flag (rule 2).
    if !flag.swap(false, Ordering::Acquire) {
        return;
    }
    // Places that are empty are read only: the loads see what the flag's release passes on.
    for place in places.iter().filter(|place| place.load(Ordering::Relaxed) != 0) {
        let waiting = place.swap(0, Ordering::Relaxed);
        if let Some(name) = (waiting >> COUNT_BITS).checked_sub(1) {
            f(name as u32, waiting as u32);
        }
    }
}
