//! How a heap gives memory up: pages with few used blocks are parked, the memory between their
//! blocks is purged, and `collect` gives up all that is free.
//!
//! The memory itself goes back to the system in `purge`, which calls [`parked::purge`], and in the
//! segments.

mod blocks;
mod collect;
pub(crate) mod holes;
mod park;
pub(crate) mod parked;
pub(crate) mod sleeping;
pub(crate) mod whole;

/// No list of a heap has as many blocks.
const LONGEST: u32 = (crate::backend::arena::SEGMENT / 8) as u32;
