//! Memory of the host, made ready before each measured run.
//!
//! A virtual machine may give memory that was free for a while back to its host. The next program
//! that touches it pays for that: a fault then costs several times more, whatever the allocator.
//! So a comparison can touch as much memory first, and free it right before the run.

use crate::storage;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that are touched before each run.
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Has [`touch`] do something before each measured run: the value of `--warm-host` in MiB.
pub fn touch_before_each_run(mib: usize) {
    BYTES.store(mib << 20, Ordering::Relaxed);
}

/// Touches as many bytes as were asked for and gives them back.
pub fn touch() -> io::Result<()> {
    /// One touch makes a huge page ready, as the host has it.
    const STEP: usize = 2 << 20;
    let bytes = BYTES.load(Ordering::Relaxed);
    if bytes == 0 {
        return Ok(());
    }
    let memory = storage::map(bytes, libc::MAP_NORESERVE)?.as_ptr();
    // SAFETY: the mapping is this function's own, and `bytes` long.
    unsafe {
        libc::madvise(memory.cast(), bytes, libc::MADV_HUGEPAGE);
        for offset in (0..bytes).step_by(STEP) {
            memory.add(offset).write_volatile(1);
        }
        libc::munmap(memory.cast(), bytes);
    }
    Ok(())
}
