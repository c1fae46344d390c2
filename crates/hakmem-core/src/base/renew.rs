//! Stores that leave a page alone where nothing changes.
//!
//! The child of a fork shares the memory of its parent, and the first write to a page copies it. So
//! the child resets what its parent never used without a write.

#[cfg(shuttle)]
use crate::base::sync;
use crate::base::sync::{Ordering::Relaxed, plain};

/// A word that one thread may reset while no other one uses it.
pub trait Renew<T> {
    /// Stores `value` if the word has another one.
    fn renew(&self, value: T);
}

macro_rules! words {
    ($($value:ty: $atomic:ty),*) => {$(
        impl Renew<$value> for $atomic {
            #[inline]
            fn renew(&self, value: $value) {
                if self.load(Relaxed) != value {
                    self.store(value, Relaxed);
                }
            }
        }
    )*};
}
words! {
    bool: plain::AtomicBool,
    u32: plain::AtomicU32,
    u64: plain::AtomicU64,
    i64: plain::AtomicI64,
    usize: plain::AtomicUsize
}
#[cfg(shuttle)]
words! {
    u32: sync::AtomicU32,
    u64: sync::AtomicU64,
    i64: sync::AtomicI64,
    usize: sync::AtomicUsize
}
