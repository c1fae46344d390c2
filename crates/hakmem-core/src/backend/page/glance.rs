//! What a page holds, for reports: read by a thread that does not own the page.
//!
//! The owner may be writing the words. So each is read by a volatile load, and each number may be
//! that of another moment (`page` rule 5).

use super::{Kind, Meta, PageState};
use core::cell::Cell;

/// What a page held a moment ago.
pub struct Glance {
    /// Bytes of a block.
    pub size: u32,
    /// The size class.
    pub class: u8,
    /// Blocks that fit.
    pub blocks: u32,
    /// Blocks that were carved.
    pub carved: u32,
    /// Blocks that are used. Those that the heap's list has are among them.
    pub used: u32,
    /// Where its owner keeps it.
    pub state: &'static str,
}

/// A word of the metadata of a page. Another thread may be changing the word. Any value that it had
/// will do for a picture.
fn glance<T: Copy>(cell: &Cell<T>) -> T {
    // SAFETY: metadata is accessible for ever, and aligned. A volatile read of a word is one load,
    // so it gives a value that a thread stored. Reports only show the value.
    unsafe { cell.as_ptr().read_volatile() }
}

/// Reads the page whose first slot `meta` is.
pub fn page(meta: &Meta) -> Glance {
    let (until_slow, carved) = (glance(&meta.until_slow), glance(&meta.carved));
    let (out, state) = match meta.state.get() {
        _ if meta.kind() == Kind::ProgramPage => (until_slow, "program"),
        PageState::Retired => (0, "retired"),
        PageState::Full => (carved as i32 - glance(&meta.unfull_at) + until_slow, "full"),
        // These count down to no used block.
        PageState::Candidate => (until_slow, "candidate"),
        PageState::Parked => (until_slow, "parked"),
        _ => (until_slow + i32::from(glance(&meta.park_at)), "queue"),
    };
    Glance {
        size: glance(&meta.block_size),
        class: glance(&meta.class),
        blocks: glance(&meta.cap),
        carved,
        used: (out.max(0) as u32).min(carved),
        state,
    }
}
