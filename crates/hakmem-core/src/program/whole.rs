//! Blocks without a class: whole slots up to 1 MiB, whole segments above.

use super::{Locked, Made, ProgramHeap, Refusal, Way};
use crate::backend::arena::{SEGMENT, SLOT};
use crate::backend::check;
use crate::backend::nodes;
use crate::backend::page::{Kind, Meta};
use crate::base::size_class::CLASSES;
use crate::base::sync::Ordering::Relaxed;
use crate::large::{LARGE_MAX, huge};
use core::ptr::NonNull;

impl Locked {
    /// Allocates a block of `n` bytes at a multiple of `align`, of whole slots or segments.
    pub(super) fn alloc_whole(&self, way: Way, n: usize, align: usize) -> Made {
        if n > huge::TOO_LARGE || align > huge::TOO_LARGE {
            return Err(Refusal::Memory);
        }
        let is_large = n <= LARGE_MAX && align <= SLOT;
        let unit = if is_large { SLOT } else { SEGMENT };
        let size = n.max(1).next_multiple_of(unit);
        self.charge(way, 1, size as u64).ok_or(Refusal::Limit)?;
        let made =
            if is_large { self.alloc_large(way, size) } else { self.alloc_huge(way, n, align) };
        let Ok((head, zero)) = made else {
            self.uncharge(way, 1, size as u64);
            return Err(Refusal::Memory);
        };
        self.note_peak();
        self.pages(way).full.push(head);
        // SAFETY: the address lies in an arena, so it is not null.
        Ok((unsafe { NonNull::new_unchecked(head.start()) }, zero))
    }

    fn alloc_large(&self, way: Way, size: usize) -> Result<(&'static Meta, bool), Refusal> {
        let span = (size / SLOT) as u32;
        let (head, zero) = self.take_slots(span)?;
        head.span.store(span, Relaxed);
        head.block_size.set(size as u32);
        head.class.set(CLASSES as u8);
        self.adopt(way, head, Kind::ProgramLarge);
        Ok((head, zero))
    }

    fn alloc_huge(
        &self,
        way: Way,
        n: usize,
        align: usize,
    ) -> Result<(&'static Meta, bool), Refusal> {
        let (head, zero) = huge::alloc(n, align, false, nodes::here()).ok_or(Refusal::Memory)?;
        self.note_held(huge::size(head) as i64);
        self.adopt(way, head, Kind::ProgramHuge);
        Ok((head, zero))
    }

    /// Frees a large or huge block.
    ///
    /// # Safety
    /// It is a live block of this heap, and the caller gives it up.
    pub(super) unsafe fn free_whole(&self, p: *mut u8, head: &'static Meta) {
        if check::CHECKED && p != head.start() {
            check::not_a_block(p, Some(head));
        }
        let size = super::room(head) as u64;
        self.heap.figures.frees.add(1);
        self.discharge(Self::way_of(head), 1, size);
        self.pages(Self::way_of(head)).full.remove(head);
        self.end(head);
    }

    /// Makes a huge block hold `n` bytes, more than a large block has: see [`huge::resize`].
    ///
    /// # Safety
    /// It is a live huge block of this heap. Nobody else uses it during the call, nor the bytes
    /// behind `n` afterwards.
    unsafe fn resize_huge(&self, head: &'static Meta, n: usize) -> Result<&'static Meta, Refusal> {
        let way = Self::way_of(head);
        let old = huge::size(head) as u64;
        let more = (n.next_multiple_of(SEGMENT) as u64).saturating_sub(old);
        if more > 0 {
            self.charge_bytes(way, more).ok_or(Refusal::Limit)?;
        }
        self.pages(way).full.remove(head);
        head.set_kind(Kind::Huge);
        // SAFETY: the caller says that this is a live huge block of the heap that nobody else uses,
        // nor the bytes behind `n` afterwards. It was just taken out of its list.
        let moved = unsafe { huge::resize(head, n) };
        let now = moved.unwrap_or(head);
        self.adopt(way, now, Kind::ProgramHuge);
        self.pages(way).full.push(now);
        let size = huge::size(now) as u64;
        self.note_held(size as i64 - old as i64);
        self.discharge_bytes(way, old + more - size);
        self.note_peak();
        moved.ok_or(Refusal::Memory)
    }

    /// Gives a huge block back that is in no list.
    pub(super) fn end_huge(&self, head: &'static Meta) {
        self.note_held(-(huge::size(head) as i64));
        head.remote_link.set(core::ptr::null_mut());
        // SAFETY: the block is this heap's, and who had it gave it up.
        unsafe { huge::free(head) };
    }
}

impl ProgramHeap {
    /// Makes a block hold `n` bytes without a copy, and returns its address, a multiple of `align`,
    /// which is the block's alignment. For the profile it is then a new allocation, which the
    /// caller may sample. None: nothing has changed. O(1), and the moves of page tables.
    ///
    /// # Safety
    /// [`super::of`] gave `head` and this heap for the block. It is live, and nobody else uses it
    /// during the call, nor the bytes behind `n` afterwards.
    pub unsafe fn resize(
        &'static self,
        head: &'static Meta,
        n: usize,
        align: usize,
    ) -> Option<*mut u8> {
        let is_huge =
            head.kind() == Kind::ProgramHuge && (LARGE_MAX + 1..=huge::TOO_LARGE).contains(&n);
        // A huge block that moves goes to a multiple of SEGMENT.
        if !is_huge || align > SEGMENT {
            return None;
        }
        let locked = self.lock().ok()?;
        let (way, at) = (Locked::way_of(head), head.start());
        let sample = locked.take_sample(at, head);
        // SAFETY: the kind says that it is a huge block. The caller says that it is a live one of
        // this heap, and that nobody else uses it, nor the bytes behind `n` afterwards.
        let resized = unsafe { locked.resize_huge(head, n) };
        if let Some(sample) = sample {
            if resized.is_ok() {
                sample.let_go(at.addr());
                drop(locked);
                sample.freed();
            } else {
                // Its place is free.
                locked.with_samples(way, |samples| samples.put(at.addr(), sample));
            }
        }
        resized.ok().map(Meta::start)
    }
}

/// Makes the first `n` bytes of a block zero that `zero` does not say to be zero, or all of it if
/// `all`.
///
/// # Safety
/// [`super::ProgramHeap::alloc`] has just returned the block for `n` bytes.
pub unsafe fn clear(p: NonNull<u8>, n: usize, all: bool) {
    let Some((_, head)) = super::of(p.as_ptr()) else { return };
    // SAFETY: the block is the caller's, has `n` bytes, and as many as `room` says.
    unsafe {
        match head.kind() {
            Kind::ProgramHuge => huge::clear(head, n, all),
            _ => p.write_bytes(0, if all { super::room(head) } else { n }),
        }
    }
}
