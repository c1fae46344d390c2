//! The callback of an allocation that is about to fail.

/// What [`set_limit_callback`](crate::set_limit_callback) takes: it gets the bytes of the request,
/// and returns true if the allocation may be tried once more.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::LimitCallback;
///
/// extern "C" fn give_up(bytes: usize) -> bool {
///     eprintln!("no room for {bytes} bytes");
///     false
/// }
/// let callback: LimitCallback = give_up;
/// # assert!(!callback(1));
/// ```
pub type LimitCallback = extern "C" fn(size: usize) -> bool;
