//! Frees: from the pointer to the slot by arithmetic, from the slot to the owner of its page, and
//! there.
//!
//! ```text
//! free16 ──┬── free_own ─────── countdown_over        a block of one of this thread's pages; the
//!          │                                          countdown is that of its page or of a list
//!          ├── free_in ──┬───── keep_remote           a block of another owner's page: stays here
//!          │             ├───── free_remote           the same: is sent, or stays, too
//!          │             └───── free_whole            a large, huge or sampled block
//!          └── free_slow ──┬─── free_in               a block of a further arena
//!                          ├─── guard::free           a block in a guarded place
//!                          └─── foreign::free         a pointer that is not ours
//! ```
//!
//! Rules
//! 1. A caller of `free16` with a pointer of ours gives up a live block: nobody reads, writes or
//!    frees it from the call on.
//! 2. While a block is live its segment is in use, and its page has the class and the size that it
//!    was carved with. So the metadata that its address leads to is accessible and says what the
//!    block is.
//! 3. A page whose owner is this thread's heap stays so during the call: only the thread itself
//!    gives a page away. The purge may name another owner for a moment (`reclaim::sleeping` rule
//!    3). So a free may find another owner, and read the word again. It acts by its last read
//!    alone.
//! 4. A free onto the heap's list checks only that the block is not the first one there. The malloc
//!    that takes the block, or the free that passes it on to its page, checks that a block starts
//!    there.
//! 5. A program may break rule 1. What is checked here ends the process with a line that says why;
//!    the rest is undefined.

use super::free_remote::{free_remote, keep_remote};
use super::free_whole::{free_guarded, free_large, free_whole};
use super::note_released;
use crate::backend::arena::{META, SLOT, SLOT_SHIFT};
use crate::backend::list::List;
use crate::backend::owner::Owner;
use crate::backend::page::{self, Block, Kind, Meta, bounds};
use crate::backend::{check, foreign};
use crate::base::size_class::FIRST_LONG;
use crate::heap::{Beyond, Heap};
use crate::proto::inbox::Link;
use crate::{guard, harden, thread};

/// Frees `p`, a pointer from this allocator, NULL, or one that is not ours. Leaves errno alone.
/// O(1).
///
/// # Safety
/// If `p` is ours, it is live and the caller's to free.
#[inline(always)]
pub unsafe fn free16(p: *mut u8) {
    if let Some(offset) = bounds::offset16(p.addr()) {
        // SLOT_SHIFT - 4 bits remain of the offset in the slot; the metadata of a slot has META
        // bytes.
        let meta = (offset >> (SLOT_SHIFT - 4 - META.ilog2())) & !(META - 1);
        // SAFETY: the offset is within the first arena, and the block is live (rule 1): so the
        // metadata is accessible (rule 2).
        unsafe {
            let page = bounds::meta(meta);
            if is_own(page) {
                return free_own(p, page);
            }
            return free_in(p, page);
        }
    }
    // SAFETY: the caller gives up a live block, or `p` is not ours (rule 1).
    unsafe { free_slow_from_caller(p) }
}

/// Frees a block whose size was at most `MEDIUM_MAX` and whose alignment may be 8: it is ours for
/// certain.
///
/// # Safety
/// `p` is from this allocator, live, and the caller's to free.
#[inline(always)]
pub unsafe fn free_known(p: *mut u8) {
    if let Some(offset) = bounds::offset(p.addr()) {
        // SAFETY: the offset is within the first arena, and the caller's block is live: so the
        // metadata of its slot is accessible (rule 2).
        unsafe {
            let page = bounds::meta((offset >> SLOT_SHIFT) * META);
            if is_own(page) {
                return free_own(p, page);
            }
        }
    }
    // SAFETY: the caller gives up a live block (rule 1).
    unsafe { free_slow(p, 0) }
}

