//! Points for shuttle's models: before each step shuttle may let another thread run. All steps of a
//! model are in one order. loom's models check what weaker orders allow.

use core::sync::atomic::Ordering;
pub(crate) use core::sync::atomic::fence;

/// True in the child of a fork, where only the forking thread runs.
pub(crate) static FORKED: core::sync::atomic::AtomicBool =
    core::sync::atomic::AtomicBool::new(false);

/// True in the child of a fork.
pub(crate) fn is_child() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// The most switches between threads that one schedule may have.
const MOST: usize = 200_000;

/// A point of the schedule: shuttle may let another thread run here.
pub(crate) fn point() {
    static POINT: shuttle::sync::atomic::AtomicBool = shuttle::sync::atomic::AtomicBool::new(false);
    if is_scheduled() {
        // A model has some thousands. More mean that a thread repeats a loop for ever.
        assert!(shuttle::current::context_switches() < MOST, "a thread does not get on");
        POINT.load(Ordering::SeqCst);
    }
}

/// All steps of a model are in one order, so there is nothing to do.
pub(crate) fn light_fence() {}

/// Lets another thread run, for which this one waits.
pub(crate) fn spin() {
    if is_child() {
        // The child has no other thread, so this one would wait for ever.
        std::process::abort();
    }
    if is_scheduled() {
        shuttle::thread::yield_now();
    }
}

/// True in a thread of a model, unless the model is failing.
fn is_scheduled() -> bool {
    !is_child() && !std::thread::panicking() && shuttle::current::try_get_current_task().is_some()
}

/// What `wrapped` does before each step.
#[inline(always)]
pub(super) fn before(_: usize, _: super::wrapped::Step) {
    point();
}

/// What `wrapped` does after an exchange that failed.
#[inline(always)]
pub(super) fn failed(_: usize) {}

/// There are no atomics of another kind.
pub(crate) mod plain {
    pub(crate) use core::sync::atomic::{
        AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    };
}
