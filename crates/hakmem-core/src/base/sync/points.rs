//! Atomics that are points of shuttle's schedule: before each step another thread may go on.
//!
//! They are the hardware's otherwise, of the same size and with constant constructors, so that the whole allocator runs
//! in a model as it is. All steps are in one order: what a weaker one allows is for loom to see.

pub(crate) use core::sync::atomic::{Ordering, fence};

/// The process is the child of a fork, in which only the forking thread goes on.
pub(crate) static FORKED: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);

/// True in the child of a fork.
pub(crate) fn is_child() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Points of a schedule.
const MOST: usize = 200_000;

/// Another thread may go on here.
pub(crate) fn point() {
    static POINT: shuttle::sync::atomic::AtomicBool = shuttle::sync::atomic::AtomicBool::new(false);
    if is_scheduled() {
        // A model has some thousands: this shows where one goes round in a circle.
        assert!(shuttle::current::context_switches() < MOST, "a thread does not get on");
        POINT.load(Ordering::SeqCst);
    }
}

/// Another thread must go on here for this one to get any further.
pub(crate) fn spin() {
    if is_child() {
        // Nobody else is there: it would wait for ever.
        std::process::abort();
    }
    if is_scheduled() {
        shuttle::thread::yield_now();
    }
}

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
            /// As core's.
            pub(crate) unsafe fn from_ptr<'a>(at: *mut $value) -> &'a Self {
                // SAFETY: passed on; the layout is that of the value.
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