/// The page of the block at `p`, if the calling thread's heap owns it, and the block starts in the
/// first slot of it. None: that is not so, or `p` is not aligned to 16.
///
/// # Safety
/// If `p` is ours, a block was allocated there.
#[inline(always)]
pub unsafe fn own_page(p: *mut u8) -> Option<&'static Meta> {
    let offset = bounds::offset16(p.addr())?;
    let meta = (offset >> (SLOT_SHIFT - 4 - META.ilog2())) & !(META - 1);
    // SAFETY: the offset is within the first arena, where the caller says that a block was
    // allocated: so the slot has metadata, which stays accessible for ever (`arena` rule 4).
    unsafe {
        let page = bounds::meta(meta);
        (is_own(page) && (*page).is_first()).then(|| &*page)
    }
}

/// True if the calling thread has the heap that owns the page.
///
/// A relaxed load and a comparison; as one instruction, which the compiler does not make of an
/// atomic load.
///
/// # Safety
/// The metadata of a used segment.
#[cfg(all(target_arch = "x86_64", not(any(miri, shuttle, sanitizer))))]
#[inline(always)]
unsafe fn is_own(page: *const Meta) -> bool {
    // SAFETY: reads a word that is readable for ever (`arena` rule 4); that it may change
    // meanwhile: `page` rule 6.
    unsafe {
        core::arch::asm!(
            "cmp {front}, qword ptr [{page} + {word}]",
            "jne {other}",
            front = in(reg) thread::front(),
            page = in(reg) page,
            word = const page::OWNER_WORD,
            other = label { return false },
            options(readonly, nostack)
        );
    }
    true
}

/// The same for checkers, which read no assembly, and for processors that load and then compare.
///
/// # Safety
/// The metadata of a used segment.
#[cfg(not(all(target_arch = "x86_64", not(any(miri, shuttle, sanitizer)))))]
#[inline(always)]
unsafe fn is_own(page: *const Meta) -> bool {
    // SAFETY: metadata of a used segment is accessible for ever (`arena` rule 4).
    core::ptr::eq(thread::front(), unsafe { (*page).owner_word() }.cast())
}

/// Frees a block of a page that this thread's heap owns, onto the list that the page says: its own
/// one, or that of the heap for blocks above `SMALL_MAX` and for the page that the heap's list is
/// of. So no branch asks which of them it is: a program that frees blocks of many sizes makes that
/// hard to predict.
///
/// # Safety
/// [`is_own`] said so of `page`, the slot that `p` lies in; `p` is live and the caller's to free.
#[inline(always)]
pub unsafe fn free_own(p: *mut u8, page: *const Meta) {
    // SAFETY: the page is this thread's, and stays so (rule 3). So `give_to` or `free::current` set
    // `frees_to`, and the list is this thread's to write. The block is free from now on (rule 1).
    unsafe {
        let list = (*page).frees_to.glance();
        let first = (*list).free.get();
        if check::CHECKED && first == p.cast() {
            return freed_wrongly_from_caller(p, page);
        }
        if (*list).push(p.cast(), first) {
            countdown_over(list, page);
        }
    }
}

/// The countdown of `list`, to which a block in the slot of `page` was freed, is over.
///
/// A signal handler may have forked in the middle of the free. Then the child's thread may have no
/// heap now, or another one, and the list is nobody's.
///
/// # Safety
/// [`List::push`] has just said so. The list is one of this thread's heap, or of a page that the
/// heap owns, unless this is such a child. `page` is metadata of a slot of a page.
#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
unsafe extern "C" fn countdown_over(list: *const List, page: *const Meta) {
    let Some(heap) = thread::heap() else { return };
    // SAFETY: metadata is accessible for ever (`arena` rule 4).
    let page = unsafe { &*page }.listed_head();
    if !core::ptr::eq(list, &raw const page.list) {
        let Some(class) = heap.class_of_list(list) else { return };
        if class < FIRST_LONG {
            heap.current_over(class);
            if heap.has_released() {
                note_released(heap);
            }
            return;
        }
        // Half of the list goes, so that the next frees find room: to pass on one block costs as
        // much as to pass on several of a page.
        // SAFETY: the list is of this thread's heap.
        let room = unsafe { (*list).most.get() / 2 }.max(1);
        while let Some(beyond) = heap.take_beyond(class, room) {
            // SAFETY: the blocks were on the heap's list, beyond what that takes, and are this
            // call's now. The owner was read from their page after that.
            unsafe { free_beyond(beyond, heap) };
        }
    } else {
        heap.counted_down(page);
    }
    if heap.has_released() {
        note_released(heap);
    }
}

