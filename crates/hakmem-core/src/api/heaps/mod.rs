//! Heaps that the program makes: [`Heap`].
//!
//! A [`Heap`] is a value. Blocks that are allocated from it are given back together by
//! [`Heap::reset`], or when it is dropped. It may have a name, under which its figures are in
//! reports, and a limit, beyond which an allocation fails.
//!
//! ```
//! # extern crate hakmem_core as hakmem;
//! use core::alloc::Layout;
//! use hakmem::Heap;
//!
//! let mut heap = Heap::builder().name("request").limit(1 << 20).build();
//! let block = heap.allocate(Layout::new::<[u8; 1000]>())?;
//! assert!(heap.allocate(Layout::new::<[u8; 1 << 21]>()).is_err(), "beyond the limit");
//! assert_eq!(block.len(), 1000);
//! heap.reset(); // Gives the block back.
//! assert_eq!(heap.stats().live_bytes, 0);
//! # Ok::<(), hakmem_core::heaps::AllocError>(())
//! ```
//!
//! With the feature `allocator-api2`, collections take `&Heap` as their allocator. On the nightly
//! toolchain, those of the standard library do with the feature `nightly`.
//!
//! # Rules
//!
//! 1. **Threads.** A `Heap` is `Send` and `Sync`. Any thread may allocate from it, and free its
//!    blocks. It has a lock, which costs two locked instructions for each call while no two threads
//!    use the heap at once. So a `Vec<T, &Heap>` may move to another thread, as its task does.
//! 2. **Borrows.** A `Vec<T, &Heap>` borrows the heap. So the program compiles only if all of these
//!    are gone before [`Heap::reset`] and before the end of the heap. Then no one has a block that
//!    is given back.
//! 3. **Scopes.** In [`Heap::scope`] the ordinary allocations of the thread come from the heap.
//!    Such blocks may live as long as the program likes, and any thread frees them as any block.
//!    `reset` and the end of the heap leave them alone. If the heap ends first, its memory for
//!    these blocks goes back when the last of them is freed.
//! 4. **Limit.** Live bytes, of both kinds, are at most the limit. Each block counts with the size
//!    of its class. A request beyond the limit fails, and changes nothing.
//! 5. **Signal handlers.** A handler may use a heap. If it interrupted a call for the same heap in
//!    its own thread, an allocation fails, and a block that is freed goes back with the next call.
//! 6. **fork.** The child has a copy of each heap. If another thread was in a call for a heap at
//!    the fork, allocations from that heap fail in the child.
//!
//! This does not compile, as the heap would end before the vector:
//!
#![cfg_attr(feature = "allocator-api2", doc = "```compile_fail,E0505")]
#![cfg_attr(not(feature = "allocator-api2"), doc = "```ignore")]
//! use allocator_api2::vec::Vec;
//! # extern crate hakmem_core as hakmem;
//! use hakmem::Heap;
//!
//! let heap = Heap::new();
//! let mut numbers = Vec::new_in(&heap);
//! numbers.push(1);
//! drop(heap);
//! numbers.push(2);
//! ```

mod blocks;
mod builder;
pub(crate) mod call;
mod scoped;

use crate::api::front::Clear;
use crate::harden::tag::Origin;
use crate::program::ProgramHeap;
use crate::purge;
use crate::thread::scope;
use crate::types::program_heap::ProgramHeap as Figures;
use core::alloc::Layout;
use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr::NonNull;

pub use crate::types::program_heap::AllocError;
use blocks::nothing;
pub use builder::Builder;
use scoped::Entered;

/// A heap that the program makes, limits, and drops as a whole: see the [module](self).
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use core::alloc::Layout;
/// use hakmem::Heap;
///
/// let heap = Heap::named("scratch");
/// for _ in 0..1000 {
///     heap.allocate(Layout::new::<u64>())?;
/// }
/// drop(heap); // Gives all of them back.
/// # Ok::<(), hakmem_core::heaps::AllocError>(())
/// ```
pub struct Heap {
    /// None: there was no memory for the heap, and no allocation from it succeeds.
    heap: Option<&'static ProgramHeap>,
}

// A panic of the program never interrupts a change of the heap: the heap calls no code of the
// program while it has its lock. A scope ends by its destructor.
impl UnwindSafe for Heap {}
impl RefUnwindSafe for Heap {}

impl Heap {
    /// A heap without a name and without a limit. Never fails: if there is no memory for the heap,
    /// all allocations from it fail. O(1), 8 KiB of address space, of which 4 KiB are resident.
    /// This memory stays when the heap ends, for the next heap.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::Heap;
    ///
    /// let heap = Heap::new();
    /// assert_eq!(heap.stats().live_bytes, 0);
    /// ```
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A heap with a name, under which its figures are in reports. O(1).
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::Heap;
    ///
    /// let heap = Heap::named("parser");
    /// println!("{:?}", heap);
    /// ```
    pub fn named(name: &str) -> Self {
        Self::builder().name(name).build()
    }

