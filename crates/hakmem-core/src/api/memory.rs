//! What a program asks of all its memory: to give back what is free, and what to do at a limit.

use super::front;
use crate::types::LimitCallback;
use crate::{purge, thread};

/// Sets what hakmem calls before an allocation fails, because it would exceed `HARD_LIMIT_MIB` or
/// the system has no more memory. None: nothing. There is one callback for the process.
///
/// hakmem calls it on the thread that allocates, after it has given all free memory back. It holds
/// no lock then. The callback may free blocks, and allocate: an allocation of its own that finds no
/// memory fails at once. If it returns true, hakmem tries the allocation once more. Then the
/// allocation fails: the caller gets NULL with ENOMEM, and a Rust program its error. It must not
/// panic.
///
/// hakmem does not call it for a request that no machine could meet, from a signal handler that
/// interrupted the allocator, and for a destructor of a thread that ends. O(1).
///
/// # Safety
/// hakmem calls the function in the middle of any allocation. The value that allocates may be half
/// changed: a `Vec` that grows, say. So the function must use nothing that may allocate at that
/// moment, on this thread or another, unless a lock says that nobody changes it.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::{Hakmem, options};
/// use std::alloc::{Layout, alloc, dealloc};
/// use std::sync::Mutex;
///
/// #[global_allocator]
/// static ALLOCATOR: Hakmem = Hakmem::new();
///
/// static CACHE: Mutex<Vec<u8>> = Mutex::new(Vec::new());
///
/// extern "C" fn drop_cache(_: usize) -> bool {
///     CACHE.try_lock().is_ok_and(|mut cache| !std::mem::take(&mut *cache).is_empty())
/// }
///
/// # fn main() -> Result<(), options::Error> {
/// options::set("HARD_LIMIT_MIB", "64")?;
/// // SAFETY: the cache is behind a lock, which no thread holds while it allocates.
/// unsafe { hakmem_core::set_limit_callback(Some(drop_cache)) };
/// *CACHE.lock().unwrap() = vec![1; 40 << 20];
/// let layout = Layout::from_size_align(40 << 20, 8).unwrap();
/// // SAFETY: the layout is not empty, and the block is freed once.
/// unsafe {
///     let block = alloc(layout);
/// #   if hakmem_core::is_active() {
///     assert!(!block.is_null(), "the cache made room");
///     assert!(alloc(layout).is_null(), "there is no cache any more");
/// #   }
///     dealloc(block, layout);
/// }
/// # Ok(()) }
/// ```
pub unsafe fn set_limit_callback(callback: Option<LimitCallback>) {
    front::set_callback(callback);
}

/// Gives free memory of the whole process back to the system now, without decay. Returns the bytes.
/// A slot of 64 KiB counts as a whole, although the program may have touched only a part of it.
///
/// It does what `malloc_trim` does: it gives up what is free in the calling thread's heap, in the
/// heaps of ended threads, and in no heap. It also pauses the heaps of other threads for some
/// microseconds each, and gives up what is unused there: empty pages, cached large blocks, remote
/// frees that make a page whole, and pages of which nothing but a free list is left.
///
/// It does not reach blocks on the free lists of other threads whose pages have live blocks, a heap
/// whose thread is on a slow path at that moment, and remote batches that a thread has not sent. It
/// pauses no heap where the system has no barriers (`membarrier`), and in a process with a filter
/// for system calls. A preloaded process reads `/proc` instead, so it pauses heaps of threads that
/// sleep in most containers, too. O(all free memory, and heaps).
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::Hakmem;
///
/// #[global_allocator]
/// static ALLOCATOR: Hakmem = Hakmem::new();
///
/// # fn main() {
/// drop(vec![1_u8; 10 << 20]);
/// let bytes = hakmem_core::purge_all();
/// # if hakmem_core::is_active() {
/// assert!(bytes >= 10 << 20);
/// # }
/// # }
/// ```
pub fn purge_all() -> usize {
    if thread::holds_a_lock() {
        return 0; // This thread's signal handler interrupted the allocator.
    }
    thread::give_up_own();
    purge::all_with_pauses()
}
