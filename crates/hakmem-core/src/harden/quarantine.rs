//! The quarantine: small blocks wait here between their free and their way to a free list.
//!
//! A dangling pointer is harmless while its block waits, and a write through it shows when the
//! block leaves. A block that comes in takes a random place, and the one that was there leaves. So
//! nobody can predict when a block is allocated again.
//!
//! Rules
//! 1. Only the holder of the heap that has the quarantine uses it.
//! 2. `is_changing` is set while a block changes places. A signal handler that interrupted the
//!    holder then finds it set, and changes nothing: its block leaves at once.

use crate::base::sync::light_fence;
use crate::base::sync::{Ordering::Relaxed, plain::AtomicBool};
use crate::harden::{has, key};
use core::cell::Cell;
use core::ptr::null_mut;

/// Blocks that wait at most. 0 in the ordinary build.
const PLACES: usize = if has::QUARANTINE { 32 } else { 0 };
/// The largest blocks that wait: so the places of a thread hold 16 KiB at most.
pub const LARGEST: usize = if cfg!(hakmem_without = "quarantine") { 0 } else { 512 };

/// Blocks that wait. All zero bytes are: none.
pub struct Quarantine {
    places: [Cell<*mut u8>; PLACES],
    dice: Cell<usize>,
    is_changing: AtomicBool,
}

impl Quarantine {
    /// Puts a block in, and returns the one that leaves. Null: there was room.
    #[inline]
    pub fn swap(&self, block: *mut u8) -> *mut u8 {
        self.swap_and(block, || ())
    }

    /// [`Quarantine::swap`], which a signal handler interrupts by `f`.
    #[inline(always)]
    fn swap_and(&self, block: *mut u8, f: impl FnOnce()) -> *mut u8 {
        let dice = key::spread(self.dice.get().wrapping_add(block.addr()));
        self.dice.set(dice);
        // In the ordinary build there is no place, and the compiler removes the call.
        let place = (dice >> 32).checked_rem(PLACES).and_then(|i| self.places.get(i));
        let change = |place: &Cell<*mut u8>| {
            self.change(|| {
                let old = place.get();
                f();
                place.set(block);
                old
            })
        };
        place.and_then(change).unwrap_or(block)
    }

    /// Runs `f`. None: the caller is a signal handler that interrupted a change (rule 2).
    #[inline(always)]
    fn change<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        // Relaxed: only this thread and its signal handlers use the flag. The fences keep the
        // compiler from moving `f`.
        if self.is_changing.load(Relaxed) {
            return None;
        }
        self.is_changing.store(true, Relaxed);
        light_fence();
        let result = f();
        light_fence();
        self.is_changing.store(false, Relaxed);
        Some(result)
    }

    /// Takes a block out. Null: none waits.
    pub fn take(&self) -> *mut u8 {
        let take =
            || self.places.iter().find(|place| !place.get().is_null())?.replace(null_mut()).into();
        self.change(take).flatten().unwrap_or(null_mut())
    }

    /// The blocks that wait.
    pub fn blocks(&self) -> impl Iterator<Item = *mut u8> {
        self.places.iter().map(Cell::get).filter(|block| !block.is_null())
    }

    /// In the child of a fork: the holder is not there, and is in the middle of no change.
    pub fn end_change(&self) {
        self.is_changing.store(false, Relaxed);
    }

    /// From now on blocks leave in another order: that of the parent of a fork may be known.
    pub fn draw(&self, random: usize) {
        self.dice.set(random);
    }
}

#[cfg(all(test, feature = "hardened", not(any(loom, shuttle, miri))))]
mod tests {
    extern crate std;
    use super::*;
    use crate::os;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    fn new() -> Quarantine {
        Quarantine {
            places: [const { Cell::new(null_mut()) }; PLACES],
            dice: Cell::new(0),
            is_changing: AtomicBool::new(false),
        }
    }

    fn block(i: usize) -> *mut u8 {
        core::ptr::without_provenance_mut(16 * i)
    }

    /// A signal handler frees in the middle of a free, at each of many: each block leaves once, or
    /// waits.
    #[test]
    fn a_handler_that_interrupts_a_change_loses_nothing() {
        const ALL: usize = 10_000;
        let (all, mut left) = (new(), Vec::new());
        for i in (1..=ALL).step_by(2) {
            let mut by_handler = null_mut();
            left.push(all.swap_and(block(i), || by_handler = all.swap(block(i + 1))));
            left.push(by_handler);
        }
        left.retain(|block| !block.is_null());
        left.extend(core::iter::from_fn(|| Some(all.take()).filter(|block| !block.is_null())));
        assert_eq!(left.len(), ALL);
        assert_eq!(left.into_iter().collect::<BTreeSet<_>>().len(), ALL);
    }

    /// The secret is the same, but not the order.
    #[test]
    fn a_child_has_an_order_of_its_own() {
        let [parent, child] = [new(), new()];
        key::draw();
        child.draw(os::random()[0]);
        let order = |all: &Quarantine| (1..1000).map(|i| all.swap(block(i))).collect::<Vec<_>>();
        assert_ne!(order(&parent), order(&child));
    }

    #[test]
    fn the_child_of_a_fork_goes_on() {
        let all = new();
        all.is_changing.store(true, Relaxed);
        assert!((1..100).all(|i| all.swap(block(i)) == block(i)), "none waits");
        all.end_change();
        assert!((1..100).any(|i| all.swap(block(i)).is_null()));
    }
}
