//! The macros that loom needs, for all other builds: loads are loads, and constructors are
//! constant.

/// A load. In loom's models it may be a compare-and-swap: `weak` says when and why.
macro_rules! load_or_cas {
    ($word:expr, $order:expr) => {
        $word.load($order)
    };
}
pub(crate) use load_or_cas;

/// Declares a constructor, which is `const`.
macro_rules! const_new {
    ($(#[$doc:meta])* pub fn $name:ident() -> Self $body:block) => {
        $(#[$doc])*
        pub const fn $name() -> Self $body
    };
}
pub(crate) use const_new;

/// An array of `n` values. The expression `value` makes each one.
macro_rules! each {
    ($value:expr; $n:expr) => {
        [const { $value }; $n]
    };
}
pub(crate) use each;
