//! Tests of what is the process's own: in a child, which has one thread and may change anything.

extern crate std;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `f` in a child, whose end is waited for.
pub fn in_child(f: impl FnOnce()) {
    // SAFETY: the child ends below, whatever `f` does.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let failed = catch_unwind(AssertUnwindSafe(f)).is_err();
        // SAFETY: no preconditions.
        unsafe { libc::_exit(failed.into()) };
    }
    let mut status = 0;
    // SAFETY: the child is this process's.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child failed");
}
