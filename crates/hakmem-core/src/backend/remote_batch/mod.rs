//! Remote batches: freed blocks of one page that travel together to the page's owner.
//!
//! The owner puts a batch on the page's list without touching its blocks: they lie in the sender's
//! cache and not in the owner's. It reads and writes only one of them, the *anchor*. The anchor is
//! the block that was freed first, and the last one of the list. Its first word leads to the
//! beginning of the list, and its second word has the rest.
//!
//! ```text
//! word 0 of each block:     anchor → newest → … → second → anchor
//! word 1 of the anchor:     number of blocks, and the next batch of the chain
//! word 2 of the anchor:     address of the batch that follows a few later: a hint (rule 4)
//! ```
//!
//! Rules
//! 1. The blocks of a batch are free and of one page. They belong to the thread that has the
//!    anchor: the sender until it pushes the chain onto an inbox, then the thread that takes the
//!    inbox.
//! 2. Blocks of 8 bytes have no second word. They go onto their page's page list, which travels in
//!    place of a batch. Its address in a chain is the address of the page's metadata plus one, and
//!    its link is a word of the metadata.
//! 3. So a freed block of 8 bytes holds only a link to another block of its page. If the program
//!    frees it twice, it is on two lists, and neither leads out of the page.
//! 4. Nobody follows the address in word 2: the receiver asks the processor to fetch that line, and
//!    no more. Blocks of 16 bytes have no such word.
//! 5. In the hardened build word 2 is a *seal*: a number of the anchor's address, of words 0 and 1,
//!    and of the secret. A change of these words changes the seal by a difference alone. So the
//!    change never makes a word right that the program wrote. A thread that takes a batch, or ends
//!    its page, checks it.

use crate::backend::page::{self, Block, Meta};
use crate::backend::{arena, check};
use crate::base::prefetch::prefetch_to_write;
use crate::harden::{self, key};
use crate::os;
use crate::proto::inbox::{Inbox, Link};
use core::cell::Cell;
use core::ptr::null_mut;

/// An anchor. A pointer to one may be odd: then it stands for a page list (rule 2).
#[repr(C)]
pub struct RemoteBatch {
    newest: Cell<*mut Block>,
    word1: Cell<u64>,
}

/// Word 1 holds an address in its low 48 bits, as programs' addresses have no more, and the number
/// of blocks above.
const ADDRESS: u64 = (1 << 48) - 1;
const ONE: u64 = ADDRESS + 1;

/// Word 1 with the number of blocks in its lowest bits, so that all bits of the seal depend on it.
#[inline(always)]
const fn turned(word1: u64) -> usize {
    word1.rotate_left(u64::BITS - ADDRESS.count_ones()) as usize
}

impl RemoteBatch {
    /// A batch of one block.
    ///
    /// # Safety
    /// The block is free, belongs to the caller, and has a size that [`RemoteBatch::fits`].
    #[inline]
    pub unsafe fn new(block: *mut Block) -> *mut Self {
        let this = block.cast::<Self>();
        // SAFETY: the block belongs to the caller, and is as large as two words, as it fits. Blocks
        // are aligned to 8.
        unsafe {
            (*this).newest.set(block);
            (*this).word1.set(ONE);
            if harden::ON {
                Self::seal(this).set(Self::seal_of(this));
            }
        }
        this
    }

    /// False for blocks that travel by the page list (rule 2).
    #[inline]
    pub fn fits(size: u32) -> bool {
        size as usize >= size_of::<Self>()
    }

    /// Sends a block by its page's page list. True: the page list was empty, and is in flight from
    /// now on.
    ///
    /// # Safety
    /// The block is free, belongs to the caller, is of `page`, and has a size that does not
    /// [`RemoteBatch::fits`]. `inbox` is that of an owner which `page` has or had while the block
    /// was used.
    #[cold]
    pub unsafe fn send_by_page_list(page: &Meta, block: *mut Block, inbox: &Inbox<Self>) -> bool {
        if check::CHECKED && page.remote_list.first() == block {
            check::double_free(block.cast(), page);
        }
        // SAFETY: the caller promises that the block is its own, of this page, and it gives the
        // block up here. If `add` says that the page list was empty, this thread alone sends it
        // (`proto::page_list` rule 2), so the one-item chain is this thread's.
        unsafe {
            if !page.remote_list.add(block) {
                return false;
            }
            let this = page.raw().wrapping_byte_add(1).cast();
            inbox.push_chain(this, this, 0);
        }
        true
    }

