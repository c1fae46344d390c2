//! loom's atomics. Their constructors are not `const`.

pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
/// Atomics that shuttle leaves out of its schedule. loom has models of these words.
pub(crate) mod plain {
    pub(crate) use super::{AtomicPtr, AtomicUsize};
}
use core::cell::Cell;
use core::ptr::null_mut;

/// The barrier of one side, for which the other side's system call stands elsewhere.
pub(crate) fn light_fence() {
    fence(Ordering::SeqCst);
}

/// Tells the model's scheduler that this thread waits for another.
pub(crate) fn spin() {
    loom::thread::yield_now();
}

std::thread_local! {
    /// True: `load_or_cas` is a compare-and-swap. False: it is a load. The tests run each model
    /// with both.
    pub static LOADS_ARE_CAS: Cell<bool> = const { Cell::new(false) };
}

/// The value that [`load_or_cas`] compares with and writes.
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

/// A load. There are two reasons for this macro:
///
/// 1. A compare-and-swap of the same word follows the load. loom then misses some schedules of the
///    two steps: it orders the compare-and-swap against the last step on the word, which is this
///    thread's own load. If the load is itself a compare-and-swap, loom misses none. It writes
///    nothing new: it exchanges zero for zero, or fails.
/// 2. The load is sequentially consistent. loom has no single order of such steps, and takes them
///    for acquiring and releasing ones. But it has an order of fences. So the models have a fence
///    before the load.
macro_rules! load_or_cas {
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
pub(crate) use load_or_cas;

/// Declares a constructor, which cannot be `const`.
macro_rules! const_new {
    ($(#[$doc:meta])* pub fn $name:ident() -> Self $body:block) => {
        $(#[$doc])*
        pub fn $name() -> Self $body
    };
}
pub(crate) use const_new;

/// An array of `n` values. The expression `value` makes each one.
macro_rules! each {
    ($value:expr; $n:expr) => {
        core::array::from_fn::<_, $n, _>(|_| $value)
    };
}
pub(crate) use each;
