//! `&Heap` as the allocator of collections: of those of allocator-api2 and of the crates that use
//! it, and on the nightly toolchain of those of the standard library.

/// Implements the trait `Allocator` that is in scope.
macro_rules! implement {
    () => {
        use crate::Heap;
        use core::alloc::Layout;
        use core::ptr::NonNull;

        // SAFETY: a block lives until it is freed, or the heap is reset or ends. The latter two
        // need the heap without a borrow, and the allocator is a borrow of it: so all copies of the
        // allocator are gone then.
        unsafe impl Allocator for &Heap {
            fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                Heap::allocate(self, layout).map_err(|_| AllocError)
            }

            fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                Heap::allocate_zeroed(self, layout).map_err(|_| AllocError)
            }

            unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
                // SAFETY: the block is a live one of this allocator, with its layout. `self` is a
                // borrow of the heap.
                unsafe { Heap::deallocate(self, block, layout) };
            }

            unsafe fn grow(
                &self,
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, AllocError> {
                // SAFETY: the caller promises a live block of the layout `old`.
                unsafe { moved(self, block, old, new) }
            }

            unsafe fn shrink(
                &self,
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, AllocError> {
                // SAFETY: the caller promises a live block of the layout `old`.
                unsafe { moved(self, block, old, new) }
            }
        }

        /// Changes the layout of a block, its alignment too.
        ///
        /// # Safety
        /// As [`Heap::deallocate`], with the layout `old`.
        unsafe fn moved(
            heap: &Heap,
            block: NonNull<u8>,
            old: Layout,
            new: Layout,
        ) -> Result<NonNull<[u8]>, AllocError> {
            // SAFETY: the heap returned the block for `old`, and it is live and the caller's to
            // change or free, as the caller says. The new block is another one, so the copy does
            // not overlap; it has the bytes of the smaller block.
            unsafe {
                if old.align() == new.align() {
                    return heap.reallocate(block, old, new).map_err(|_| AllocError);
                }
                let to = Heap::allocate(heap, new).map_err(|_| AllocError)?;
                to.cast::<u8>().copy_from_nonoverlapping(block, old.size().min(new.size()));
                Heap::deallocate(heap, block, old);
                Ok(to)
            }
        }
    };
}

#[cfg(feature = "allocator-api2")]
mod api2 {
    use allocator_api2::alloc::{AllocError, Allocator};
    implement!();
}

#[cfg(feature = "nightly")]
mod nightly {
    use core::alloc::{AllocError, Allocator};
    implement!();
}
