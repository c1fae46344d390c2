//! Tests of what is the process's own: in a child, which has one thread and may change anything.
//!
//! It may begin threads only if its parent began none at that moment: the standard library's lock for that is copied as it is.

extern crate std;

use std::boxed::Box;
use std::format;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};

/// Runs `f` in a child, whose end is waited for. What fails there is told on the standard error:
/// what the tests' harness keeps of a thread's words is the parent's.
pub fn goes_well_in_child(f: impl FnOnce()) -> bool {
    // SAFETY: the child ends below, whatever `f` does.
    let child = unsafe { libc::fork() };
    if child == 0 {
        set_hook(Box::new(|info| {
            let line = format!("in a child: {info}\n");
            // SAFETY: the line is there as long as it is written.
            unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
        }));
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
