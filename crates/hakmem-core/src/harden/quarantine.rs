//! The quarantine: small blocks wait here between their free and their way to a free list.
//!
//! A dangling pointer is harmless while its block waits, and a write through it shows when the
//! block leaves. A block that comes in takes a random place, and the one that was there leaves. So
//! nobody can foretell when a block is allocated again.
//!
//! Rule: only the holder of the heap that has the quarantine uses it.

use crate::harden::{ON, key};
use core::cell::Cell;
use core::ptr::null_mut;

/// Blocks that wait at most. 0 in the ordinary build.
const PLACES: usize = if ON { 32 } else { 0 };
/// The largest blocks that wait: so the places of a thread hold 16 KiB at most.
pub const LARGEST: usize = 512;

/// Blocks that wait. All zero bytes are: none.
pub struct Quarantine {
    places: [Cell<*mut u8>; PLACES],
    dice: Cell<usize>,
}

impl Quarantine {
    /// Puts a block in, and returns the one that leaves. Null: there was room.
    #[inline]
    pub fn swap(&self, block: *mut u8) -> *mut u8 {
        let dice = key::spread(self.dice.get().wrapping_add(block.addr()));
        self.dice.set(dice);
        // In the ordinary build there is no place, and the compiler removes the call.
        let place = (dice >> 32).checked_rem(PLACES).and_then(|i| self.places.get(i));
        place.map_or(block, |place| place.replace(block))
    }

    /// Takes a block out. Null: none waits.
    pub fn take(&self) -> *mut u8 {
        self.places.iter().find(|place| !place.get().is_null()).map_or(null_mut(), |place| place.replace(null_mut()))
    }

    /// The blocks that wait.
    pub fn blocks(&self) -> impl Iterator<Item = *mut u8> {
        self.places.iter().map(Cell::get).filter(|block| !block.is_null())
    }
}