/// Frees blocks that the list of this thread's `heap` has no room for: onto the list of their page,
/// or as blocks of another owner.
///
/// # Safety
/// The blocks were freed, and are on no list.
#[inline(always)]
unsafe fn free_beyond(beyond: Beyond, heap: &Heap) {
    let page = beyond.page;
    // SAFETY: the blocks are this call's. If the page is this thread's, it stays so (rule 3).
    unsafe {
        if beyond.owner != heap.owner() {
            return free_beyond_remote(beyond.first, beyond.count, page, beyond.owner);
        }
        if Heap::push_chain(&beyond) {
            heap.counted_down(page);
        }
    }
}

/// [`free_beyond`] for `count` blocks of another owner, linked from `block` on.
///
/// # Safety
/// As [`free_beyond`]. The blocks are of `page`, whose owner was `owner`.
#[cold]
#[inline(never)]
unsafe fn free_beyond_remote(
    mut block: *mut Block,
    count: i32,
    page: &'static Meta,
    owner: *mut Owner,
) {
    for left in (0..count).rev() {
        // SAFETY: the chain has that many blocks, and each but the last has a link. They are this
        // call's to free.
        unsafe {
            let next = if left == 0 { block } else { Block::next(block) };
            free_remote(block, page, owner);
            block = next;
        }
    }
}

/// Ends the process: `p` is free, or no block. The compiler does not see that this never returns.
/// So the fast paths end by a jump, and need no stack.
///
/// # Safety
/// The metadata of a page of blocks.
#[cfg(not(miri))]
#[cold]
#[unsafe(naked)]
unsafe extern "C" fn freed_wrongly_from_caller(p: *mut u8, page: *const Meta) {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        // The report has the stack of the caller.
        ".cfi_startproc",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "call {inner}",
        ".cfi_endproc",
        inner = sym freed_wrongly
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!("b {inner}", inner = sym freed_wrongly);
}

/// The same for Miri, which reads no assembly.
///
/// # Safety
/// The metadata of a page of blocks.
#[cfg(miri)]
unsafe extern "C" fn freed_wrongly_from_caller(p: *mut u8, page: *const Meta) {
    // SAFETY: the caller's page is one of blocks.
    unsafe { freed_wrongly(p, page) }
}

/// Ends the process: `p` is what was freed last in its page or heap, or no block starts there.
///
/// # Safety
/// The metadata of a page of blocks.
unsafe extern "C" fn freed_wrongly(p: *mut u8, page: *const Meta) -> ! {
    // SAFETY: metadata is accessible for ever (`arena` rule 4).
    let page = unsafe { &*page }.listed_head();
    check::check_start(p.cast(), page);
    check::double_free(p, page)
}

/// [`free_slow`] that knows the caller, for the report on foreign pointers. `free` reaches it by a
/// jump, so that the return address of `free` is on top of the stack, or in the link register.
/// `realloc` of 0 bytes and `reallocf` call `free`: then the address is one of hakmem's code.
///
/// # Safety
/// As [`free16`].
#[cfg(not(miri))]
#[cold]
#[unsafe(naked)]
#[unsafe(link_section = ".text.hot.hakmem")]
unsafe extern "C" fn free_slow_from_caller(p: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!("mov rsi, qword ptr [rsp]", "jmp {inner}", inner = sym free_slow);
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!("mov x1, x30", "b {inner}", inner = sym free_slow);
}

