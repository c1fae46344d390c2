//! Moves memory without copying it: the kernel moves its page tables.

use super::copy_to_zeroes;
use super::count::{Kind, counted};
use super::linux::{PROT_RW, succeeded, syscall};
use crate::base::sync::{AtomicBool, Ordering::Relaxed};

const MREMAP_DONTUNMAP: i32 = 4;

/// Moves the memory of `old`, `len` bytes, to `new`, `room` bytes, without copying. Linux 5.7 and
/// later.
///
/// Both ranges are committed, and no thread but the caller uses them. `old` stays committed and
/// reads as zero afterwards. So does the rest of `new`, which is one map then, if the process may
/// have so much address space more for a moment. `new` reads as zero before.
///
/// If `old` is more than one map, older kernels refuse, but unmap `new` before that. Another
/// thread's mmap could land there. So the memory goes to a place of the kernel's choice first. That
/// step unmaps nothing, and leaves the memory in one map. There it gets its room, as a limit of the
/// process may refuse that. From there it goes to `new`.
pub fn move_pages(old: usize, len: usize, new: usize, room: usize) -> Moved {
    /// True once a move was [`Moved::Lost`]: the next one might lose as much again.
    static LOST: AtomicBool = AtomicBool::new(false);

    if LOST.load(Relaxed) {
        return Moved::No;
    }
    let moved = |a| usize::try_from(counted(Kind::Mremap, || syscall(libc::SYS_mremap, a))).ok();
    let may_move = libc::MREMAP_MAYMOVE as usize;
    let leave = may_move | MREMAP_DONTUNMAP as usize;
    let Some(half_way) = moved([old, len, len, leave, 0, 0]) else { return Moved::No };
    let wider = if room > len { moved([half_way, len, room, may_move, 0, 0]) } else { None };
    let (half_way, room) = wider.map_or((half_way, len), |at| (at, room));
    let fixed = may_move | libc::MREMAP_FIXED as usize;
    if moved([half_way, room, room, fixed, new, 0]).is_some() {
        return Moved::Yes;
    }
    // The process may have no more maps, or the kernel has no memory for page tables. `new` may be
    // unmapped now. If so, map it again, unless another thread's map lies there. The kernel does
    // not say whether the map that is there is another thread's.
    let flags =
        (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE)
            as usize;
    let filled =
        counted(Kind::Mmap, || syscall(libc::SYS_mmap, [new, room, PROT_RW, flags, usize::MAX, 0]));
    // SAFETY: the first mremap made `half_way`, `len` readable bytes that only this call knows.
    // `old` is still mapped and writable, reads as zero, and only the caller uses it.
    unsafe { copy_to_zeroes(half_way, old, len) };
    counted(Kind::Mmap, || syscall(libc::SYS_munmap, [half_way, room, 0, 0, 0, 0]));
    if succeeded(filled) {
        return Moved::No;
    }
    LOST.store(true, Relaxed);
    Moved::Lost
}

/// The outcome of [`move_pages`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// The memory is at `new`.
    Yes,
    /// The memory is at `old`, as it was.
    No,
    /// The memory is at `old`, as it was. Another thread's map may lie at `new`: do not use it
    /// again.
    Lost,
}
