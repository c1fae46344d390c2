//! Writes after a free that were found where no report may be written.
//!
//! A heap looks at a page while a purge must wait for it. To write a report takes long, and may
//! wait for who reads it. So the heap notes what it found, and reports it right after.

use super::ON;
use core::cell::Cell;

/// A free block that somebody wrote to.
#[derive(Debug, Clone, Copy)]
pub struct Written {
    pub block: *mut u8,
    /// The bytes of the block.
    pub room: usize,
    /// The first byte that is not as it was.
    pub offset: usize,
}

/// The first such block since the last report. All zero bytes are: none. The ordinary build has no
/// room for one.
pub struct ToTell([Place; ON as usize]);

struct Place {
    block: Cell<*mut u8>,
    room: Cell<usize>,
    offset: Cell<usize>,
}

impl ToTell {
    /// Notes a block, unless there is one.
    pub fn note(&self, written: Written) {
        for place in self.0.iter().filter(|place| place.block.get().is_null()) {
            place.room.set(written.room);
            place.offset.set(written.offset);
            place.block.set(written.block);
        }
    }

    /// Takes the block out.
    #[inline(always)]
    pub fn take(&self) -> Option<Written> {
        let place = self.0.first().filter(|place| !place.block.get().is_null())?;
        let (room, offset) = (place.room.get(), place.offset.get());
        Some(Written { block: place.block.replace(core::ptr::null_mut()), room, offset })
    }
}
