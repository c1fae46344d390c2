//! Counters that one thread keeps and any thread may read.
//!
//! The owner adds by a load and a store, not by a locked instruction: nobody else writes. A reader gets some value that
//! the counter had, and no order with anything else.

use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::{AtomicI64, AtomicU32, AtomicU64};
use core::ops::Add;

/// A number that has an atomic form.
pub trait Number: Copy + Add<Output = Self> {
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

/// A counter. All zero bytes are one that stands at zero.
#[repr(transparent)]
pub struct Counter<N: Number>(N::Atomic);

impl<N: Number> Counter<N> {
    /// Its value a moment ago; for the owner, now.
    #[inline(always)]
    pub fn get(&self) -> N {
        N::load(&self.0)
    }

    /// Sets it. The owner's to call.
    #[inline(always)]
    pub fn set(&self, value: N) {
        value.store(&self.0);
    }

    /// Adds to it. The owner's to call: what another thread adds meanwhile is lost.
    #[inline(always)]
    pub fn add(&self, n: N) {
        self.set(self.get() + n);
    }
}
