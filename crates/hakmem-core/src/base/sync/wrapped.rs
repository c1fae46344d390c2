//! Atomics that do something before each step, and after an exchange that failed: what [`before`]
//! and [`failed`] do depends on the build.
//!
//! Apart from that they are the hardware's. They have the same size and constant constructors, so
//! the whole allocator runs with them as it is.

use super::{before, failed};
pub(crate) use core::sync::atomic::Ordering;

/// What a step does with its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "shuttle's models treat all alike")]
pub enum Step {
    /// It reads the word.
    Read,
    /// It writes the word, or may.
    Write,
}

/// Steps that write a new value where the old one is found. None fails without a reason here.
macro_rules! exchanges {
    ($value:ty: $($name:ident)*) => {$(
        #[track_caller]
        pub(crate) fn $name(
            &self,
            old: $value,
            new: $value,
            done: Ordering,
            on_failure: Ordering,
        ) -> Result<$value, $value> {
            before(self.at(), Step::Write);
            let result = self.0.compare_exchange(old, new, done, on_failure);
            if result.is_err() {
                failed(self.at());
            }
            result
        }
    )*};
}

macro_rules! atomics {
    ($($name:ident $(<$t:ident>)?: $value:ty {
        $($method:ident($($arg:ident: $type:ty),*) -> $result:ty;)*
    })*) => {$(
        #[derive(Debug)]
        #[repr(transparent)]
        pub struct $name$(<$t>)?(core::sync::atomic::$name$(<$t>)?);
        #[allow(dead_code, reason = "each has what some of them need")]
        impl$(<$t>)? $name$(<$t>)? {
            pub(crate) const fn new(value: $value) -> Self {
                Self(core::sync::atomic::$name::new(value))
            }
            #[cfg(not(shuttle))]
            pub(crate) const fn as_ptr(&self) -> *const $value {
                self.0.as_ptr()
            }
            fn at(&self) -> usize {
                (&raw const *self).addr()
            }
            #[track_caller]
            pub(crate) fn load(&self, order: Ordering) -> $value {
                before(self.at(), Step::Read);
                self.0.load(order)
            }
            #[track_caller]
            pub(crate) fn store(&self, value: $value, order: Ordering) {
                before(self.at(), Step::Write);
                self.0.store(value, order);
            }
            #[track_caller]
            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                before(self.at(), Step::Write);
                self.0.swap(value, order)
            }
            exchanges! { $value: compare_exchange compare_exchange_weak }
            #[track_caller]
            pub(crate) fn fetch_update(
                &self,
                done: Ordering,
                on_failure: Ordering,
                f: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                before(self.at(), Step::Write);
                self.0.fetch_update(done, on_failure, f)
            }
            /// # Safety
            /// - `at` is aligned, and readable and writable for `'a`.
            /// - For `'a`, no thread reads or writes the value other than by atomic steps.
            pub(crate) unsafe fn from_ptr<'a>(at: *mut $value) -> &'a Self {
                // SAFETY: `at` is valid for `'a`, as the caller promises. `Self` is a transparent
                // wrapper of core's atomic, which has the layout of the value.
                unsafe { &*at.cast() }
            }
            $(#[track_caller]
            pub(crate) fn $method(&self, $($arg: $type),*) -> $result {
                before(self.at(), Step::Write);
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
        fetch_or(n: u32, order: Ordering) -> u32;
        fetch_and(n: u32, order: Ordering) -> u32;
    }
    AtomicU64: u64 {
        fetch_add(n: u64, order: Ordering) -> u64;
        fetch_sub(n: u64, order: Ordering) -> u64;
        fetch_or(n: u64, order: Ordering) -> u64;
        fetch_and(n: u64, order: Ordering) -> u64;
        fetch_xor(n: u64, order: Ordering) -> u64;
    }
    AtomicUsize: usize {
        fetch_add(n: usize, order: Ordering) -> usize;
        fetch_sub(n: usize, order: Ordering) -> usize;
        fetch_or(n: usize, order: Ordering) -> usize;
        fetch_min(n: usize, order: Ordering) -> usize;
        fetch_max(n: usize, order: Ordering) -> usize;
    }
    AtomicI64: i64 {
        fetch_add(n: i64, order: Ordering) -> i64;
        fetch_sub(n: i64, order: Ordering) -> i64;
        fetch_max(n: i64, order: Ordering) -> i64;
    }
}
