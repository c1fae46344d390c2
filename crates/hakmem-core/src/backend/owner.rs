//! Owners of pages: heaps, and the part of the allocator that owns parked pages (`parked`). That
//! part is two owners, of which one has the page that is being purged.
//!
//! A page names its owner by the address of an [`Owner`], with which a heap begins. Any thread may
//! read that word and reach the owner's inbox. Only the heap's holder uses the free lists.
//!
//! Rules
//! 1. An owner lives for ever. So a thread may follow a word that it read from a page at any time.
//! 2. `front` belongs to the heap's holder. Any thread may use `inbox`.

use crate::backend::check;
use crate::backend::list::List;
use crate::backend::page::Meta;
use crate::backend::remote_batch::RemoteBatch;
use crate::base::size_class::{CLASS16, CLASSES, TABLE16};
use crate::base::sync::AtomicU64;
use crate::harden;
use crate::proto::inbox::{Inbox, Link};

/// Heaps are 8 KiB apart; a heap's number is its address in such units.
pub const HEAP_SHIFT: u32 = 13;

/// Heaps that were made. That is the most that the process had at a time.
#[unsafe(link_section = ".data.hakmem")]
pub static HEAPS: AtomicU64 = AtomicU64::new(0);

/// The free lists, which the fast path reads: a thread's word points to one.
#[repr(C)]
pub struct Front {
    /// The free list of each class, and the empty one of `NOTHING`.
    pub lists: [List; CLASSES + 1],
    /// A copy of [`PLACE16`].
    pub place16: [u8; TABLE16],
}

/// For each size up to `SMALL_MAX`, in units of 16 bytes rounded up: where the list of its class
/// lies in `Front::lists`, in words. So the fast path of malloc multiplies by 8 alone, which
/// processors do as they form an address.
pub const PLACE16: [u8; TABLE16] = {
    let mut table = CLASS16;
    let mut i = 0;
    while i < TABLE16 {
        table[i] *= (size_of::<List>() / 8) as u8;
        i += 1;
    }
    table
};
const _: () = assert!(size_of::<List>().is_multiple_of(8) && size_of::<List>() / 8 * CLASSES < 256);

/// Two lines of cache for what other threads write. Processors fetch the second line along with the
/// first.
#[repr(align(128))]
struct Line<T>(T);

/// The beginning of a heap: its free lists, and the inbox for blocks of its pages that other
/// threads free.
#[repr(C)]
pub struct Owner {
    /// First, so that a thread's word and a page's owner are one address: `free` compares the two.
    pub front: Front,
    inbox: Line<Inbox<RemoteBatch>>,
}

// SAFETY: `inbox` is made for many threads. Only the heap's holder, one thread at a time, uses the
// cells of `front` (rule 2).
unsafe impl Sync for Owner {}

impl Owner {
    /// An owner without a thread.
    pub const fn new() -> Self {
        let front = Front { lists: [const { List::new() }; CLASSES + 1], place16: [0; TABLE16] };
        Self { front, inbox: Line(Inbox::new()) }
    }

    /// Where other threads put the blocks that they free.
    pub fn inbox(&self) -> &Inbox<RemoteBatch> {
        &self.inbox.0
    }

    /// Bytes of remote frees that were sent since a merge or a purge last took the inbox. A hint.
    pub fn waiting_bytes(&self) -> usize {
        self.inbox.0.waiting_bytes()
    }

    /// Merges the chain that begins with `batch`. For each batch, puts its blocks on the list of
    /// their page, and subtracts their number from the page's countdown. Then calls `received` with
    /// the page, the number of blocks, and the address of one. O(batches).
    ///
    /// A page may have changed its owner while the batch was in flight (`page` rule 6). Such a
    /// batch goes to the inbox of the page's present owner.
    ///
    /// # Safety
    /// The caller is the owner: it holds the heap, or the lock of parked pages. The chain that
    /// begins with `batch` belongs to the caller, and comes from the inbox of an owner for which
    /// the caller acts.
    #[inline(always)]
    pub unsafe fn merge(
        &self,
        mut batch: *mut RemoteBatch,
        mut received: impl FnMut(&'static Meta, u32, *mut u8),
    ) -> u64 {
        let mut batches = 0;
        while !batch.is_null() {
            let block = RemoteBatch::block(batch);
            // SAFETY: the caller gave the batch to this call (`remote_batch` rule 1), which reads
            // it no more once it has sent it on or taken it apart. `take_apart` runs only if the
            // word says that this caller owns the page, and then the page is the caller's to change
            // (`page` rules 1 and 7). Else `owner` was read from the page, and an owner lives for
            // ever (rule 1).
            unsafe {
                let page = RemoteBatch::page(batch);
                if RemoteBatch::is_block(batch) {
                    RemoteBatch::fetch_ahead(batch, page.block_size.get());
                }
                let owner = page.owner();
                if owner != self.as_word() {
                    if check::CHECKED && owner.is_null() {
                        check::corrupt(block.cast());
                    }
                    let next = RemoteBatch::next(batch);
                    let length =
                        if RemoteBatch::is_block(batch) { RemoteBatch::length(batch) } else { 0 };
                    inbox_of(owner).push_chain(
                        batch,
                        batch,
                        length as usize * page.block_size.get() as usize,
                    );
                    batch = next;
                    continue;
                }
                let is_block = RemoteBatch::is_block(batch);
                if is_block {
                    check::check_carved(block, page);
                }
                let (length, next) = RemoteBatch::take_apart(batch, page);
                // The batch's word for its newest block may have been overwritten.
                if harden::ON && is_block && !check::is_block_of(page, page.list.free.get()) {
                    check::corrupt(block.cast());
                }
                page.list.until_slow.set(page.list.until_slow.get() - length as i32);
                received(page, length, block.cast());
                batch = next;
            }
            batches += 1;
        }
        batches
    }

    /// The owner's address, as pages name it.
    #[inline]
    pub fn as_word(&self) -> *mut Self {
        core::ptr::from_ref(self).cast_mut()
    }
}

/// The inbox of an owner of pages.
///
/// # Safety
/// The caller read `owner` from a page, and it was not null.
pub unsafe fn inbox_of(owner: *mut Owner) -> &'static Inbox<RemoteBatch> {
    // SAFETY: `owner` was read from a page, so it is an owner, which lives for ever (rule 1). Only
    // `inbox` is used here, which any thread may use (rule 2).
    unsafe { &(*owner).inbox.0 }
}
