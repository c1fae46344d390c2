//! The calls that name a program heap, for both front ends. In the hardened build their blocks have
//! tags, as all blocks have.

use crate::api::front::{self, Clear};
use crate::api::hardened;
use crate::backend::check;
use crate::backend::page::{Kind, Meta};
use crate::base::size_class::{self, MEDIUM_MAX};
use crate::guard;
use crate::harden;
use crate::harden::tag::{self, Origin};
use crate::heap::peak;
use crate::profile;
use crate::program::{self, ProgramHeap, Refusal, Way};
use core::ptr::NonNull;

/// The class of a request. Wiping needs blocks that are aligned to 16.
fn class_of(n: usize, align: usize) -> Option<usize> {
    let align = if harden::ON { align.max(16) } else { align };
    match align {
        _ if n > MEDIUM_MAX => None,
        ..=8 => Some(size_class::of8(n)),
        9..=16 => Some(size_class::of16(n)),
        _ => size_class::of_aligned(n, align),
    }
}

/// The bytes of a block for a request of `size`.
fn total(size: usize) -> Option<usize> {
    if harden::ON {
        Some(size.checked_add(tag::BYTES)?.max(tag::LEAST_BLOCK))
    } else {
        Some(size.max(1))
    }
}

/// Allocates a block of `size` bytes at a multiple of `align`, a power of two.
#[inline(always)]
pub fn allocate(
    heap: &'static ProgramHeap,
    size: usize,
    align: usize,
    clear: Clear,
    origin: Origin,
) -> Result<NonNull<u8>, Refusal> {
    let total = total(size).ok_or(Refusal::Memory)?;
    let (block, zero) = front::alloc_of(heap, Way::Own, total, align, class_of(total, align))?;
    if clear != Clear::Nothing && !zero {
        // SAFETY: the block was just allocated for `total` bytes.
        unsafe { program::clear(block, total, clear == Clear::Block) };
    }
    if harden::ON
        && let Some((_, head)) = program::of(block.as_ptr())
    {
        // SAFETY: the block was just allocated, with room for the tag.
        unsafe { hardened::prepare(block.as_ptr(), head, size, origin) };
    }
    Ok(block)
}

/// The metadata of the page or block of `p`. None: it lies in a guarded place. Ends the process if
/// it is not of this heap.
fn head_of(heap: &'static ProgramHeap, p: *mut u8) -> Option<&'static Meta> {
    match program::of(p) {
        Some((of, head)) if core::ptr::eq(of, heap) => Some(head),
        // What is no block there is reported by who takes it for one.
        None if guard::has(p) && guard::owner(p).is_none_or(|owner| heap.is_owner(owner)) => None,
        _ => check::not_of_heap(p),
    }
}

/// Frees a block of the heap. `size` is what the caller says of its size, if it does.
///
/// # Safety
/// If `p` is a block of the heap, it is live, and the caller's to free.
pub unsafe fn free(heap: &'static ProgramHeap, p: *mut u8, by: Origin, size: Option<usize>) {
    let Some(head) = head_of(heap, p) else { return front::free_guarded(p) };
    // SAFETY: the caller gives up a live block.
    unsafe {
        if harden::ON {
            let Some(live) = hardened::checked(p, head, Some((by, size))) else { return };
            tag::clear(p, live.room);
        }
        front::free_of(heap, p, head);
    }
}

/// Changes a block of the heap, which has `size` bytes if that is known, to `new` bytes at a
/// multiple of `align`, its alignment. An error: nothing has changed.
///
/// # Safety
/// If `p` is a block of the heap, it is live and the caller's.
pub unsafe fn reallocate(
    heap: &'static ProgramHeap,
    p: *mut u8,
    size: Option<usize>,
    new: usize,
    align: usize,
    by: Origin,
) -> Result<NonNull<u8>, Refusal> {
    let Some(head) = head_of(heap, p) else {
        let held = guard::size(p);
        let to = match allocate(heap, new, align, Clear::Nothing, by) {
            // A block that shall shrink can stay.
            Err(_) if new <= held => return NonNull::new(p).ok_or(Refusal::Memory),
            made => made?,
        };
        // SAFETY: the caller has a live block, of `held` bytes. The new one has `new`.
        unsafe { to.as_ptr().copy_from_nonoverlapping(p, held.min(new)) };
        front::free_guarded(p);
        return Ok(to);
    };
    // SAFETY: the caller has a live block, whose bytes are `held`. A new one has `new`.
    unsafe {
        let (room, total) = (program::room(head), total(new).ok_or(Refusal::Memory)?);
        let (mut held, fits) = (room, front::fits(room, total));
        let is_block = match head.kind() {
            Kind::ProgramPage => check::is_block_of(head, p.cast()),
            _ => p == head.start(),
        };
        if !is_block {
            check::not_of_heap(p); // It came before a reset, say.
        }
        let mut live = None;
        if harden::ON {
            live = hardened::checked(p, head, Some((by, size)));
            held = live.as_ref().ok_or(Refusal::Memory)?.size;
        }
        let resized = || {
            let at = heap.resize(head, total, align)?;
            front::keep_limit_of(heap);
            peak::follow();
            // As in `hardened::realloc`: a tag tells so many bytes behind the request at most.
            let is_told = |(_, head)| program::room(head) - total <= u32::MAX as usize;
            if harden::ON && !program::of(at).is_some_and(is_told) {
                return None;
            }
            if profile::is_on() {
                front::sample_of(heap, Way::Own, NonNull::new_unchecked(at));
            }
            Some(at)
        };
        let at = if fits {
            p
        } else if let Some(at) = resized() {
            at
        } else {
            match allocate(heap, new, align, Clear::Nothing, by) {
                Ok(to) => {
                    let from = NonNull::new_unchecked(p);
                    to.copy_from_nonoverlapping(from, held.min(size.unwrap_or(held)).min(new));
                    free(heap, p, by, size);
                    return Ok(to);
                }
                // A block that is to shrink can stay. A tag tells so many bytes at most.
                Err(_) if total <= room && (!harden::ON || room - total <= u32::MAX as usize) => p,
                // The failed allocation has given back what was free.
                Err(Refusal::Memory) => resized().ok_or(Refusal::Memory)?,
                Err(why) => return Err(why),
            }
        };
        if let Some(live) = &live
            && let Some((_, head)) = program::of(at)
        {
            hardened::forget_end(at, live, new);
            tag::rewrite(at, program::room(head), new, by);
        }
        Ok(NonNull::new_unchecked(at))
    }
}

/// Reserves memory for the heap: see [`ProgramHeap::reserve`].
pub fn reserve(heap: &'static ProgramHeap, bytes: usize) -> Result<(), Refusal> {
    heap.reserve(bytes)?;
    front::keep_limit_of(heap);
    Ok(())
}
