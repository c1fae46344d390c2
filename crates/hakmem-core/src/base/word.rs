//! Words that one thread writes at a time, and that other threads may read at any moment.
//!
//! The writer uses such a word as it would use a `Cell`. A relaxed store of a word is the plain
//! instruction on all processors. But a plain store would be undefined behaviour while another
//! thread reads.
//!
//! Rules
//! 1. One thread writes a word at a time. So it changes the word by a load and a store, without a
//!    locked instruction. A thread that becomes the writer is ordered after the former one.
//! 2. Only the writer calls [`Word::get`], or a thread that is ordered after the last write, while
//!    none follows. This load is a plain one, which the compiler may join with others.
//! 3. Any thread may call [`Word::glance`]. It gets some value that the word had. All steps are
//!    relaxed, and the value says nothing about other memory, but where a protocol has a barrier
//!    beside the word, or says the order (`proto::take_away`).
//! 4. For checkers of the whole allocator these words are plain fields, which are no steps of a
//!    schedule and cost nothing: hence the atomics of `core`.

use crate::base::sync::Ordering::{self, Relaxed};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU32};

/// A value that has an atomic form.
pub trait Value: Copy {
    /// The atomic form.
    type Atomic;
    /// A load.
    fn load(from: &Self::Atomic, order: Ordering) -> Self;
    /// A store.
    fn store(self, to: &Self::Atomic, order: Ordering);
    /// Where the value lies.
    fn place(of: &Self::Atomic) -> *const Self;
}

macro_rules! values {
    ($([$($of:ident)?] $value:ty: $atomic:ty),*) => {$(
        impl<$($of)?> Value for $value {
            type Atomic = $atomic;
            #[inline(always)]
            fn load(from: &$atomic, order: Ordering) -> Self {
                from.load(order)
            }
            #[inline(always)]
            fn store(self, to: &$atomic, order: Ordering) {
                to.store(self, order);
            }
            #[inline(always)]
            fn place(of: &$atomic) -> *const Self {
                of.as_ptr()
            }
        }
    )*};
}
values! {
    [] u8: AtomicU8,
    [] i32: AtomicI32,
    [] u32: AtomicU32,
    [T] *mut T: AtomicPtr<T>
}

/// A word. All zero bytes are zero or null.
#[repr(transparent)]
pub struct Word<V: Value>(V::Atomic);

impl<T> Word<*mut T> {
    /// A word that is null.
    pub const fn null() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }
}

impl Word<i32> {
    /// A word that is zero.
    pub const fn zero() -> Self {
        Self(AtomicI32::new(0))
    }
}

impl<V: Value> Word<V> {
    /// The value, for the writer (rule 2).
    #[inline(always)]
    pub fn get(&self) -> V {
        // SAFETY: the word is readable, and no other thread writes it meanwhile (rule 2).
        unsafe { V::place(&self.0).read() }
    }

    /// The value at some moment before, for any thread (rule 3).
    #[inline(always)]
    pub fn glance(&self) -> V {
        self.glance_by(Relaxed)
    }

    /// [`Word::glance`] with the order that a protocol says.
    #[inline(always)]
    pub fn glance_by(&self, order: Ordering) -> V {
        V::load(&self.0, order)
    }

    /// Sets the value. Only the writer calls this.
    #[inline(always)]
    pub fn set(&self, value: V) {
        self.set_by(value, Relaxed);
    }

    /// [`Word::set`] with the order that a protocol says.
    #[inline(always)]
    pub fn set_by(&self, value: V, order: Ordering) {
        value.store(&self.0, order);
    }

    /// Sets the value, and returns the former one. Only the writer calls this.
    #[inline(always)]
    pub fn replace(&self, value: V) -> V {
        let former = self.get();
        self.set(value);
        former
    }
}
