//! Frees: by the pointer's arithmetic to its page, to the page's owner, or to whose it is.

use super::note_released;
use crate::backend::arena::{META, SLOT, SLOT_SHIFT};
use crate::backend::owner::Owner;
use crate::backend::page::{self, Block, Kind, Meta, bounds};
use crate::backend::{check, foreign};
use crate::heap::Heap;
use crate::heap::parked;
use crate::large::huge;
use crate::profile::{self, Freed};
use crate::thread::{self, ThreadState};
use crate::{large, purge};

/// Frees `p`, a pointer from this allocator, NULL, or one that is not ours. Leaves errno alone. O(1).
///
/// # Safety
/// If `p` is ours, it is live and the caller's to free.
#[inline(always)]
pub unsafe fn free16(p: *mut u8) {
    if let Some(offset) = bounds::offset16(p.addr()) {
        // SLOT_SHIFT - 4 bits remain of the page's offset; the metadata is META bytes a page.
        let meta = (offset >> (SLOT_SHIFT - 4 - META.ilog2())) & !(META - 1);
        // SAFETY: in range: the metadata of a used segment.
        unsafe {
            let page = bounds::meta(meta);
            if is_own(page) {
                if check::CHECKED && (*page).free.get() == p.cast() {
                    return free_again(p, page);
                }
                if Heap::push_freed(&*page, p.cast()) {
                    free_counted_down(page);
                }
                return;
            }
        }
    }
    // SAFETY: passed on.
    unsafe { free_elsewhere(p) }
}

/// Whether the calling thread has the heap that owns the page, or had when it was parked.
///
/// A relaxed load and a comparison; as one instruction, which the compiler does not make of an atomic load.
///
/// # Safety
/// The metadata of a used segment.
#[cfg(all(target_arch = "x86_64", not(any(miri, shuttle, sanitizer))))]
#[inline(always)]
unsafe fn is_own(page: *const Meta) -> bool {
    const { assert!(page::OWNER_WORD == 0) };
    // SAFETY: reads a word that is readable for ever (`arena` rule 4); that it may change meanwhile: `page` rule 1.
    unsafe {
        core::arch::asm!(
            "cmp {front}, qword ptr [{page}]",
            "jne {other}",
            front = in(reg) thread::front(),
            page = in(reg) page,
            other = label { return false },
            options(readonly, nostack)
        );
    }
    true
}

/// See above.
///
/// # Safety
/// As above.
#[cfg(not(all(target_arch = "x86_64", not(any(miri, shuttle, sanitizer)))))]
#[inline(always)]
unsafe fn is_own(page: *const Meta) -> bool {
    // SAFETY: passed on.
    core::ptr::eq(thread::front(), unsafe { (*page).owner_word() }.cast())
}

/// Frees a block whose size was at most `MEDIUM_MAX` and whose alignment may be 8: it is ours for certain.
///
/// # Safety
/// `p` is from this allocator, live, and the caller's to free.
#[inline(always)]
pub unsafe fn free_known(p: *mut u8) {
    if let Some(offset) = bounds::offset(p.addr()) {
        // SAFETY: as in `free16`.
        unsafe {
            let page = bounds::meta((offset >> SLOT_SHIFT) * META);
            if is_own(page) {
                if check::CHECKED && (*page).free.get() == p.cast() {
                    return free_again(p, page);
                }
                if Heap::push_freed(&*page, p.cast()) {
                    free_counted_down(page);
                }
                return;
            }
        }
    }
    // SAFETY: passed on.
    unsafe { free_found(p, 0) }
}

/// The countdown of a page of this thread is over.
///
/// # Safety
/// As [`Heap::push_freed`], which said so.
#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
unsafe extern "C" fn free_counted_down(page: *const Meta) {
    // SAFETY: the caller found the page by arithmetic, and that this thread has the heap that owns it.
    let (page, heap) = unsafe { (&*page, &*(*page).owner().cast::<Heap>()) };
    heap.counted_down(page);
    if heap.released.get() {
        note_released(heap);
    }
}

/// `p` is what was freed last in its page. The compiler does not see that this never returns: so the fast path ends by a jump, and
/// needs no stack.
///
/// # Safety
/// The metadata of a page of blocks.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[cold]
#[unsafe(naked)]
unsafe extern "C" fn free_again(p: *mut u8, page: *const Meta) {
    core::arch::naked_asm!("push rax", "call {inner}", inner = sym freed_twice);
}

/// The same.
///
/// # Safety
/// As above.
#[cfg(miri)]
unsafe extern "C" fn free_again(p: *mut u8, page: *const Meta) {
    // SAFETY: passed on.
    unsafe { freed_twice(p, page) }
}

/// See above.
///
/// # Safety
/// The metadata of a page of blocks.
unsafe extern "C" fn freed_twice(p: *mut u8, page: *const Meta) -> ! {
    // SAFETY: passed on.
    check::double_free(p, unsafe { &*page })
}

/// Remembers the caller for the report on foreign frees: reached by a jump from `free`, whose return address is on top
/// of the stack.
///
/// # Safety
/// As [`free16`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[cold]
#[unsafe(naked)]
#[unsafe(link_section = ".text.hot.hakmem")]
unsafe extern "C" fn free_elsewhere(p: *mut u8) {
    core::arch::naked_asm!("mov rsi, qword ptr [rsp]", "jmp {inner}", inner = sym free_found);
}

