//! `GlobalAlloc` by the allocator of the target.

use super::system;
use crate::policy::options;
use crate::types::{Configured, Hakmem};
use core::alloc::{GlobalAlloc, Layout};

/// True if the system aligns a block of this layout as it does all blocks. Some align a block that
/// is smaller than its alignment to its size alone.
pub fn is_plain(layout: Layout) -> bool {
    layout.align() <= system::MIN_ALIGN && layout.align() <= layout.size()
}

// SAFETY: each function of `system` keeps the promises of the function of `GlobalAlloc` that calls
// it: a block holds its layout, overlaps no other, and lives until it is freed. None unwinds.
unsafe impl GlobalAlloc for Hakmem {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        system::allocate(layout)
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        system::zeroed(layout)
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller promises that `ptr` is live, from this allocator, and was allocated
        // with `layout`.
        unsafe { system::free(ptr, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the new size does not overflow when it is rounded up to
        // the alignment, which is a valid one.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        if is_plain(layout) && is_plain(new) {
            // SAFETY: the caller promises that `ptr` is live and was allocated with `layout`. Both
            // layouts are plain.
            return unsafe { system::resize(ptr, layout, new_size) };
        }
        let to = system::allocate(new);
        if !to.is_null() {
            // SAFETY: the caller promises that `ptr` is live and holds `layout`. `to` is a new
            // block, and the copy is no longer than the smaller one. `ptr` is not used again.
            unsafe {
                to.copy_from_nonoverlapping(ptr, layout.size().min(new_size));
                system::free(ptr, layout);
            }
        }
        to
    }
}

// SAFETY: every block comes from the functions of `Hakmem` and goes back to them. `options::apply`
// allocates nothing and does not unwind.
unsafe impl GlobalAlloc for Configured {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        options::apply(&self.0);
        system::allocate(layout)
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        options::apply(&self.0);
        system::zeroed(layout)
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller promises that `ptr` is live and was allocated with `layout`. All
        // blocks of `Configured` are those of `Hakmem`.
        unsafe { Hakmem.dealloc(ptr, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises that `ptr` is live, was allocated with `layout`, and that
        // `new_size` is allowed for its alignment.
        unsafe { Hakmem.realloc(ptr, layout, new_size) }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    const SIZES: [usize; 7] = [1, 7, 8, 24, 100, 5000, 200_000];

    fn layouts() -> impl Iterator<Item = Layout> {
        let aligns = (0..=16).map(|shift| 1 << shift);
        aligns.flat_map(|align| SIZES.map(|size| Layout::from_size_align(size, align).unwrap()))
    }

    fn bytes(ptr: *mut u8, n: usize) -> &'static mut [u8] {
        // SAFETY: the tests pass live blocks of theirs, of at least `n` bytes that were written.
        unsafe { core::slice::from_raw_parts_mut(ptr, n) }
    }

    #[test]
    fn blocks_are_aligned_and_apart() {
        let blocks: Vec<_> = layouts()
            .enumerate()
            .map(|(i, layout)| {
                // SAFETY: the size is not 0, and the block has as many bytes.
                let ptr = unsafe {
                    let ptr = Hakmem.alloc(layout);
                    assert!(
                        !ptr.is_null() && ptr.addr().is_multiple_of(layout.align()),
                        "{layout:?}: {ptr:?}"
                    );
                    ptr.write_bytes(i as u8, layout.size());
                    ptr
                };
                (ptr, layout, i as u8)
            })
            .collect();
        for (ptr, layout, byte) in blocks {
            assert!(bytes(ptr, layout.size()).iter().all(|&b| b == byte), "{layout:?}");
            // SAFETY: live, and not used again.
            unsafe { Hakmem.dealloc(ptr, layout) };
        }
    }

    #[test]
    fn zeroed_blocks_are_zero_where_dirty_ones_were() {
        for layout in layouts() {
            for _ in 0..3 {
                // SAFETY: the size is not 0; the block is written within its size, and freed once.
                unsafe {
                    let ptr = Hakmem.alloc_zeroed(layout);
                    assert!(
                        !ptr.is_null() && ptr.addr().is_multiple_of(layout.align()),
                        "{layout:?}: {ptr:?}"
                    );
                    assert!(bytes(ptr, layout.size()).iter().all(|&b| b == 0), "{layout:?}");
                    ptr.write_bytes(0xA5, layout.size());
                    Hakmem.dealloc(ptr, layout);
                }
            }
        }
    }

    #[test]
    fn a_resized_block_keeps_its_bytes_and_its_alignment() {
        for layout in layouts() {
            for new_size in SIZES {
                // SAFETY: the sizes are not 0; each block is written and read within its size, and
                // freed once, with the layout that it has now.
                unsafe {
                    let ptr = Hakmem.alloc(layout);
                    (0..layout.size()).for_each(|i| ptr.add(i).write(i as u8));
                    let ptr = Hakmem.realloc(ptr, layout, new_size);
                    assert!(
                        !ptr.is_null() && ptr.addr().is_multiple_of(layout.align()),
                        "{layout:?} {new_size}"
                    );
                    let kept = bytes(ptr, layout.size().min(new_size));
                    assert!(
                        kept.iter().enumerate().all(|(i, &b)| b == i as u8),
                        "{layout:?} {new_size}"
                    );
                    ptr.write_bytes(1, new_size);
                    Hakmem.dealloc(ptr, Layout::from_size_align(new_size, layout.align()).unwrap());
                }
            }
        }
    }

    /// With narrower pointers half of the address space may be had.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn what_no_system_has_is_null() {
        for align in [1, 4096] {
            let layout = Layout::from_size_align((isize::MAX as usize) & !4095, align).unwrap();
            // SAFETY: the layouts are valid. A block that a resize did not move stays as it is.
            unsafe {
                assert!(Hakmem.alloc(layout).is_null());
                assert!(Hakmem.alloc_zeroed(layout).is_null());
                let small = Layout::from_size_align(100, align).unwrap();
                let ptr = Hakmem.alloc(small);
                ptr.write(7);
                assert!(Hakmem.realloc(ptr, small, layout.size()).is_null());
                assert_eq!(ptr.read(), 7);
                Hakmem.dealloc(ptr, small);
            }
        }
    }
}
