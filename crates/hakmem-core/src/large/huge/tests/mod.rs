//! Huge blocks: what several of these tests do.

use super::cache::with_part;
use super::*;
use crate::api::c;
use crate::testing::BEHIND;

mod cache;
mod kept;
mod pages;

/// A huge block of `segments`.
fn block(segments: usize) -> *mut u8 {
    // SAFETY: any size may be asked for.
    unsafe { c::malloc(segments * SEGMENT - BEHIND) }
}

fn in_ring() -> usize {
    with_part(0, |entries| entries.iter().flatten().map(|e| e.len).sum::<usize>())
}