/// The same without the caller's address.
///
/// # Safety
/// As [`free16`].
#[cfg(miri)]
unsafe extern "C" fn free_elsewhere(p: *mut u8) {
    // SAFETY: passed on.
    unsafe { free_found(p, 0) }
}

/// Frees `p`, whatever it is, for the caller at `site`; 0: that is not known. Whether it is where a block starts is looked at where
/// the block goes.
///
/// # Safety
/// As [`free16`].
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
unsafe extern "C" fn free_found(p: *mut u8, site: usize) {
    let Some(meta) = page::lookup(p) else {
        // SAFETY: passed on.
        return unsafe { free_foreign(p, site) };
    };
    // Only pages of blocks have owners: for the most of what comes here one line of metadata is enough.
    let page = meta.head_of_block();
    let owner = page.owner();
    if owner.is_null() {
        // SAFETY: passed on.
        return unsafe { free_whole(p, meta) };
    }
    // SAFETY: a block of a page that has an owner.
    unsafe { free_block(page, owner, p.cast()) };
}

/// NULL, or a pointer that is not ours.
///
/// # Safety
/// As [`free16`].
#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
unsafe fn free_foreign(p: *mut u8, site: usize) {
    if !p.is_null() {
        // SAFETY: passed on.
        unsafe { foreign::free(p, site) };
    }
}

/// Frees a large block or a huge block, in the slot of `meta`.
///
/// # Safety
/// As [`free16`].
#[inline(never)]
unsafe fn free_whole(p: *mut u8, meta: &'static Meta) {
    let kind = meta.kind();
    // They start where their first slot does; the others have no kind.
    // Under `bench-fast` too: samples of the profile come here.
    if !matches!(kind, Kind::Large | Kind::Huge) || !p.addr().is_multiple_of(SLOT) {
        // SAFETY: passed on.
        return unsafe { free_odd(p, meta) };
    }
    // SAFETY: the start of a live allocation, and the caller's to free.
    unsafe {
        if kind == Kind::Large
            && let ThreadState::Live(heap) = thread::state()
        {
            if heap.free_large(meta) {
                purge::tick();
            }
            return;
        }
        free_whole_slow(meta, kind);
    }
}

/// Frees a sample of the profile: anything else that comes here is no block.
///
/// # Safety
/// As [`free16`].
#[cold]
#[inline(never)]
unsafe fn free_odd(p: *mut u8, meta: &'static Meta) {
    // SAFETY: passed on.
    unsafe {
        match profile::freed(p, meta) {
            Freed::Done => {}
            Freed::Unmarked => free_whole(p, meta),
            Freed::NoSample => check::not_a_block(p, Some(meta)),
        }
    }
}

/// Frees a huge block, or a large block from a thread that has no heap.
///
/// # Safety
/// It is live and the caller's to free.
#[inline(never)]
unsafe fn free_whole_slow(meta: &'static Meta, kind: Kind) {
    // SAFETY: passed on.
    let released = unsafe {
        match kind {
            Kind::Large => large::free(None, meta),
            _ => huge::free(meta) > 0,
        }
    };
    if released {
        purge::tick();
    }
}

/// Frees a block of a page, which may be this thread's: a medium one, or in a further arena.
///
/// # Safety
/// The block is live, of `page`, whose heap is `owner`, and the caller's to free.
#[inline(always)]
unsafe fn free_block(page: &'static Meta, owner: *mut Owner, block: *mut Block) {
    // SAFETY: passed on; the owner is this thread's heap, whose front is its beginning.
    unsafe {
        if core::ptr::eq(thread::front(), owner.cast()) {
            if (*owner.cast::<Heap>()).push_kept(page, block) {
                free_counted_down(page);
            }
            return;
        }
        free_other(page, owner, block);
    }
}

/// Frees a block of a page that is no heap's.
///
/// # Safety
/// As [`free_block`].
#[cold]
#[inline(never)]
unsafe fn free_shared(heap: &Heap, page: &'static Meta, block: *mut Block) {
    // SAFETY: passed on.
    unsafe {
        if !heap.free_shared(page, block) {
            heap.free_remote(page, block);
        }
    }
    if heap.released.get() {
        note_released(heap);
    }
}

/// Frees a block of another heap's page.
///
/// # Safety
/// As [`free_block`].
#[inline(never)]
unsafe fn free_other(page: &'static Meta, owner: *mut Owner, block: *mut Block) {
    // SAFETY: passed on.
    unsafe {
        match thread::state() {
            ThreadState::Live(heap) if heap.is_sharing() && core::ptr::eq(owner, parked::owner()) => {
                free_shared(heap, page, block);
            }
            ThreadState::Live(heap) => heap.free_remote(page, block),
            // Its first call, and others will follow: it gets a heap for its batches. That may be the owner, unless the
            // page was parked before the heap was had.
            ThreadState::Empty if thread::with_heap(|_| Some(())).is_some() => free_block(page, page.owner(), block),
            // A thread without a heap sends the block by itself.
            ThreadState::Empty | ThreadState::Dead => Heap::send_one(page, owner, block),
        }
    }
}
