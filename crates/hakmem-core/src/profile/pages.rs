//! Pages for the blocks of sampled allocations up to 64 KiB. They have no owner, so a free of such
//! a block takes a slow path.
//!
//! A page has one class, laid out as a heap's page is, so that alignments hold
//! (`backend::ownerless`).

use super::asked::after_a_change;
use super::probe;
use super::sampler::Sampler;
use super::table::with_books;
use crate::backend::check;
use crate::backend::ownerless;
use crate::backend::page::queue::PageQueue;
use crate::backend::page::{Block, Meta};
use crate::backend::segment;
use crate::base::size_class::{CLASSES, SIZES, span_of};
use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::AtomicU64;
use crate::os;
use core::ptr::NonNull;

/// Sampled blocks of each class that were freed, in all.
static RETURNED: [AtomicU64; CLASSES] = [const { AtomicU64::new(0) }; CLASSES];

/// Sampled blocks of `class` that were freed.
pub fn returned(class: usize) -> u64 {
    RETURNED[class].load(Relaxed)
}

/// Pages with a free block, by class. The lock of the books guards them (rule 1 of `profile`).
pub struct Pages {
    queues: [PageQueue; CLASSES],
}

impl Pages {
    /// A set without pages.
    pub const fn new() -> Self {
        Self { queues: [const { PageQueue::new() }; CLASSES] }
    }

    /// Takes a block of `class`. None: out of memory.
    fn take(&mut self, class: usize) -> Option<NonNull<Block>> {
        let queue = &self.queues[class];
        let page = match queue.first() {
            Some(page) => page,
            None => {
                let (size, span) = (SIZES[class], span_of(SIZES[class]));
                let (page, zero) = segment::claim_anywhere(span)?;
                page.open_ownerless(class, size, span, zero);
                queue.push(page);
                page
            }
        };
        let (block, _) = ownerless::take(page);
        if !ownerless::has_room(page) {
            queue.remove(page);
        }
        Some(block.cast())
    }

    /// Puts a block back. Returns its size.
    ///
    /// # Safety
    /// `take` gave it from `page`. Nobody uses it any more, and nobody has put it back yet.
    pub unsafe fn give(&mut self, page: &Meta, block: *mut Block) -> u64 {
        let class = usize::from(page.class.get());
        let queue = &self.queues[class];
        RETURNED[class].fetch_add(1, Relaxed);
        let was_full = !ownerless::has_room(page);
        // SAFETY: by the caller's promise nobody uses the block any more, and it is on no list.
        match (unsafe { ownerless::give(page, block) }, was_full) {
            // The only page of the class is kept: a program frees most samples before the next one
            // is taken.
            (0, false) if queue.is_only(page) => {}
            (0, _) => {
                if !was_full {
                    queue.remove(page);
                }
                let span = page.span.load(Relaxed);
                page.close();
                // SAFETY: all blocks of the page are free, the page is closed, and it is in no
                // list: nobody has a pointer to its memory. The books own its slots.
                unsafe { segment::release(page, span) };
            }
            (..0, _) => check::double_free(block.cast(), page),
            (_, true) => queue.push(page),
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
