//! Runs tests that change state of the whole process. They run in a child, which has one thread.
//!
//! The child may start threads only if no thread of the parent was starting one at the fork. Else
//! the child has a copy of the standard library's lock for that, held by a thread that is not
//! there.

extern crate std;

use std::boxed::Box;
use std::format;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Makes a child print its own failures. The parent calls this, once. If the child set the hook, it
/// could wait for ever: another test may have held the standard library's lock for hooks at the
/// fork.
fn tell_of_failures() {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |info| {
            if !IS_CHILD.load(Relaxed) {
                return usual(info);
            }
            let line = format!("in a child: {info}\n");
            // SAFETY: `line` lives until the call returns, and the length is its own.
            unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
        }));
    });
}

/// Runs `f` in a child, and waits for its end. Returns true if `f` did not panic. The child writes
/// failures to standard error, as the test harness captures only the output of the parent.
pub fn goes_well_in_child(f: impl FnOnce()) -> bool {
    tell_of_failures();
    // SAFETY: the child has one thread. It leaves by `_exit` below whatever `f` does, so no code of
    // the parent runs twice.
    let child = unsafe { libc::fork() };
    if child == 0 {
        IS_CHILD.store(true, Relaxed);
        let failed = catch_unwind(AssertUnwindSafe(f)).is_err();
        // SAFETY: `_exit` has no preconditions.
        unsafe { libc::_exit(failed.into()) };
    }
    let mut status = 0;
    // SAFETY: `status` is writable for the time of the call.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    (waited, status) == (child, 0)
}

/// Runs `f` in a child, and fails if `f` panics there.
pub fn in_child(f: impl FnOnce()) {
    assert!(goes_well_in_child(f), "the child failed");
}
