//! hakmem's own functions: all of `hakmem.h`, which is made from this file.

use core::ffi::{c_char, c_int};
use hakmem_core::{c, stats};

/// Figures of the process. Bytes unless said otherwise.
#[repr(C)]
#[allow(non_camel_case_types, reason = "the name is C's")]
pub struct hakmem_stats {
    /// Blocks handed out so far; exact for threads at rest.
    pub allocations: u64,
    /// Blocks that came back; lags behind by what threads have not passed on yet.
    pub frees: u64,
    /// In blocks that are out, at most.
    pub live_bytes: u64,
    /// The highest that `live_bytes` was.
    pub peak_live_bytes: u64,
    /// Address space reserved.
    pub reserved_bytes: u64,
    /// Made accessible.
    pub committed_bytes: u64,
    /// Free, and not given back to the system yet.
    pub dirty_bytes: u64,
    /// Given back to the system so far.
    pub purged_bytes: u64,
    /// Calls of free with a pointer that is not hakmem's.
    pub foreign_frees: u64,
    /// Thread heaps made so far.
    pub heaps: u64,
}

/// The version, such as "0.1.0". Static.
#[unsafe(no_mangle)]
pub extern "C" fn hakmem_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Takes the figures of the process; allocates nothing.
///
/// # Safety
/// `out` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_stats(out: *mut hakmem_stats) {
    let s = stats::process();
    let figures = hakmem_stats {
        allocations: s.allocations,
        frees: s.frees,
        live_bytes: s.live_bytes,
        peak_live_bytes: s.peak_live_bytes,
        reserved_bytes: s.reserved_bytes,
        committed_bytes: s.committed_bytes,
        dirty_bytes: s.dirty_bytes,
        purged_bytes: s.purged_bytes,
        foreign_frees: s.foreign_frees,
        heaps: s.heaps,
    };
    // SAFETY: by this function's contract.
    unsafe { *out = figures };
}

/// Gives all free memory back to the system now; 1 if there was any, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn hakmem_trim() -> c_int {
    c_int::from(c::trim())
}
