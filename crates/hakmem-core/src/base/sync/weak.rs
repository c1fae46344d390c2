//! loom's atomics, which no constant has.

pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
/// loom has a model of what the others leave out of the schedule.
pub(crate) mod plain {
    pub(crate) use super::{AtomicPtr, AtomicUsize};
}
use core::cell::Cell;
use core::ptr::null_mut;

/// Tells the model's scheduler that this thread waits for another.
pub(crate) fn spin() {
    loom::thread::yield_now();
}

std::thread_local! {
    /// Loads that a compare-and-swap follows are such steps too, or loads again: a test sets it.
    pub static LOADS_ARE_CAS: Cell<bool> = const { Cell::new(false) };
}

/// What [`look`] compares with and writes.
pub(crate) trait Zero {
    const ZERO: Self;
}
impl Zero for u32 {
    const ZERO: Self = 0;
}
impl Zero for u64 {
    const ZERO: Self = 0;
}
impl<T> Zero for *mut T {
    const ZERO: Self = null_mut();
}

/// A load that a compare-and-swap of the same word follows. loom schedules such a compare-and-swap against what another thread did last, but
/// takes its own thread's load for that; in its models the load can be a compare-and-swap that fails, which hides nothing.
///
/// Or a sequentially consistent load of a word that others change so: loom has no order of all such steps, and takes them for
/// acquiring and releasing ones. A fence, of which it knows that order, stands ahead of the load in its models.
macro_rules! look {
    ($word:expr, $order:expr) => {{
        use crate::base::sync::{LOADS_ARE_CAS, Ordering::SeqCst, Zero, fence};
        if LOADS_ARE_CAS.get() {
            $word.compare_exchange(Zero::ZERO, Zero::ZERO, $order, $order).unwrap_or_else(|now| now)
        } else {
            if $order == SeqCst {
                fence(SeqCst);
            }
            $word.load($order)
        }
    }};
}
pub(crate) use look;

/// Declares a constructor, which cannot be `const`.
macro_rules! const_new {
    ($(#[$doc:meta])* pub fn $name:ident() -> Self $body:block) => {
        $(#[$doc])*
        pub fn $name() -> Self $body
    };
}
pub(crate) use const_new;

/// An array of `n` values, each of which `value` makes.
macro_rules! each {
    ($value:expr; $n:expr) => {
        core::array::from_fn::<_, $n, _>(|_| $value)
    };
}
pub(crate) use each;
