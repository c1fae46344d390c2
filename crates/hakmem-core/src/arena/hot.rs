//! What the fast path reads of the first arena. The rules are `arena`'s.

use crate::sync::{AtomicPtr, AtomicUsize, Ordering::Release};
use core::cell::UnsafeCell;
use core::ptr::null_mut;

/// What the fast path of `free` reads, in one line; nothing that is written lies in the line beside it, which processors fetch along.
#[repr(C, align(128))]
pub struct Hot {
    data: UnsafeCell<usize>,
    limit16: UnsafeCell<usize>,
    limit: UnsafeCell<usize>,
    metas: UnsafeCell<*mut u8>,
}
// SAFETY: rule 1.
unsafe impl Sync for Hot {}

/// The first arena, for the fast path (rule 1).
pub static HOT: Hot = Hot {
    data: UnsafeCell::new(1 << 63),
    limit16: UnsafeCell::new(0),
    limit: UnsafeCell::new(0),
    metas: UnsafeCell::new(null_mut()),
};

// Plain reads, which the compiler folds into the instructions that use them; it does not fold atomic ones.
impl Hot {
    /// Address of the first page; before there is an arena, a value that no pointer comes near.
    #[inline(always)]
    pub fn data(&self) -> usize {
        // SAFETY: rule 1.
        unsafe { *self.data.get() }
    }
    /// Sixteenths of the bytes of pages, so that a pointer rotated by four bits shows with one comparison that it is
    /// in range and a multiple of 16.
    #[inline(always)]
    pub fn limit16(&self) -> usize {
        // SAFETY: rule 1.
        unsafe { *self.limit16.get() }
    }
    /// Bytes of pages.
    #[inline(always)]
    pub fn limit(&self) -> usize {
        // SAFETY: rule 1.
        unsafe { *self.limit.get() }
    }
    /// Metadata of the first page.
    #[inline(always)]
    pub fn metas(&self) -> *mut u8 {
        // SAFETY: rule 1.
        unsafe { *self.metas.get() }
    }

    /// Rule 1's writing. Releases, so that the metadata's address is there before a pointer can be in range.
    pub(super) fn set(&self, metas: *mut u8, data: usize, bytes: usize) {
        // An address that escapes keeps the optimiser from scattering the words over several cache lines.
        core::hint::black_box(self);
        // SAFETY: the words are aligned and for ever; under the lock.
        unsafe {
            AtomicPtr::from_ptr(self.metas.get()).store(metas, Release);
            AtomicUsize::from_ptr(self.data.get()).store(data, Release);
        }
        self.set_limit(bytes);
    }

    pub(super) fn set_limit(&self, bytes: usize) {
        // SAFETY: as above.
        unsafe {
            AtomicUsize::from_ptr(self.limit.get()).store(bytes, Release);
            AtomicUsize::from_ptr(self.limit16.get()).store(bytes / 16, Release);
        }
    }
}
