//! A line of cache for what many threads write.

/// Two lines of cache, which only `T` is in: processors fetch the second line along with the first.
/// So a thread that reads or writes a neighbour of `T` does not wait for those that write `T`.
#[repr(align(128))]
pub struct Line<T>(pub T);
