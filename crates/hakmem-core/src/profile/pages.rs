//! Pages for the blocks of sampled allocations up to 64 KiB. They have no owner, so a free of such
//! a block takes a slow path.
//!
//! A page has one class, laid out as a heap's page is, so that alignments hold. Under the lock its
//! list and its counters work as in `page`: `list.free`, `carved`, and `list.until_slow` for the
//! number of used blocks.

use super::asked::after_a_change;
use super::probe;
use super::sampler::Sampler;
use super::table::with_books;
use crate::backend::check;
use crate::backend::page::{Block, Meta};
use crate::backend::segment;
use crate::base::size_class::{CLASSES, SIZES, span_of};
use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::AtomicU64;
use crate::os;
use crate::proto::inbox::Link;
use core::ptr::{NonNull, null_mut};

/// Sampled blocks of each class that were freed, in all.
static RETURNED: [AtomicU64; CLASSES] = [const { AtomicU64::new(0) }; CLASSES];

/// Sampled blocks of `class` that were freed.
pub fn returned(class: usize) -> u64 {
    RETURNED[class].load(Relaxed)
}

/// Pages with a free block, by class.
pub struct Pages {
    first: [*mut Meta; CLASSES],
}

impl Pages {
    /// A set without pages.
    pub const fn new() -> Self {
        Self { first: [null_mut(); CLASSES] }
    }

    fn link(&mut self, class: usize, page: &Meta) {
        let next = core::mem::replace(&mut self.first[class], page.raw());
        page.prev.set(null_mut());
        page.next.set(next);
        // SAFETY: a link is null or leads to the metadata of a page of this list, which is
        // accessible for ever (`arena` rule 4). The caller has the books, so it holds the lock that
        // guards the list (rule 1 of `profile`).
        if let Some(next) = unsafe { next.as_ref() } {
            next.prev.set(page.raw());
        }
    }

    fn unlink(&mut self, class: usize, page: &Meta) {
        let (prev, next) = (page.prev.get(), page.next.get());
        // SAFETY: a link is null or leads to the metadata of a page of this list, which is
        // accessible for ever (`arena` rule 4). The caller has the books, so it holds the lock that
        // guards the list (rule 1 of `profile`).
        unsafe {
            match prev.as_ref() {
                Some(prev) => prev.next.set(next),
                None => self.first[class] = next,
            }
            if let Some(next) = next.as_ref() {
                next.prev.set(prev);
            }
        }
    }

    /// Takes a block of `class`. None: out of memory.
    fn take(&mut self, class: usize) -> Option<NonNull<Block>> {
        // SAFETY: a link is null or leads to the metadata of a page of this list, which is
        // accessible for ever (`arena` rule 4). The caller has the books, so it holds the lock that
        // guards the list (rule 1 of `profile`).
        let page = match unsafe { self.first[class].as_ref() } {
            Some(page) => page,
            None => {
                let (size, span) = (SIZES[class], span_of(SIZES[class]));
                let (page, zero) = segment::claim_anywhere(span)?;
                page.open_ownerless(class, size, span, zero);
                self.link(class, page);
                page
            }
        };
        let mut block = page.list.free.get();
        if block.is_null() {
            let offset = page.carved.get() as usize * page.block_size.get() as usize;
            block = page.start().wrapping_add(offset).cast();
            page.carved.set(page.carved.get() + 1);
        } else {
            // SAFETY: the block is on the page's list, so it is free. The caller has the books, and
            // the lock guards the list (rule 1 of `profile`).
            let next = unsafe { Block::next(block) };
            check::check_link(block, next);
            page.list.free.set(next);
        }
        page.list.until_slow.set(page.list.until_slow.get() + 1);
        if page.list.free.get().is_null() && page.carved.get() == page.cap.get() {
            self.unlink(class, page);
        }
        NonNull::new(block)
    }

    /// Puts a block back. Returns its size.
    ///
    /// # Safety
    /// `take` gave it from `page`. Nobody uses it any more, and nobody has put it back yet.
    pub unsafe fn give(&mut self, page: &Meta, block: *mut Block) -> u64 {
        let class = usize::from(page.class.get());
        RETURNED[class].fetch_add(1, Relaxed);
        let was_full = page.list.free.get().is_null() && page.carved.get() == page.cap.get();
        // SAFETY: by the caller's promise nobody uses the block any more, so its first word may
        // become a link.
        unsafe { Block::set_next(block, page.list.free.get()) };
        page.list.free.set(block);
        page.list.until_slow.set(page.list.until_slow.get() - 1);
        match (page.list.until_slow.get(), was_full) {
            // The only page of the class is kept: a program frees most samples before the next one
            // is taken.
            (0, false) if self.first[class] == page.raw() && page.next.get().is_null() => {}
            (0, _) => {
                if !was_full {
                    self.unlink(class, page);
                }
                let span = page.span.load(Relaxed);
                page.close();
                // SAFETY: all blocks of the page are free, the page is closed, and it is in no
                // list: nobody has a pointer to its memory. The books own its slots.
                unsafe { segment::release(page, span) };
            }
            (..0, _) => check::double_free(block.cast(), page),
            (_, true) => self.link(class, page),
            (_, false) => {}
        }
        u64::from(SIZES[class])
    }
}

/// Samples an allocation of `class`, which is due, with the stack of the calling thread. Returns
/// its block. None: the allocation is no sample after all.
pub fn sample_small(
    sampler: &Sampler,
    class: usize,
    handed: impl Fn(usize) -> u32,
) -> Option<NonNull<Block>> {
    let interval = sampler.take(class, handed, os::now_ns);
    let block = sampler.with_scratch(|scratch| {
        let stack = scratch.follow();
        with_books(|books| {
            let made = books
                .make_room()
                .then(|| books.bucket(u64::from(SIZES[class]), interval, stack))
                .flatten()
                .and_then(|bucket| Some((bucket, books.pages.take(class)?)));
            let Some((bucket, block)) = made else {
                books.lost += 1;
                return None;
            };
            books.took(block.addr().get(), bucket);
            Some(block)
        })?
    })?;
    if let Some(block) = block {
        probe::alloc(block.addr().get(), u64::from(SIZES[class]), interval);
    }
    after_a_change();
    block
}
