//! Blocks of 0 bytes: addresses in a range that nobody can read or write.
//!
//! malloc(0) returns a pointer of its own, which the program may free. It must not use a byte of
//! it. Here an error ends the program by a fault. Most programs have few such blocks at a time. If
//! all places are taken, the front end gives a block of one byte.
//!
//! Rules
//! 1. `TAKEN` says which places the program has (`proto::taken`, with a model).
//! 2. `BASE` changes once, from 0. It is a number with which addresses are compared. Behind it lies
//!    no memory that anybody reads, so no step needs an order. A thread that has a place got it
//!    from one that read `BASE`, and so reads it as well.

use crate::backend::{arena, check};
use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::{AtomicU64, plain::AtomicUsize};
use crate::os;
use crate::proto::taken;

/// Words of `TAKEN`.
const WORDS: usize = 256;
/// The distance of two places.
const STEP: usize = 16;
/// Words that a search looks at.
const TRIES: usize = 4;

/// The range. 0: not reserved yet.
static BASE: AtomicUsize = AtomicUsize::new(0);
static TAKEN: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
/// The word in which the next search begins.
static NEXT: AtomicUsize = AtomicUsize::new(0);

const BYTES: usize = WORDS * 64 * STEP;

/// Takes a place. None: none is free nearby, or the system has no more address space. O(1).
#[cold]
#[inline(never)]
pub fn alloc() -> Option<*mut u8> {
    let base = base()?;
    for _ in 0..TRIES {
        let at = NEXT.load(Relaxed) % WORDS;
        if let Some(place) = taken::take(&TAKEN[at]) {
            return Some(os::at(base + (at * 64 + place as usize) * STEP));
        }
        NEXT.store(at + 1, Relaxed);
    }
    None
}

/// The range, which is reserved at the first call. Two threads may reserve one each: one of them is
/// given back.
fn base() -> Option<usize> {
    let known = BASE.load(Relaxed);
    if known != 0 {
        return Some(known);
    }
    let made = os::reserve(BYTES)?;
    match BASE.compare_exchange(0, made, Relaxed, Relaxed) {
        Ok(_) => {
            arena::RESERVED.fetch_add(BYTES, Relaxed);
            Some(made)
        }
        Err(other) => {
            os::unreserve(made, BYTES);
            Some(other)
        }
    }
}

/// True if `p` is an address of the range.
#[inline]
pub fn has(p: *mut u8) -> bool {
    let base = BASE.load(Relaxed);
    base != 0 && p.addr().wrapping_sub(base) < BYTES
}

/// Gives the place at `p` up, which is in the range. Ends the process if nobody has it.
pub fn free(p: *mut u8) {
    let offset = p.addr() - BASE.load(Relaxed);
    let place = offset / STEP;
    if !offset.is_multiple_of(STEP) || !taken::give_up(&TAKEN[place / 64], (place % 64) as u32) {
        check::no_zero_block(p);
    }
}

/// Gives the place at `p` up for the block `other`, which realloc made in its stead, and returns
/// `other`. A null one means that there was no memory: then the program keeps `p`.
pub fn replace(p: *mut u8, other: *mut u8) -> *mut u8 {
    if !other.is_null() {
        free(p);
    }
    other
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    extern crate std;

    use super::*;
    use std::collections::HashSet;
    use std::vec::Vec;

    #[test]
    fn places_are_different_and_serve_again() {
        let places: Vec<_> = std::iter::from_fn(alloc).collect();
        assert!(places.len() > WORDS * 64 / 2, "{}", places.len());
        assert_eq!(places.iter().collect::<HashSet<_>>().len(), places.len());
        assert!(places.iter().all(|&p| has(p) && p.addr() % STEP == 0));
        places.iter().for_each(|&p| free(p));
        let again = alloc().unwrap();
        assert!(places.contains(&again));
        free(again);
        assert!(!has(std::ptr::null_mut()) && !has(&raw const NEXT as *mut u8));
    }
}
