//! Tests of the arena against a plain model. They run alone in a process, as totals, maps and the
//! chain of arenas are the process's.

extern crate std;

mod layout;
mod runs;
mod sets;

use super::*;
use crate::backend::nodes::Groups;
use crate::testing::Random;
use crate::testing::{alone, in_child};
use std::boxed::Box;
use std::collections::BTreeSet;
use std::vec::Vec;

/// More groups than one word of the summary covers.
const SEGMENTS: usize = 70 * GROUP + 11;

/// An arena that is in no list and has no memory.
fn nobodys() -> &'static Arena {
    Box::leak(Box::new(Arena::new()))
}

/// An arena that is in no list, with memory.
fn arena() -> &'static Arena {
    let arena = nobodys();
    assert!(arena.reserve(SEGMENTS * SEGMENT));
    assert!(arena.segments.load(Relaxed) >= SEGMENTS);
    arena.segments.store(SEGMENTS, Relaxed);
    arena
}

/// True if a byte is mapped.
fn is_mapped(address: usize) -> bool {
    let mut resident = 0;
    // SAFETY: `mincore` only asks about one system page, and writes one byte, to `resident`.
    unsafe { libc::mincore(at(address & !4095).cast(), 1, &raw mut resident) == 0 }
}
