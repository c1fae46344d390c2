//! Whether the process has a filter for its system calls (seccomp).
//!
//! A filter may end the process for a call that it does not list. So once hakmem knows of a filter,
//! it makes no call that it can do without. The answers stay unknown.
//!
//! Rule
//! 1. The thread that makes a filter stores `FILTERED` before it makes the filter. The kernel's
//!    work lies between that store and the filter's effect on any other thread. `FILTERED` guards
//!    no memory. So relaxed loads and stores are enough.

use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::AtomicBool;

#[unsafe(link_section = ".data.hakmem")]
static FILTERED: AtomicBool = AtomicBool::new(false);

/// Notes that the process is about to have a filter, or, if making one failed, that it has none.
pub fn set_filtered(filtered: bool) {
    FILTERED.store(filtered, Relaxed);
}

/// True if hakmem stands in front of the C library's functions that make filters.
#[unsafe(link_section = ".data.hakmem")]
static SEES_ALL: AtomicBool = AtomicBool::new(false);

/// Notes that hakmem sees each filter that the program makes by the C library.
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn see_filters() {
    SEES_ALL.store(true, Relaxed);
}

/// True if [`see_filters`] was called. Without it the program may have a filter that nobody knows.
pub fn sees_filters() -> bool {
    SEES_ALL.load(Relaxed)
}

/// True if the process is known to have a filter.
pub fn is_filtered() -> bool {
    FILTERED.load(Relaxed)
}
