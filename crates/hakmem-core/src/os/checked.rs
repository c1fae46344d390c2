//! What checkers (Miri, sanitizers, shuttle) answer to questions about threads.
//!
//! In their builds hakmem has no bare thread: libc or shuttle makes all threads, and knows them
//! all.

/// Does nothing: a checker schedules the background thread like every other one.
pub fn be_ordinary() {}

/// False: there is no bare thread.
pub fn is_bare() -> bool {
    false
}

/// Writes nothing: there is no bare thread.
#[cfg(feature = "reports")]
pub fn write_to(_: &core::ffi::CStr, _: i32, _: &[u8]) -> bool {
    false
}

/// True if the process has the thread of this number. Here `alive` is not 0 exactly while the
/// thread exists, so the caller has the answer already.
pub fn is_thread(_: u32) -> bool {
    true
}

/// False: who asks knows that the thread has ended.
pub fn is_counted(_: u32) -> bool {
    false
}

/// The number of the process. No report of an error is read here.
pub fn process() -> u32 {
    0
}

/// The numbers of the process and of the thread. Nothing asks for them here: each thread can tell
/// hakmem that it ends.
pub fn numbers() -> (u32, u32) {
    (0, 0)
}

/// The number that libc has for the calling thread. None, as nothing asks for it here.
pub fn libc_number() -> u32 {
    0
}

/// Runs `f` on the caller's stack: checkers know the stacks that they made.
#[cfg(any(miri, shuttle))]
pub fn on_own_stack(f: impl FnOnce()) {
    f();
}

/// True if the process has one thread. Here it has several.
pub fn is_single_threaded() -> bool {
    false
}

/// True in a child that shares its parent's memory. The tests of checkers make no such child.
pub fn in_shared_memory() -> bool {
    false
}

/// True in a child that borrows its parent's memory. The tests of checkers make no such child.
pub fn in_borrowed_process() -> bool {
    false
}
