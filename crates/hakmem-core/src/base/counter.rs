//! Counters that one thread writes and any thread may read.
//!
//! Rules
//! 1. One thread writes a counter at a time: its owner. So it adds by a load and a store, without a
//!    locked instruction.
//! 2. A reader gets some value that the counter had. All steps are relaxed: the value says nothing
//!    about other memory.

use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::{AtomicI64, AtomicU32, AtomicU64};
use core::ops::Add;

/// A number that has an atomic form.
pub trait Number: Copy + PartialEq + Add<Output = Self> {
    /// The atomic form.
    type Atomic;
    /// A relaxed load.
    fn load(from: &Self::Atomic) -> Self;
    /// A relaxed store.
    fn store(self, to: &Self::Atomic);
}

macro_rules! numbers {
    ($($number:ty: $atomic:ty),*) => {$(
        impl Number for $number {
            type Atomic = $atomic;
            #[inline(always)]
            fn load(from: &$atomic) -> Self {
                from.load(Relaxed)
            }
            #[inline(always)]
            fn store(self, to: &$atomic) {
                to.store(self, Relaxed);
            }
        }
    )*};
}
numbers!(u32: AtomicU32, u64: AtomicU64, i64: AtomicI64);

/// A counter. All zero bytes are a counter at zero.
#[repr(transparent)]
pub struct Counter<N: Number>(N::Atomic);

impl<N: Number> Counter<N> {
    /// The value. For a thread that is not the owner: the value at some moment before.
    #[inline(always)]
    pub fn get(&self) -> N {
        N::load(&self.0)
    }

    /// Sets the value. Only the owner calls this.
    #[inline(always)]
    pub fn set(&self, value: N) {
        value.store(&self.0);
    }

    /// Sets the value, but writes only if that changes it: see [`renew`](super::renew).
    #[inline]
    pub fn renew(&self, value: N) {
        if self.get() != value {
            self.set(value);
        }
    }

    /// Adds `n`. Only the owner calls this: if two threads add at once, one of the sums is lost.
    #[inline(always)]
    pub fn add(&self, n: N) {
        self.set(self.get() + n);
    }
}