    /// Sends a block by itself.
    ///
    /// # Safety
    /// The block is free, belongs to the caller, and is of `page`. `inbox` is that of an owner
    /// which `page` has or had while the block was used.
    pub unsafe fn send_one(page: &Meta, block: *mut Block, inbox: &Inbox<Self>) {
        // SAFETY: the caller promises that the block is its own and of this page. A block that fits
        // becomes a batch of one block, which belongs to this thread (rule 1), and so does the
        // chain of this one batch.
        unsafe {
            if !Self::fits(page.block_size.get()) {
                Self::send_by_page_list(page, block, inbox);
                return;
            }
            let this = Self::new(block);
            Self::set_ahead(this, page.block_size.get(), null_mut());
            inbox.push_chain(this, this, 0);
        }
    }

    /// The page, if `this` stands for a page list.
    ///
    /// # Safety
    /// The batch belongs to the caller.
    #[inline]
    unsafe fn of_list(this: *mut Self) -> Option<&'static Meta> {
        // SAFETY: the batch belongs to the caller, and its address is odd.
        (this.addr() & 1 != 0).then(|| unsafe { Self::page_of_list(this) })
    }

    /// [`RemoteBatch::of_list`] for an odd address. Ends the process if the program overwrote an
    /// anchor, so that this is no page list.
    ///
    /// # Safety
    /// The batch belongs to the caller. Its address is odd.
    #[cold]
    #[inline(never)]
    unsafe fn page_of_list(this: *mut Self) -> &'static Meta {
        let meta = this.wrapping_byte_sub(1).cast::<Meta>();
        if check::CHECKED && !arena::is_meta(meta.addr()) {
            check::corrupt(this.cast());
        }
        // SAFETY: the odd address of a batch is one more than that of a page's metadata (rule 2),
        // and `is_meta` has checked it. Metadata is accessible for ever (`arena` rule 4), and all
        // its fields are cells or atomics.
        unsafe { &*meta }
    }

    /// Notes which batch follows a few later in the chain; null: none does.
    ///
    /// # Safety
    /// The batch belongs to the caller, is no page list, and its blocks have `size` bytes.
    #[inline(always)]
    pub unsafe fn set_ahead(this: *mut Self, size: u32, ahead: *mut Self) {
        if let Some(word) = Self::word2(this, size) {
            // SAFETY: the batch is the caller's, so no other thread uses the anchor (rule 1), which
            // has a third word.
            unsafe { word.write(ahead.addr()) };
        }
    }

    /// Fetches the anchor of the batch that follows a few later in the chain. Each anchor lies in
    /// the cache of the sender's core, and the link to it in the anchor before: without this, the
    /// receiver would wait for one after the other.
    ///
    /// # Safety
    /// As [`RemoteBatch::set_ahead`], which was called for the batch.
    #[inline(always)]
    pub unsafe fn fetch_ahead(this: *mut Self, size: u32) {
        if let Some(word) = Self::word2(this, size) {
            // SAFETY: the batch is the caller's, so no other thread uses the anchor (rule 1), which
            // has a third word. Any address may be fetched, so it is no matter if the program
            // overwrote the word.
            prefetch_to_write(unsafe { word.read() });
        }
    }

    /// The third word of the anchor of blocks of `size` bytes. None: they have two. The hardened
    /// build has none either: there all of a free block but its link is zero.
    #[inline(always)]
    fn word2(this: *mut Self, size: u32) -> Option<*mut usize> {
        (size as usize >= size_of::<Self>() + size_of::<usize>() && !harden::ON)
            .then(|| this.wrapping_add(1).cast())
    }

    /// False if `this` stands for a page list.
    #[inline]
    pub fn is_block(this: *mut Self) -> bool {
        this.addr() & 1 == 0
    }

    /// The anchor. For a page list: nothing but an address for messages.
    #[inline]
    pub fn block(this: *mut Self) -> *mut Block {
        this.cast()
    }

    /// The block that was added last.
    ///
    /// # Safety
    /// The batch belongs to the caller and is no page list.
    #[inline(always)]
    pub unsafe fn newest(this: *mut Self) -> *mut Block {
        // SAFETY: the batch is the caller's, so no other thread uses the anchor (rule 1), and it is
        // a block.
        unsafe { (*this).newest.get() }
    }

    /// Adds a block.
    ///
    /// # Safety
    /// The batch belongs to the caller and is no page list. The block is free, belongs to the
    /// caller, and is of the batch's page.
    #[inline(always)]
    pub unsafe fn push(this: *mut Self, block: *mut Block) {
        // SAFETY: batch and block belong to the caller, so no other thread uses the words of either
        // (rule 1).
        unsafe {
            let newest = (*this).newest.get();
            Block::set_next(block, newest);
            Self::change(this, block, (*this).word1.get() + ONE);
        }
    }

    /// Sets both words, and changes the seal by the difference (rule 5).
    ///
    /// # Safety
    /// The batch belongs to the caller and is no page list.
    #[inline(always)]
    unsafe fn change(this: *mut Self, newest: *mut Block, word1: u64) {
        // SAFETY: the batch is the caller's, so no other thread uses the anchor (rule 1).
        unsafe {
            let before = ((*this).newest.replace(newest), (*this).word1.replace(word1));
            if harden::ON {
                let seal = Self::seal(this);
                let first = newest.addr().wrapping_sub(before.0.addr());
                let second = turned(word1).wrapping_sub(turned(before.1));
                seal.set(seal.get().wrapping_add(key::spread_both(first, second)));
            }
        }
    }

    /// The word of the seal.
    ///
    /// # Safety
    /// The batch belongs to the caller and is no page list. This is the hardened build, whose
    /// blocks have 32 bytes at least.
    #[inline(always)]
    unsafe fn seal<'a>(this: *mut Self) -> &'a Cell<usize> {
        // SAFETY: the batch is the caller's, so no other thread uses the anchor (rule 1), which has
        // a third word.
        unsafe { &*this.wrapping_add(1).cast() }
    }

    /// The seal that the anchor must have (rule 5).
    ///
    /// # Safety
    /// As [`RemoteBatch::seal`].
    #[inline(always)]
    unsafe fn seal_of(this: *mut Self) -> usize {
        // SAFETY: the batch is the caller's, so no other thread uses the anchor (rule 1).
        let (newest, word1) = unsafe { ((*this).newest.get(), (*this).word1.get()) };
        key::mask(this.addr()).wrapping_add(key::spread_both(newest.addr(), turned(word1)))
    }

    /// Ends the process if the program wrote to the words of the anchor, in the hardened build.
    ///
    /// # Safety
    /// The batch belongs to the caller and is no page list.
    #[inline(always)]
    unsafe fn check_seal(this: *mut Self) {
        // SAFETY: the batch is the caller's, and a block of the hardened build.
        if harden::ON && unsafe { Self::seal(this).get() != Self::seal_of(this) } {
            check::corrupt(this.cast());
        }
    }

    /// The number of blocks.
    ///
    /// # Safety
    /// The batch belongs to the caller and is no page list.
    #[inline]
    pub unsafe fn length(this: *mut Self) -> u32 {
        // SAFETY: the batch is the caller's, so no other thread uses the anchor (rule 1), and it is
        // a block.
        (unsafe { (*this).word1.get() } / ONE) as u32
    }

    /// Adds all blocks of another batch of the same page. O(1).
    ///
    /// # Safety
    /// Both batches belong to the caller, are of one page, and are no page lists.
    pub unsafe fn join(this: *mut Self, other: *mut Self) {
        // SAFETY: both batches are the caller's, so no other thread uses their anchors (rule 1).
        unsafe {
            // The last block of `other`, its anchor, now leads to the newest of `this`.
            let newest = (*other).newest.replace((*this).newest.get());
            Self::change(this, newest, (*this).word1.get() + (*other).word1.get() / ONE * ONE);
            if harden::ON {
                Self::end(other);
                // The first word of the other anchor is a link from now on.
                Block::set_next(other.cast(), (*other).newest.get());
            }
        }
    }

    /// Ends the process if the batch does not have each block of `page` once. O(1): it follows the
    /// links of a few blocks.
    ///
    /// # Safety
    /// The batch belongs to the caller, is of `page`, and is no page list.
    pub unsafe fn check_all(this: *mut Self, page: &Meta) {
        const FEW: u32 = 8;
        // SAFETY: the batch is the caller's, and so are its blocks (rule 1). Each link is checked
        // before it is followed.
        unsafe {
            Self::check_seal(this);
            let mut block = (*this).newest.get();
            for i in 1..=FEW.min(Self::length(this)) {
                if !check::is_block_of(page, block) {
                    check::corrupt(block.cast());
                }
                // The last block is the anchor, whose first word is no link.
                if i < Self::length(this) {
                    block = Block::next(block);
                }
            }
        }
    }

    /// The batch ends, and its blocks are no list any more.
    ///
    /// # Safety
    /// The batch belongs to the caller, and is no page list.
    pub unsafe fn end(this: *mut Self) {
        if harden::ON {
            // SAFETY: the batch is the caller's, so no other thread uses the anchor (rule 1).
            unsafe {
                (*this).word1.set(0); // All of a free block but its link is zero.
                Self::seal(this).set(0);
            }
        }
    }

    /// The page of the blocks. Ends the process if the program overwrote the anchor.
    ///
    /// # Safety
    /// The batch belongs to the caller.
    #[inline]
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub unsafe fn page(this: *mut Self) -> &'static Meta {
        // SAFETY: the batch belongs to the caller.
        if let Some(page) = unsafe { Self::of_list(this) } {
            if check::CHECKED && page.remote_list.first().is_null() {
                check::corrupt(page.start());
            }
            return page;
        }
        let Some(slot) = page::lookup(this.cast()) else { check::corrupt(this.cast()) };
        // SAFETY: the batch is the caller's (rule 1), and a block of an arena, as `lookup` found a
        // slot for it. So its second word is accessible.
        if check::CHECKED && unsafe { (*this).word1.get() } < ONE {
            check::corrupt(this.cast()); // It might lead back to itself.
        }
        // SAFETY: the batch is the caller's (rule 1), and a block, as `lookup` found its slot.
        unsafe { Self::check_seal(this) };
        slot.head_of_block()
    }

    /// Takes the batch apart: puts its blocks before those of the page's list. Returns their
    /// number, and the next batch of the chain.
    ///
    /// # Safety
    /// The batch belongs to the caller. `page` is its page, and belongs to the caller, too.
    #[inline]
    pub unsafe fn take_apart(this: *mut Self, page: &Meta) -> (u32, *mut Self) {
        // SAFETY: batch and page belong to the caller (rule 1), so no other thread uses the
        // anchor's words or `page.list`. The anchor's words are read before `set_next` makes the
        // first one a link. A page list that the caller has is that of `page`.
        unsafe {
            if Self::of_list(this).is_some() {
                return Self::take_list_apart(page);
            }
            let (first, next) = ((*this).newest.get(), Self::next(this));
            if check::CHECKED && !check::is_near(this.cast(), first) {
                check::corrupt(this.cast());
            }
            let length = ((*this).word1.get() / ONE) as u32;
            Self::end(this);
            Block::set_next(this.cast(), page.list.free.replace(first));
            (length, next)
        }
    }

    /// [`RemoteBatch::take_apart`] for a page list. It checks each block: the program may have
    /// freed one twice, or written to it after the free.
    ///
    /// # Safety
    /// The page belongs to the caller, and so does its page list, which came from an inbox.
    #[cold]
    #[inline(never)]
    unsafe fn take_list_apart(page: &Meta) -> (u32, *mut Self) {
        let (next, first) = page.remote_list.open(|| page.remote_link.get().cast());
        // SAFETY: the caller emptied the page list, so its blocks are the caller's.
        let length = unsafe { check::count(first, page) };
        let mut last = first;
        // SAFETY: the caller emptied the page list, so its blocks are the caller's. `count` found
        // `length` blocks of the page, each linked to the next. The page is the caller's, so
        // `page.list` is.
        unsafe {
            for _ in 1..length {
                last = Block::next(last);
            }
            Block::set_next(last, page.list.free.replace(first));
        }
        (length, next)
    }
}

// SAFETY: the link is the address in word 1 of an anchor, or `remote_link` of a page with a page
// list. Only `new` and `set_next` change it, for the thread that has the batch (rule 1).
unsafe impl Link for RemoteBatch {
    #[inline]
    unsafe fn next(this: *mut Self) -> *mut Self {
        // SAFETY: the caller owns the batch.
        if let Some(page) = unsafe { Self::of_list(this) } {
            return page.remote_link.get().cast();
        }
        // SAFETY: the caller owns the batch, so no other thread uses its second word.
        os::at(unsafe { (*this).word1.get() & ADDRESS } as usize).cast()
    }
    #[inline]
    unsafe fn set_next(this: *mut Self, next: *mut Self) {
        // SAFETY: the caller owns the batch.
        if let Some(page) = unsafe { Self::of_list(this) } {
            return page.remote_link.set(next.cast());
        }
        // SAFETY: the caller owns the batch, so no other thread uses its second word.
        unsafe {
            let word1 = (*this).word1.get() & !ADDRESS | next.expose_provenance() as u64;
            Self::change(this, (*this).newest.get(), word1);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
