//! What loom's atomics need in other words, as it is without them: loads are loads, and constructors are constant.

/// Atomics of which no other step depends, figures and settings, or for which there is a model of its own. shuttle leaves
/// them out of the schedule.
pub(crate) mod plain {
    pub(crate) use core::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
}

/// A load that a compare-and-swap of the same word follows, or a sequentially consistent load of a word that others change so.
macro_rules! look {
    ($word:expr, $order:expr) => {
        $word.load($order)
    };
}
pub(crate) use look;

/// Declares a constructor, which is `const`.
macro_rules! const_new {
    ($(#[$doc:meta])* pub fn $name:ident() -> Self $body:block) => {
        $(#[$doc])*
        pub const fn $name() -> Self $body
    };
}
pub(crate) use const_new;

/// An array of `n` values, each of which `value` makes.
macro_rules! each {
    ($value:expr; $n:expr) => {
        [const { $value }; $n]
    };
}
pub(crate) use each;
