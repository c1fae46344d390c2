//! Atomics for the whole crate: the hardware's, or loom's when its models are compiled.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Tells the processor (or loom's scheduler) that this thread waits for another.
pub(crate) fn spin() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// Declares a constructor that is `const` with the hardware's atomics and plain with loom's.
macro_rules! const_new {
    ($(#[$doc:meta])* pub fn $name:ident() -> Self $body:block) => {
        #[cfg(not(loom))]
        $(#[$doc])*
        pub const fn $name() -> Self $body
        #[cfg(loom)]
        $(#[$doc])*
        pub fn $name() -> Self $body
    };
}
pub(crate) use const_new;
