//! Atomics of the hardware: `core`'s.

pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering, fence,
};
#[cfg(ported)]
pub(crate) use core::sync::atomic::{AtomicI64, AtomicU64};

/// In shuttle's models these are no points of the schedule: figures and settings, on which no other
/// step depends, and words that have a model of their own.
pub(crate) use core::sync::atomic as plain;

/// A barrier for the compiler alone. The other side of the protocol makes the processor's barrier
/// for both (`proto::pause`).
#[inline(always)]
pub(crate) fn light_fence() {
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// Tells the processor that this thread waits for another.
pub(crate) fn spin() {
    #[cfg(not(miri))]
    core::hint::spin_loop();
    #[cfg(miri)]
    std::thread::yield_now();
}