    /// Begins a heap with a name, a limit, or both. O(1).
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::Heap;
    ///
    /// let plugin = Heap::builder().name("plugin").limit(16 << 20).build();
    /// # drop(plugin);
    /// ```
    pub const fn builder<'a>() -> Builder<'a> {
        Builder { name: "", limit: None }
    }

    /// Allocates a block. An error: the limit does not allow it, or there is no memory. A layout of
    /// 0 bytes gets an address without a block. O(1), and now and then O(groups in use).
    ///
    /// The block is the caller's until it is freed, the heap is reset, or the heap ends. Nothing
    /// keeps the heap alive for it.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use core::alloc::Layout;
    /// use hakmem::Heap;
    ///
    /// let heap = Heap::new();
    /// let block = heap.allocate(Layout::new::<[u32; 4]>())?;
    /// assert_eq!(block.len(), 16);
    /// # Ok::<(), hakmem_core::heaps::AllocError>(())
    /// ```
    pub fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.make(layout, Clear::Nothing)
    }

    /// [`Heap::allocate`] of a block whose bytes are zero.
    ///
    /// O(1), and the bytes that have to be written.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use core::alloc::Layout;
    /// use hakmem::Heap;
    ///
    /// let heap = Heap::new();
    /// let block = heap.allocate_zeroed(Layout::new::<u64>())?;
    /// // SAFETY: the block is live, aligned for the type, and zero.
    /// assert_eq!(unsafe { block.cast::<u64>().read() }, 0);
    /// # Ok::<(), hakmem_core::heaps::AllocError>(())
    /// ```
    pub fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.make(layout, Clear::Request)
    }

    /// Frees a block. If it is no block of this heap, the process ends with a line that says so.
    /// O(1).
    ///
    /// # Safety
    /// The heap returned the block for this layout. It is live, and the caller's to free.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use core::alloc::Layout;
    /// use hakmem::Heap;
    ///
    /// let heap = Heap::new();
    /// let layout = Layout::new::<[u8; 100]>();
    /// let block = heap.allocate(layout)?;
    /// // SAFETY: the heap has just returned it for this layout.
    /// unsafe { heap.deallocate(block.cast(), layout) };
    /// assert_eq!(heap.stats().blocks(), 0);
    /// # Ok::<(), hakmem_core::heaps::AllocError>(())
    /// ```
    pub unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if let Some(heap) = self.heap
            && layout.size() != 0
        {
            // SAFETY: the size is not 0, so the heap has a block for this layout at this address,
            // and the caller says that it is live and gives it up.
            unsafe {
                call::free(heap, block.as_ptr(), Origin::rust(layout.align()), Some(layout.size()))
            };
        }
    }

    /// Changes the size of a block. Its contents stay, as much as fits. An error: the limit or the
    /// system does not allow it, and nothing has changed. O(1), and the copy.
    ///
    /// # Safety
    /// As for [`Heap::deallocate`], with the layout `old`. `new` has the same alignment. After a
    /// success the block is the one that was returned.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use core::alloc::Layout;
    /// use hakmem::Heap;
    ///
    /// let heap = Heap::new();
    /// let (small, big) = (Layout::new::<[u8; 10]>(), Layout::new::<[u8; 10_000]>());
    /// let block = heap.allocate_zeroed(small)?;
    /// // SAFETY: the heap has just returned it for this layout.
    /// let block = unsafe { heap.reallocate(block.cast(), small, big)? };
    /// assert_eq!(block.len(), 10_000);
    /// # Ok::<(), hakmem_core::heaps::AllocError>(())
    /// ```
    pub unsafe fn reallocate(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() == 0 {
            return self.allocate(new);
        }
        if new.size() == 0 {
            // SAFETY: the size is not 0, so the heap has a block for the layout `old` at this
            // address, and the caller says that it is live and gives it up.
            unsafe { self.deallocate(block, old) };
            return Ok(nothing(new));
        }
        let heap = self.heap.ok_or(AllocError)?;
        let (size, origin) = (Some(old.size()), Origin::rust(old.align()));
        // SAFETY: neither size is 0, so the heap has a block for the layout `old` at this address.
        // The caller says that it is live, nobody else uses it, and the alignment stays.
        let moved = unsafe {
            call::reallocate(heap, block.as_ptr(), size, new.size(), new.align(), origin)
        };
        moved.map(|block| NonNull::slice_from_raw_parts(block, new.size())).map_err(|_| AllocError)
    }

    /// Gives back all blocks that were allocated from the heap, at once. Blocks of
    /// [scopes](Heap::scope) stay. Name, limit and what was [reserved](Heap::reserve) stay too.
    /// For each size up to 8 KiB that was used since the last reset, a page of 64 KiB stays with
    /// the heap, unless it has reserved memory. [`purge_all`](crate::purge_all) gives these pages
    /// back. O(pages and blocks over 64 KiB).
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use core::alloc::Layout;
    /// use hakmem::Heap;
    ///
    /// let mut heap = Heap::new();
    /// for request in 0..10 {
    ///     heap.allocate(Layout::array::<u8>(request * 100).unwrap())?;
    ///     heap.reset();
    /// }
    /// assert_eq!(heap.stats().live_bytes, 0);
    /// # Ok::<(), hakmem_core::heaps::AllocError>(())
    /// ```
    pub fn reset(&mut self) {
        let Some(heap) = self.heap else { return };
        // SAFETY: `&mut` says that no one borrows the heap. Who has a block without a borrow was
        // told by `allocate` that the block ends here.
        let _ = unsafe { heap.reset() };
        if heap.take_released() {
            purge::tick();
        }
    }

    /// Sets the limit of live bytes; None: there is none. What is live stays. O(1).
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use core::alloc::Layout;
    /// use hakmem::Heap;
    ///
    /// let heap = Heap::new();
    /// heap.set_limit(Some(0));
    /// assert!(heap.allocate(Layout::new::<u64>()).is_err());
    /// heap.set_limit(None);
    /// assert!(heap.allocate(Layout::new::<u64>()).is_ok());
    /// ```
    pub fn set_limit(&self, bytes: Option<usize>) {
        if let Some(heap) = self.heap {
            heap.set_limit(bytes);
        }
    }

    /// Takes memory for `bytes` bytes more, in steps of 2 MiB, and makes it resident. From then on
    /// the heap makes no system call as long as its blocks of up to 1 MiB fit in there, after a
    /// reset too. An error: the heap would have reserved more than 512 MiB, and nothing changes; or
    /// there is no memory, and what was reserved before that stays. O(bytes).
    ///
    /// Pages of blocks of one size have 64 KiB each, and 512 KiB for blocks of more than 8 KiB. So
    /// a heap with blocks of many sizes needs more than the sum of their bytes.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::Heap;
    ///
    /// let audio = Heap::named("audio");
    /// audio.reserve(4 << 20)?;
    /// # if hakmem_core::is_active() {
    /// assert_eq!(audio.stats().reserved_bytes, 4 << 20);
    /// # }
    /// # Ok::<(), hakmem_core::heaps::AllocError>(())
    /// ```
    pub fn reserve(&self, bytes: usize) -> Result<(), AllocError> {
        self.heap.and_then(|heap| call::reserve(heap, bytes).ok()).ok_or(AllocError)
    }

    /// Runs `f`. Meanwhile the ordinary allocations of the calling thread come from this heap, if
    /// hakmem serves them: `Box::new`, `vec!`, and in a program on the C library also malloc.
    /// Blocks that are allocated so may outlive the scope and the heap. O(1) besides `f`.
    ///
    /// In a scope within, the inner heap serves. A panic in `f` ends the scope; its message, and a
    /// backtrace if `RUST_BACKTRACE` is set, are made in the scope. An allocation
    /// beyond the limit fails as when there is no memory: `Box::new` then ends the process,
    /// `try_reserve` returns an error. If there is no memory for the scope, or the thread is ending
    /// and has already given its heap back, `f` runs without it.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::{Hakmem, Heap};
    ///
    /// #[global_allocator]
    /// static ALLOCATOR: Hakmem = Hakmem::new();
    ///
    /// # fn main() {
    /// let parser = Heap::named("parser");
    /// let text = "the words of a text";
    /// let words: Vec<String> = parser.scope(|| text.split(' ').map(String::from).collect());
    /// # if hakmem_core::is_active() {
    /// assert_eq!(parser.stats().blocks(), 6, "the vector and five words");
    /// # }
    /// drop(words);
    /// assert_eq!(parser.stats().blocks(), 0);
    /// # }
    /// ```
    pub fn scope<R>(&self, f: impl FnOnce() -> R) -> R {
        let _entered = self.heap.filter(|heap| scope::enter(heap).is_ok()).map(Entered);
        f()
    }

    /// The figures of the heap. O(1). They are exact but for blocks that wait in the lists of
    /// scopes, which count as live.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use core::alloc::Layout;
    /// use hakmem::Heap;
    ///
    /// let heap = Heap::builder().limit(1000).build();
    /// heap.allocate(Layout::new::<[u8; 500]>())?;
    /// assert!(heap.allocate(Layout::new::<[u8; 600]>()).is_err());
    /// let figures = heap.stats();
    /// assert_eq!((figures.live_bytes, figures.refused), (512, 1));
    /// # Ok::<(), hakmem_core::heaps::AllocError>(())
    /// ```
    pub fn stats(&self) -> Figures {
        self.heap.map_or_else(Figures::default, ProgramHeap::read)
    }
}

impl Heap {
    /// The heap itself, if there was memory for one.
    pub(crate) fn raw(&self) -> Option<&'static ProgramHeap> {
        self.heap
    }
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        let Some(heap) = self.heap else { return };
        // SAFETY: nobody borrows the heap any more, as for `reset`. Its scopes are over, as each of
        // them borrowed it.
        unsafe { heap.delete() };
        if heap.take_released() {
            purge::tick();
        }
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = self.stats();
        let mut fields = f.debug_struct("Heap");
        fields.field("name", &figures.name()).field("live_bytes", &figures.live_bytes);
        fields.field("limit_bytes", &figures.limit_bytes).finish_non_exhaustive()
    }
}
