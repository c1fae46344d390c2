//! Atomics for the whole crate: the hardware's, or those of the checker that a model is compiled for.

#[cfg(not(any(loom, shuttle)))]
pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
/// Atomics of which no other step depends, figures and settings, or for which there is a model of its own. The others leave
/// them out of the schedule.
#[cfg(not(loom))]
pub(crate) mod plain {
    pub(crate) use core::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
}
#[cfg(shuttle)]
mod points;
#[cfg(shuttle)]
pub(crate) use points::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, FORKED, Ordering, fence, is_child,
    point,
};

/// Tells the processor (or the model's scheduler) that this thread waits for another.
pub(crate) fn spin() {
    #[cfg(not(any(loom, shuttle, miri)))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(shuttle)]
    points::wait();
    #[cfg(miri)]
    std::thread::yield_now();
}

/// A load that a compare-and-swap of the same word follows. loom schedules such a compare-and-swap against what another thread did last, but
/// takes its own thread's load for that; in its models the load can be a compare-and-swap that fails, which hides nothing.
///
/// Or a sequentially consistent load of a word that others change so: loom has no order of all such steps, and takes them for
/// acquiring and releasing ones. A fence, of which it knows that order, stands ahead of the load in its models.
macro_rules! look {
    ($word:expr, $order:expr) => {{
        #[cfg(not(loom))]
        let now = $word.load($order);
        #[cfg(loom)]
        let now = if crate::base::mutant::loads_are_cas() {
            let none = crate::base::mutant::Zero::ZERO;
            $word.compare_exchange(none, none, $order, $order).unwrap_or_else(|now| now)
        } else {
            if $order == crate::base::sync::Ordering::SeqCst {
                crate::base::sync::fence(crate::base::sync::Ordering::SeqCst);
            }
            $word.load($order)
        };
        now
    }};
}
pub(crate) use look;

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
