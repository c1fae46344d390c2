//! Tests of what is the process's own: in a child, which has one thread and may change anything.
//!
//! It may begin threads only if its parent began none at that moment: the standard library's lock for that is copied as it is.

extern crate std;

use std::boxed::Box;
use std::format;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// What fails in a child is told there. In the parent, and once: a child would wait for ever for the standard library's lock
/// if another test was just failing at the fork.
fn tell_of_failures() {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |info| {
            if !IS_CHILD.load(Relaxed) {
                return usual(info);
            }
            let line = format!("in a child: {info}\n");
            // SAFETY: the line is there as long as it is written.
            unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
        }));
    });
}

/// Runs `f` in a child, whose end is waited for. What fails there is told on the standard error:
/// what the tests' harness keeps of a thread's words is the parent's.
pub fn goes_well_in_child(f: impl FnOnce()) -> bool {
    tell_of_failures();
    // SAFETY: the child ends below, whatever `f` does.
    let child = unsafe { libc::fork() };
    if child == 0 {
        IS_CHILD.store(true, Relaxed);
        let failed = catch_unwind(AssertUnwindSafe(f)).is_err();
        // SAFETY: no preconditions.
        unsafe { libc::_exit(failed.into()) };
    }
    let mut status = 0;
    // SAFETY: the child is this process's.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    (waited, status) == (child, 0)
}

/// As `goes_well_in_child`, where it has to.
pub fn in_child(f: impl FnOnce()) {
    assert!(goes_well_in_child(f), "the child failed");
}
