//! What a page holds, for reports: read by a thread that does not own the page.
//!
//! The owner may be writing the words. So each number may be that of another moment (`page`
//! rule 5).

use super::{Kind, Meta, PageState};

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
    /// Where its owner keeps it. None: a heap of the program has it.
    pub state: Option<PageState>,
}

/// Reads the page whose first slot `meta` is.
pub fn page(meta: &Meta) -> Glance {
    let (until_slow, carved) = (meta.list.until_slow.glance(), meta.carved.glance());
    let state = (meta.kind() != Kind::ProgramPage).then(|| meta.state.get());
    let out = match state {
        Some(PageState::Retired) => 0,
        Some(PageState::Full) => carved as i32 - meta.unfull_at.glance() + until_slow,
        // These count down to no used block.
        None | Some(PageState::Candidate | PageState::Parked) => until_slow,
        Some(_) => until_slow + i32::from(meta.park_at.glance()),
    };
    Glance {
        size: meta.block_size.glance(),
        class: meta.class.glance(),
        blocks: meta.cap.glance(),
        carved,
        used: (out.max(0) as u32).min(carved),
        state,
    }
}
