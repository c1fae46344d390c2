//! Whether the process has forbidden itself system calls.
//!
//! A filter (seccomp) may end the process for a call that it does not list. So once one is known of, nothing is called but what
//! an allocator must: what is only nice to know stays unknown.
//!
//! 1. `FILTERED` is set before the filter is there, by the thread that is about to make it, and the kernel's work lies between
//!    that and the filter's effect on any other thread. It guards no memory. So it is relaxed.

use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::AtomicBool;

#[unsafe(link_section = ".data.hakmem")]
static FILTERED: AtomicBool = AtomicBool::new(false);

/// Says that the process has a filter, or, if making one failed, that it has none.
pub fn set_filtered(filtered: bool) {
    FILTERED.store(filtered, Relaxed);
}

/// True if it is known to have one.
pub fn is_filtered() -> bool {
    FILTERED.load(Relaxed)
}
