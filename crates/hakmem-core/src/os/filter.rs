//! Whether the process has a filter for its system calls (seccomp).
//!
//! A filter may end the process for a call that it does not list. So once hakmem knows that the
//! process made one, it makes no call that it can do without. The answers stay unknown.
//!
//! A process may have *inherited* a filter: it had one when it was executed. Most containers give
//! their programs one. The loader opened, read and mapped files under it, so hakmem may do that,
//! too. It works as without a filter, but asks the system by reading files alone ([`is_careful`]).
//!
//! Rules
//! 1. The thread that makes a filter stores `FILTERED` before it makes the filter. The kernel's
//!    work lies between that store and the filter's effect on any other thread. `FILTERED` guards
//!    no memory. So relaxed loads and stores are enough.
//! 2. `INHERITED` is found out once, at the first question, so relaxed is enough. A filter that the
//!    asking thread made behind hakmem's back before that counts as inherited.

use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::{AtomicBool, AtomicU32};

#[unsafe(link_section = ".data.hakmem")]
pub static FILTERED: AtomicBool = AtomicBool::new(false);

/// Notes that the process is about to have a filter, or, if making one failed, that it has none.
pub fn set_filtered(filtered: bool) {
    FILTERED.store(filtered, Relaxed);
}

/// True if hakmem stands in front of the C library's functions that make filters.
#[unsafe(link_section = ".data.hakmem")]
pub static SEES_FILTERS: AtomicBool = AtomicBool::new(false);

/// Notes that hakmem sees each filter that the program makes by the C library.
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn see_filters() {
    SEES_FILTERS.store(true, Relaxed);
}

/// True if [`see_filters`] was called. Without it the program may have a filter that nobody knows.
pub fn sees_filters() -> bool {
    SEES_FILTERS.load(Relaxed)
}

/// True if the process is known to have made a filter.
pub fn is_filtered() -> bool {
    FILTERED.load(Relaxed)
}

/// Nobody has asked yet.
const NOT_ASKED: u32 = 0;
/// The process inherited no filter. `hakmem profile --pid` reads this and the statics from outside.
pub const NONE: u32 = 1;
/// It inherited one.
const ONE: u32 = 2;

#[unsafe(link_section = ".data.hakmem")]
pub static INHERITED: AtomicU32 = AtomicU32::new(NOT_ASKED);

/// True if the process inherited a filter. None: the system does not say, as there is no /proc, or
/// the process made a filter before anybody asked.
///
/// The first call opens, reads and closes `/proc/thread-self/status`. No call of this allocates.
pub fn inherits_filter() -> Option<bool> {
    if INHERITED.load(Relaxed) == NOT_ASKED {
        look();
    }
    match INHERITED.load(Relaxed) {
        NOT_ASKED => None,
        answer => Some(answer == ONE),
    }
}

#[cold]
fn look() {
    super::lines::each_line_of(c"/proc/thread-self/status", &mut |line| {
        if let Some(mode) = line.strip_prefix(b"Seccomp:") {
            INHERITED.store(if mode.contains(&b'0') { NONE } else { ONE }, Relaxed);
        }
    });
}

/// True unless the process is known to have no filter. Then hakmem asks the system only by calls
/// that the loader makes, too: it opens and reads files.
pub fn is_careful() -> bool {
    is_filtered() || inherits_filter() != Some(false)
}

/// The question has not been asked, for tests that make a filter.
#[cfg(all(
    test,
    target_os = "linux",
    not(any(miri, loom, shuttle, sanitizer, feature = "fault-injection"))
))]
pub fn forget() {
    INHERITED.store(NOT_ASKED, Relaxed);
}
