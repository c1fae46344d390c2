//! Blocks with a class, in pages of a program heap (`backend::ownerless`).

use super::{Locked, Made, Refusal, Way};
use crate::backend::arena::SEGMENT;
use crate::backend::check;
use crate::backend::ownerless;
use crate::backend::page::{Block, Kind, Meta};
use crate::base::size_class::{SIZES, span_of};
use crate::harden;
use crate::proto::inbox::Link;
use core::ptr::NonNull;

/// Blocks for a scope.
pub(super) struct Taken {
    /// The first one.
    pub first: NonNull<u8>,
    /// True if the first one is zero.
    pub zero: bool,
    /// The list of the others.
    pub list: *mut Block,
    /// How many there are in all.
    pub taken: u64,
    /// True if the list could go on with one more.
    pub goes_on: bool,
}

impl Locked {
    /// Allocates a block of `class`.
    #[inline(always)]
    pub(super) fn alloc_block(&self, way: Way, class: usize) -> Made {
        let size = u64::from(SIZES[class]);
        self.charge_one(way, size).ok_or(Refusal::Limit)?;
        let made = self.take_block(way, class);
        match made {
            Ok(_) => self.note_peak(),
            Err(_) => self.uncharge(way, 1, size),
        }
        made
    }

    /// Takes a free block of `class`, which was charged.
    #[inline(always)]
    fn take_block(&self, way: Way, class: usize) -> Made {
        let page = match self.pages(way).queues[class].first() {
            Some(page) => page,
            None => self.new_page(way, class)?,
        };
        let taken = ownerless::take(page);
        self.note_in_pages(i64::from(page.block_size.get()));
        if !ownerless::has_room(page) {
            self.set_aside(way, class, page);
        }
        Ok(taken)
    }

    /// Moves a page that has become full.
    #[cold]
    #[inline(never)]
    fn set_aside(&self, way: Way, class: usize, page: &'static Meta) {
        self.pages(way).queues[class].remove(page);
        self.pages(way).full.push(page);
    }

    /// Takes up to `count` blocks of `class` for a scope, as many as the limit allows and as one
    /// list may have.
    pub(super) fn take_some(&self, class: usize, count: u64) -> Result<Taken, Refusal> {
        let size = u64::from(SIZES[class]);
        let count = self.charge(Way::Routed, count, size).ok_or(Refusal::Limit)?;
        let (first, zero) = self
            .take_block(Way::Routed, class)
            .inspect_err(|_| self.uncharge(Way::Routed, count, size))?;
        let (mut list, mut taken) = (core::ptr::null_mut::<Block>(), 1);
        while taken < count && self.goes_on(class, first) {
            let Ok((block, _)) = self.take_block(Way::Routed, class) else { break };
            let block = block.as_ptr().cast();
            // SAFETY: the block is this call's, and has a word at least.
            unsafe { Block::set_next(block, list) };
            list = block;
            taken += 1;
        }
        self.uncharge(Way::Routed, count - taken, size);
        self.note_peak();
        Ok(Taken { first, zero, list, taken, goes_on: self.goes_on(class, first) })
    }

    /// True if a list with the block `first` may have the next free block of `class`. No page is
    /// made for a list. In the hardened build, a link that leads out of its segment is a broken
    /// one.
    fn goes_on(&self, class: usize, first: NonNull<u8>) -> bool {
        let page = self.pages(Way::Routed).queues[class].first();
        page.is_some_and(|page| {
            !harden::has::LINKS || (page.start().addr() ^ first.addr().get()) < SEGMENT
        })
    }

    /// Puts back a block that a scope had on its list.
    ///
    /// # Safety
    /// The block is of this heap, and on no list.
    pub(super) unsafe fn put_back(&self, page: &'static Meta, block: *mut Block) {
        // SAFETY: the caller gives up a block of this heap.
        unsafe { self.push(page, block) };
        self.uncharge(Way::Routed, 1, u64::from(page.block_size.get()));
    }

    /// Makes a page for `class`, the first of its queue.
    #[cold]
    #[inline(never)]
    fn new_page(&self, way: Way, class: usize) -> Result<&'static Meta, Refusal> {
        let (size, span) = (SIZES[class], span_of(SIZES[class]));
        let (page, zero) = self.take_slots(span)?;
        page.open_ownerless(class, size, span, zero);
        self.adopt(way, page, Kind::ProgramPage);
        self.pages(way).queues[class].push(page);
        Ok(page)
    }

    /// Frees a block of `page`.
    ///
    /// # Safety
    /// The page is this heap's. The caller gives up a live block of it.
    #[inline]
    pub(super) unsafe fn free_block(&self, block: *mut Block, page: &'static Meta) {
        check::check_program_block(block, page);
        if harden::ON {
            // SAFETY: the caller gives up the block, which is as long as its class.
            unsafe { harden::wipe_blocks(block.cast(), page.block_size.get() as usize, 1) };
        }
        self.heap.figures.frees.add(1);
        self.discharge(Self::way_of(page), 1, u64::from(page.block_size.get()));
        // SAFETY: the caller gives up a live block of the page.
        unsafe { self.push(page, block) };
    }

    /// Puts a block on the list of its page, and ends the page if it is empty and not the only one
    /// of its queue.
    ///
    /// # Safety
    /// The page is this heap's. The caller gives up a block of it that is on no list.
    #[inline]
    unsafe fn push(&self, page: &'static Meta, block: *mut Block) {
        if !ownerless::has_room(page) {
            self.take_back(page);
        }
        // SAFETY: the block is this call's, and on no list.
        let used = unsafe { ownerless::give(page, block) };
        self.note_in_pages(-i64::from(page.block_size.get()));
        if used == 0 {
            self.end_if_not_needed(page);
        }
    }

    /// Moves a page that is about to be full no more.
    #[cold]
    #[inline(never)]
    fn take_back(&self, page: &'static Meta) {
        let pages = self.pages(Self::way_of(page));
        pages.full.remove(page);
        pages.queues[usize::from(page.class.get())].push_second(page);
    }

    /// Ends an empty page, but for the only one of its queue.
    #[inline(never)]
    fn end_if_not_needed(&self, page: &'static Meta) {
        let queue = &self.pages(Self::way_of(page)).queues[usize::from(page.class.get())];
        if !(queue.is_only(page) && self.heap.is_live()) {
            queue.remove(page);
            self.end(page);
        }
    }

    /// Notes a change of the bytes of blocks that pages have handed out.
    pub(super) fn note_in_pages(&self, change: i64) {
        let in_pages = &self.heap.figures.in_pages;
        in_pages.set(in_pages.get().wrapping_add_signed(change));
    }
}
