//! Counters that one thread writes and any thread may read: words (`base::word`) to which their
//! owner adds.

use crate::base::word::{Value, Word};
use core::ops::Add;

/// A counter. All zero bytes are a counter at zero.
#[repr(transparent)]
pub struct Counter<N: Value>(Word<N>);

impl<N: Value + Add<Output = N>> Counter<N> {
    /// The value. For a thread that is not the owner: the value at some moment before.
    #[inline(always)]
    pub fn get(&self) -> N {
        self.0.get()
    }

    /// Sets the value. Only the owner calls this.
    #[inline(always)]
    pub fn set(&self, value: N) {
        self.0.set(value);
    }

    /// Adds `n`. Only the owner calls this: if two threads add at once, one of the sums is lost.
    #[inline(always)]
    pub fn add(&self, n: N) {
        self.set(self.get() + n);
    }
}
