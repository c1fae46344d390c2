//! A new block of a [`Heap`] for a layout.
//!
//! Rules
//! 1. A layout of 0 bytes has an address without a block.

use super::{AllocError, Heap, call};
use crate::api::front::Clear;
use crate::harden::tag::Origin;
use core::alloc::Layout;
use core::ptr::NonNull;

impl Heap {
    pub(super) fn make(&self, layout: Layout, clear: Clear) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(nothing(layout));
        }
        let heap = self.heap.ok_or(AllocError)?;
        let block = call::allocate(
            heap,
            layout.size(),
            layout.align(),
            clear,
            Origin::rust(layout.align()),
        );
        block
            .map(|block| NonNull::slice_from_raw_parts(block, layout.size()))
            .map_err(|_| AllocError)
    }
}

/// The address for a layout of 0 bytes.
pub(super) fn nothing(layout: Layout) -> NonNull<[u8]> {
    let at = core::ptr::without_provenance_mut(layout.align());
    // SAFETY: an alignment is not 0.
    NonNull::slice_from_raw_parts(unsafe { NonNull::new_unchecked(at) }, 0)
}