/// The same without the caller's address, for Miri.
///
/// # Safety
/// As [`free16`].
#[cfg(miri)]
unsafe extern "C" fn free_slow_from_caller(p: *mut u8) {
    // SAFETY: the caller says that `p`, if it is ours, is live and given up. `free_slow` asks for
    // no more.
    unsafe { free_slow(p, 0) }
}

/// Frees `p`, whatever it is, for the caller at `site`; 0: that is not known. Whether a block
/// starts at `p` is checked where the block goes.
///
/// # Safety
/// As [`free16`].
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
pub unsafe extern "C" fn free_slow(p: *mut u8, site: usize) {
    let Some(meta) = page::lookup(p) else {
        if guard::has(p) {
            free_guarded(p);
        } else if !p.is_null() {
            // SAFETY: no arena has `p`; whose it is gets it as its program gave it up.
            unsafe { foreign::free(p, site) };
        }
        return;
    };
    // SAFETY: `p` is in the slot of `meta`, and given up (rule 1).
    unsafe { free_in(p, meta) };
}

/// Frees `p`, in the slot of `meta`, whatever starts there.
///
/// # Safety
/// As [`free16`]; `meta` is the metadata of the slot that `p` lies in.
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
unsafe extern "C" fn free_in(p: *mut u8, meta: *const Meta) {
    // SAFETY: metadata of a used segment is accessible for ever (`arena` rule 4).
    let meta = unsafe { &*meta };
    // Only pages of blocks have owners: for the most of what comes here one line of metadata is
    // enough.
    if meta.has_no_owner() {
        // A block of whole slots starts where its first slot does; the other slots have no kind.
        if meta.is(Kind::Large)
            && p.addr().is_multiple_of(SLOT)
            && let Some(heap) = thread::heap()
        {
            // SAFETY: a large block starts at `p`. It is live and given up (rule 1).
            return unsafe { free_large(p, meta, heap) };
        }
        // SAFETY: the block is live, in the slot of `meta`, and given up (rule 1).
        return unsafe { free_whole(p, meta) };
    }
    // SAFETY: the block is live, of the slot's page, and given up (rule 1).
    unsafe { free_in_page(p, meta) };
}

/// Frees `p`, a block of a page with an owner.
///
/// # Safety
/// As [`free16`]; `meta` is the metadata of the slot that `p` lies in, which is of such a page.
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
pub unsafe extern "C" fn free_in_page(p: *mut u8, meta: &'static Meta) {
    let (page, owner, is_listed) = meta.page_and_owner();
    // SAFETY: the block is live, of `page`, and given up (rule 1). A page with an owner has blocks
    // of one size.
    unsafe {
        if !core::ptr::eq(thread::front(), owner.cast()) {
            if is_listed && keep_remote(p.cast(), page, owner) {
                return;
            }
            free_remote(p.cast(), page, owner);
        } else {
            // A block of a further arena, a longer one of the hardened build, or none.
            check::check_start(p.cast(), page);
            if harden::ON && is_listed && keep_alone(p.cast(), page) {
                return;
            }
            free_own(p, page);
        }
    }
}

/// In the hardened build, keeps a block of a class above `SMALL_MAX` on the list of the thread's
/// heap, if that is empty. False: it is still the caller's.
///
/// # Safety
/// The block is live, of `page`, and the caller's to free. The calling thread's heap owns the page.
#[inline(always)]
unsafe fn keep_alone(block: *mut Block, page: &Meta) -> bool {
    // SAFETY: the caller gives up a live block of `page`, which is of this thread's heap.
    thread::heap().is_some_and(|heap| unsafe { heap.keep_alone(page, block) })
}
