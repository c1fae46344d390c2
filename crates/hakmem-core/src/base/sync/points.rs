//! Atomics for shuttle's models: before each step shuttle may let another thread run.
//!
//! Apart from that they are the hardware's. They have the same size and constant constructors, so
//! the whole allocator runs in a model as it is. All steps of a model are in one order. loom's
//! models check what weaker orders allow.

pub(crate) use core::sync::atomic::{Ordering, fence};

/// True in the child of a fork, where only the forking thread runs.
pub(crate) static FORKED: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);

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

macro_rules! atomics {
    ($($name:ident $(<$t:ident>)?: $value:ty { $($method:ident($($arg:ident: $type:ty),*) -> $result:ty;)* })*) => {$(
        #[derive(Debug)]
        #[repr(transparent)]
        pub struct $name$(<$t>)?(core::sync::atomic::$name$(<$t>)?);
        #[allow(dead_code, reason = "each has what some of them need")]
        impl$(<$t>)? $name$(<$t>)? {
            pub(crate) const fn new(value: $value) -> Self {
                Self(core::sync::atomic::$name::new(value))
            }
            pub(crate) fn load(&self, order: Ordering) -> $value {
                point();
                self.0.load(order)
            }
            pub(crate) fn store(&self, value: $value, order: Ordering) {
                point();
                self.0.store(value, order);
            }
            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.swap(value, order)
            }
            pub(crate) fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                done: Ordering,
                failed: Ordering,
            ) -> Result<$value, $value> {
                point();
                self.0.compare_exchange(old, new, done, failed)
            }
            pub(crate) fn compare_exchange_weak(
                &self,
                old: $value,
                new: $value,
                done: Ordering,
                failed: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(old, new, done, failed)
            }
            /// # Safety
            /// - `at` is aligned, and readable and writable for `'a`.
            /// - For `'a`, no thread reads or writes the value other than by atomic steps.
            pub(crate) unsafe fn from_ptr<'a>(at: *mut $value) -> &'a Self {
                // SAFETY: `at` is valid for `'a`, as the caller promises. `Self` is a transparent
                // wrapper of core's atomic, which has the layout of the value.
                unsafe { &*at.cast() }
            }
            $(pub(crate) fn $method(&self, $($arg: $type),*) -> $result {
                point();
                self.0.$method($($arg),*)
            })*
        }
    )*};
}

atomics! {
    AtomicBool: bool {}
    AtomicPtr<T>: *mut T {}
    AtomicU8: u8 {}
    AtomicU32: u32 {
        fetch_add(n: u32, order: Ordering) -> u32;
        fetch_sub(n: u32, order: Ordering) -> u32;
    }
    AtomicU64: u64 {
        fetch_add(n: u64, order: Ordering) -> u64;
        fetch_or(n: u64, order: Ordering) -> u64;
        fetch_and(n: u64, order: Ordering) -> u64;
    }
    AtomicUsize: usize {
        fetch_add(n: usize, order: Ordering) -> usize;
        fetch_sub(n: usize, order: Ordering) -> usize;
        fetch_min(n: usize, order: Ordering) -> usize;
    }
    AtomicI64: i64 {
        fetch_add(n: i64, order: Ordering) -> i64;
        fetch_max(n: i64, order: Ordering) -> i64;
    }
}
