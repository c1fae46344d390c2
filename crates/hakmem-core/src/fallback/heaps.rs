//! Heaps of the program where hakmem does not serve: their blocks come from the target's allocator.
//! A heap counts them for its limit. It has no list of them, so a reset and the end of the heap
//! give nothing back but what was freed.

use crate::base::sync::{AtomicUsize, Ordering::Relaxed};
use crate::types::Hakmem;
use crate::types::program_heap::ProgramHeap;
use core::alloc::{GlobalAlloc, Layout};
use core::fmt;
use core::ptr::NonNull;

pub use crate::types::program_heap::AllocError;

/// A heap that the program makes.
pub struct Heap {
    limit: AtomicUsize,
    live: AtomicUsize,
    peak: AtomicUsize,
    allocations: AtomicUsize,
    frees: AtomicUsize,
    refused: AtomicUsize,
}

impl Heap {
    /// A heap without a name and without a limit.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A heap with a name.
    pub fn named(name: &str) -> Self {
        Self::builder().name(name).build()
    }

    /// Begins a heap.
    pub const fn builder<'a>() -> Builder<'a> {
        Builder { _name: "", limit: usize::MAX }
    }

    /// Allocates a block.
    ///
    /// # Errors
    /// The limit does not allow it, or there is no memory.
    pub fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: `make` passes a layout with bytes.
        self.make(layout, |layout| unsafe { Hakmem.alloc(layout) })
    }

    /// Allocates a block whose bytes are zero.
    ///
    /// # Errors
    /// As [`Heap::allocate`].
    pub fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: `make` passes a layout with bytes.
        self.make(layout, |layout| unsafe { Hakmem.alloc_zeroed(layout) })
    }

    fn make(
        &self,
        layout: Layout,
        alloc: impl Fn(Layout) -> *mut u8,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            let at = core::ptr::without_provenance_mut(layout.align());
            return NonNull::new(at)
                .map(|at| NonNull::slice_from_raw_parts(at, 0))
                .ok_or(AllocError);
        }
        let live = self.live.fetch_add(layout.size(), Relaxed) + layout.size();
        let block =
            if live <= self.limit.load(Relaxed) { NonNull::new(alloc(layout)) } else { None };
        let Some(block) = block else {
            self.live.fetch_sub(layout.size(), Relaxed);
            self.refused.fetch_add(1, Relaxed);
            return Err(AllocError);
        };
        self.peak.fetch_max(live, Relaxed);
        self.allocations.fetch_add(1, Relaxed);
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    /// Frees a block.
    ///
    /// # Safety
    /// The heap returned the block for this layout. It is live, and the caller's to free.
    pub unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() != 0 {
            self.live.fetch_sub(layout.size(), Relaxed);
            self.frees.fetch_add(1, Relaxed);
            // SAFETY: `allocate` got the block from this allocator for the same layout, and the
            // caller says that it is live and gives it up.
            unsafe { Hakmem.dealloc(block.as_ptr(), layout) };
        }
    }

    /// Changes the size of a block.
    ///
    /// # Safety
    /// As for [`Heap::deallocate`], with the layout `old`. `new` has the same alignment.
    ///
    /// # Errors
    /// As [`Heap::allocate`]. Then nothing has changed.
    pub unsafe fn reallocate(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let to = self.allocate(new)?;
        // SAFETY: the caller says that the block is live and has the bytes of `old`. The new block
        // is another one, so the copy does not overlap; it has the bytes of the smaller block.
        unsafe {
            to.cast::<u8>().copy_from_nonoverlapping(block, old.size().min(new.size()));
            self.deallocate(block, old);
        }
        Ok(to)
    }

    /// Does nothing.
    pub fn reset(&mut self) {}

    /// Sets the limit of live bytes.
    pub fn set_limit(&self, bytes: Option<usize>) {
        self.limit.store(bytes.unwrap_or(usize::MAX), Relaxed);
    }

    /// Does nothing.
    ///
    /// # Errors
    /// None.
    pub fn reserve(&self, _bytes: usize) -> Result<(), AllocError> {
        Ok(())
    }

    /// Runs `f`, and routes nothing.
    pub fn scope<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }

    /// The figures of the heap.
    pub fn stats(&self) -> ProgramHeap {
        let limit = self.limit.load(Relaxed);
        ProgramHeap {
            live_bytes: self.live.load(Relaxed) as u64,
            peak_live_bytes: self.peak.load(Relaxed) as u64,
            limit_bytes: (limit != usize::MAX).then_some(limit as u64),
            allocations: self.allocations.load(Relaxed) as u64,
            frees: self.frees.load(Relaxed) as u64,
            refused: self.refused.load(Relaxed) as u64,
            ..ProgramHeap::default()
        }
    }
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("live_bytes", &self.stats().live_bytes).finish_non_exhaustive()
    }
}

/// A heap that begins.
#[derive(Debug, Clone, Copy)]
pub struct Builder<'a> {
    _name: &'a str,
    limit: usize,
}

impl<'a> Builder<'a> {
    /// The name.
    pub const fn name(self, name: &'a str) -> Self {
        Self { _name: name, ..self }
    }

    /// The most live bytes.
    pub const fn limit(self, bytes: usize) -> Self {
        Self { limit: bytes, ..self }
    }

    /// Makes the heap.
    pub fn build(self) -> Heap {
        Heap {
            limit: AtomicUsize::new(self.limit),
            live: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            allocations: AtomicUsize::new(0),
            frees: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        }
    }
}
