//! The front: requests by size, pointers by arithmetic, down to the layer that serves them.
//!
//! The two hot functions, in pseudo-code, and nothing else on them:
//!
//! ```text
//! malloc(n):  h = thread's word; if n > 1024: slow
//!             c = h.class16[(n + 15) / 16]; b = h.free[c]; if b is null: slow
//!             h.free[c] = b.next; return b
//! free(p):    x = rotate_right(p - data, 4); if x >= limit: slow        (foreign, NULL, or not a multiple of 16)
//!             m = metas + x / 4096; if m.owner != thread's word: slow   (remote, large, not a page)
//!             p.next = m.free; m.free = p; m.needed -= 1; if m.needed == 0: slow
//! ```

use crate::arena::{HOT, META, PAGE, PAGE_SHIFT};
use crate::heap::{Fresh, Heap};
use crate::large::{self, LARGE_MAX};
use crate::page::{self, Block, Kind, Meta};
use crate::profile::Freed;
use crate::proto::inbox::Link;
use crate::size_class::{self, MEDIUM_MAX, SMALL_MAX};
use crate::thread::{self, State};
use crate::{foreign, guard, os, profile, purge, whale};
use core::ptr::{NonNull, null_mut};

/// No request above this can be met: pointer differences are signed.
const PTRDIFF_MAX: usize = isize::MAX as usize;

// ---- allocation -----------------------------------------------------------------------------------------------------

/// A block for `n` bytes, aligned to 16. Null with errno ENOMEM: there is no memory. O(1).
#[inline(always)]
pub fn alloc16(n: usize) -> *mut u8 {
    alloc16_or(n, |n| alloc16_slow(n))
}

/// [`alloc16`] with another slow path, which the caller makes of `alloc16_slow`.
#[inline(always)]
pub fn alloc16_or(n: usize, slow: impl FnOnce(usize) -> *mut u8) -> *mut u8 {
    if n <= SMALL_MAX {
        let front = thread::front();
        // SAFETY: the thread's front is always readable; the index is at most TABLE16 - 1, the class below CLASSES; a
        // listed block is free, and this thread's (heap rule 1).
        unsafe {
            let class = *(*front).class16.get_unchecked((n + 15) >> 4);
            let list = (*front).free.get_unchecked(usize::from(class));
            let block = list.get();
            if !block.is_null() {
                list.set((*block).next.get());
                return block.cast();
            }
        }
    }
    slow(n)
}

/// A block of `class`, known at compile time where the caller's layout is. Null: as [`alloc16`].
#[inline(always)]
pub fn alloc_class(class: usize) -> *mut u8 {
    // SAFETY: as in `alloc16`.
    unsafe {
        let list = (*thread::front()).free.get_unchecked(class);
        let block = list.get();
        if !block.is_null() {
            list.set((*block).next.get());
            return block.cast();
        }
    }
    alloc_class_slow(class)
}

#[cold]
#[inline(never)]
extern "C" fn alloc16_slow(n: usize) -> *mut u8 {
    if n <= MEDIUM_MAX { finish(from_class(size_class::of16(n))) } else { alloc_big(n, PAGE, false) }
}

#[cold]
#[inline(never)]
extern "C" fn alloc_class_slow(class: usize) -> *mut u8 {
    finish(from_class(class))
}

/// Pops from the class's list, or refills it. None: out of memory even after everything free was given back.
#[inline(always)]
fn from_class(class: usize) -> Option<Fresh> {
    let one = |heap: &'static Heap| {
        // SAFETY: classes are below CLASSES.
        let list = unsafe { heap.front.free.get_unchecked(class) };
        if let Some(block) = NonNull::new(list.get()) {
            // SAFETY: a listed block is free, and this thread's.
            list.set(unsafe { Block::next(block.as_ptr()) });
            return Some((block, false));
        }
        let fresh = heap.refill(class);
        if heap.released.get() {
            note_released(heap);
        }
        fresh
    };
    match thread::with_heap(one) {
        None => from_class_after_purge(class),
        got => got,
    }
}

#[cold]
#[inline(never)]
fn from_class_after_purge(class: usize) -> Option<Fresh> {
    give_everything_back();
    thread::with_heap(|heap| heap.refill(class))
}

/// There is no memory: whatever is free, here and elsewhere, goes back.
#[cold]
fn give_everything_back() {
    if let State::Live(heap) = thread::state() {
        heap.collect();
    }
    purge::all();
}

/// Pages went back to their segments: some may be due to go to the system.
#[cold]
#[inline(never)]
fn note_released(heap: &Heap) {
    heap.released.set(false);
    purge::tick();
}

fn finish(fresh: Option<Fresh>) -> *mut u8 {
    match fresh {
        Some((block, _)) => block.as_ptr().cast(),
        None => no_memory(),
    }
}

#[cold]
fn no_memory() -> *mut u8 {
    os::set_enomem();
    null_mut()
}

/// More than the classes hold, or a larger alignment than their pages have.
#[cold]
#[inline(never)]
pub fn alloc_big(n: usize, align: usize, zeroed: bool) -> *mut u8 {
    if profile::is_on() {
        let p = alloc_big_plain(n, align, zeroed);
        sample_whole(p);
        return p;
    }
    alloc_big_plain(n, align, zeroed)
}

/// The large block or whale at `p` was just allocated, unless it is null: a sample, maybe.
#[cold]
#[inline(never)]
fn sample_whole(p: *mut u8) {
    if let Some(meta) = page::lookup(p) {
        thread::with_heap(|heap| {
            heap.sample_large(meta, size_of_whole(p, meta));
            Some(())
        });
    }
}

#[inline(always)]
fn alloc_big_plain(n: usize, align: usize, zeroed: bool) -> *mut u8 {
    if n <= LARGE_MAX
        && align <= PAGE
        && let State::Live(heap) = thread::state()
        && let Some(meta) = heap.cached_large(n)
    {
        let p = meta.start();
        if zeroed {
            // SAFETY: just allocated; it holds n bytes.
            unsafe { p.write_bytes(0, n) };
        }
        return p;
    }
    alloc_big_anew(n, align, zeroed)
}

#[inline(never)]
fn alloc_big_anew(n: usize, align: usize, zeroed: bool) -> *mut u8 {
    if n > whale::TOO_LARGE || align > whale::TOO_LARGE {
        return no_memory();
    }
    let whole = || {
        if n <= LARGE_MAX && align <= PAGE {
            return thread::with_heap(|heap| heap.fresh_large(n));
        }
        whale::alloc(n, align)
    };
    let got = whole().or_else(|| {
        give_everything_back();
        whole()
    });
    let Some((meta, zero)) = got else { return no_memory() };
    if zeroed && !zero {
        // SAFETY: just allocated; it holds n bytes.
        unsafe {
            match meta.kind() {
                Kind::Whale => whale::clear(meta, n),
                _ => meta.start().write_bytes(0, n),
            }
        }
    }
    meta.start()
}

/// Zeroed memory for `n` bytes, aligned to 16. Memory that is known to be zero is not cleared again.
pub fn alloc16_zeroed(n: usize) -> *mut u8 {
    if n > MEDIUM_MAX {
        return alloc_big(n, PAGE, true);
    }
    zeroed_class(size_class::of16(n), n)
}

/// Zeroed memory for `n` bytes in a block of `class`.
pub fn zeroed_class(class: usize, n: usize) -> *mut u8 {
    let Some((block, zero)) = from_class(class) else { return no_memory() };
    let p = block.as_ptr().cast::<u8>();
    if !zero {
        // SAFETY: the block holds n bytes.
        unsafe { p.write_bytes(0, n) };
    }
    p
}

/// A block for `n` bytes at a multiple of `align`, a power of two above 16. O(1).
#[cold]
pub fn alloc_aligned(n: usize, align: usize, zeroed: bool) -> *mut u8 {
    match size_class::of_aligned(n, align) {
        Some(class) if zeroed => zeroed_class(class, n),
        Some(class) => finish(from_class(class)),
        None => alloc_big(n, align, zeroed),
    }
}

// ---- freeing --------------------------------------------------------------------------------------------------------

/// Frees `p`, a pointer from this allocator, NULL, or one that is not ours. Leaves errno alone. O(1).
///
/// # Safety
/// If `p` is ours, it is live and the caller's to free.
#[inline(always)]
pub unsafe fn free16(p: *mut u8) {
    let offset = p.addr().wrapping_sub(HOT.data()).rotate_right(4);
    if offset < HOT.limit16() {
        // PAGE_SHIFT - 4 bits remain of the page's offset; the metadata is META bytes a page.
        let meta = (offset >> (PAGE_SHIFT - 4 - META.ilog2())) & !(META - 1);
        // SAFETY: in range: the metadata of a used segment.
        unsafe {
            let page = HOT.metas().wrapping_add(meta).cast::<Meta>();
            if is_own(page) {
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

/// Whether the calling thread has the heap that owns the page, or had when it was set aside.
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
    let offset = p.addr().wrapping_sub(HOT.data());
    if offset < HOT.limit() {
        // SAFETY: as in `free16`.
        unsafe {
            let page = HOT.metas().wrapping_add((offset >> PAGE_SHIFT) * META).cast::<Meta>();
            if is_own(page) {
                if Heap::push_freed(&*page, p.cast()) {
                    free_counted_down(page);
                }
                return;
            }
        }
    }
    // SAFETY: passed on.
    unsafe { free_found(p, 8, 0) }
}

/// The countdown of a page of this thread is over.
///
/// # Safety
/// As [`Heap::push_freed`], which said so.
#[cold]
#[inline(never)]
unsafe extern "C" fn free_counted_down(page: *const Meta) {
    // SAFETY: the caller found the page by arithmetic, and that this thread has the heap that owns it.
    let (page, heap) = unsafe { (&*page, &*(*page).owner().cast::<Heap>()) };
    heap.counted_down(page);
    if heap.released.get() {
        note_released(heap);
    }
}

/// Remembers the caller for the report on foreign frees: reached by a jump from `free`, whose return address is on top
/// of the stack.
///
/// # Safety
/// As [`free16`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[cold]
#[unsafe(naked)]
unsafe extern "C" fn free_elsewhere(p: *mut u8) {
    core::arch::naked_asm!("mov rsi, qword ptr [rsp]", "jmp {inner}", inner = sym free_elsewhere_from);
}

/// The same without the caller's address.
///
/// # Safety
/// As [`free16`].
#[cfg(miri)]
unsafe extern "C" fn free_elsewhere(p: *mut u8) {
    // SAFETY: passed on.
    unsafe { free_elsewhere_from(p, 0) }
}

unsafe extern "C" fn free_elsewhere_from(p: *mut u8, site: usize) {
    // SAFETY: passed on.
    unsafe { free_found(p, 16, site) }
}

/// Frees `p`, whatever it is; a block of ours is a multiple of `align`, a power of two.
///
/// # Safety
/// As [`free16`].
#[inline(never)]
unsafe fn free_found(p: *mut u8, align: usize, site: usize) {
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
    if p.addr() & (align - 1) != 0 {
        guard::not_a_block(p, Some(meta));
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
unsafe fn free_foreign(p: *mut u8, site: usize) {
    if !p.is_null() {
        // SAFETY: passed on.
        unsafe { foreign::free(p, site) };
    }
}

/// Frees a large block or a whale, in the slot of `meta`.
///
/// # Safety
/// As [`free16`].
#[inline(never)]
unsafe fn free_whole(p: *mut u8, meta: &'static Meta) {
    let kind = meta.kind();
    // They start where their first slot does; the others have no kind.
    if !matches!(kind, Kind::Large | Kind::Whale) || !p.addr().is_multiple_of(PAGE) {
        // SAFETY: passed on.
        return unsafe { free_odd(p, meta) };
    }
    // SAFETY: the start of a live allocation, and the caller's to free.
    unsafe {
        if kind == Kind::Large
            && let State::Live(heap) = thread::state()
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
            Freed::NoSample => guard::not_a_block(p, Some(meta)),
        }
    }
}

/// Frees a whale, or a large block from a thread that has no heap.
///
/// # Safety
/// It is live and the caller's to free.
#[inline(never)]
unsafe fn free_whole_slow(meta: &'static Meta, kind: Kind) {
    // SAFETY: passed on.
    let released = unsafe {
        match kind {
            Kind::Large => large::free(None, meta),
            _ => whale::free(meta) > 0,
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
unsafe fn free_block(page: &'static Meta, owner: *mut page::Owner, block: *mut Block) {
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

/// Frees a block of another heap's page.
///
/// # Safety
/// As [`free_block`].
#[inline(always)]
unsafe fn free_other(page: &'static Meta, owner: *mut page::Owner, block: *mut Block) {
    // SAFETY: passed on.
    unsafe {
        if let State::Live(heap) = thread::state()
            && heap.free_into_open(page, block)
        {
            return;
        }
        free_other_slow(page, owner, block);
    }
}

/// The same where no parcel is open for the page.
///
/// # Safety
/// As [`free_block`].
#[inline(never)]
unsafe fn free_other_slow(page: &'static Meta, owner: *mut page::Owner, block: *mut Block) {
    // SAFETY: passed on.
    unsafe {
        match thread::state() {
            State::Live(heap) => heap.free_remote(page, block),
            // Its first call, and others will follow: it gets a heap for its parcels. That may be the owner, unless the
            // page was set aside before the heap was had.
            State::Empty if thread::with_heap(|_| Some(())).is_some() => free_block(page, page.owner(), block),
            // A thread without a heap sends the block by itself.
            State::Empty | State::Dead => Heap::send_one(page, owner, block),
        }
    }
}

// ---- sizes and resizing ---------------------------------------------------------------------------------------------

/// Bytes that the block at `p` holds; None: not ours. A pointer into an arena that is no block's start is fatal. Programs
/// that keep accounts ask for it with each allocation and each free: for a block of a page, one line of metadata is
/// read, which these use too.
///
/// # Safety
/// If `p` is ours, it is live.
#[inline]
pub unsafe fn size_of_block(p: *mut u8) -> Option<usize> {
    let meta = page::lookup(p)?;
    let head = meta.head_of_block();
    if head.owner().is_null() {
        return Some(size_of_whole(p, meta));
    }
    Some(head.block_size.get() as usize)
}

/// Bytes of the large block or whale at `p`, in the slot of `meta`.
#[cold]
#[inline(never)]
fn size_of_whole(p: *mut u8, meta: &'static Meta) -> usize {
    match profile::plain(meta.kind()) {
        Kind::Large if p == meta.start() => large::size(meta),
        Kind::Whale if p == meta.start() => whale::size(meta),
        _ if meta.head().kind() == Kind::Sampled => meta.head().block_size.get() as usize,
        _ => guard::not_a_block(p, Some(meta)),
    }
}

/// Makes the block at `p`, which holds `old` bytes, hold `n` without copying. Returns where it is then; None: it has
/// to be copied, and nothing has changed. A block that would be less than half used is better moved to a smaller one.
///
/// # Safety
/// `p` is ours, live, and used by nobody else during the call. `n` is not 0.
pub unsafe fn resize(p: *mut u8, old: usize, n: usize) -> Option<*mut u8> {
    if n <= old && (n > old / 2 || old <= 64) {
        return Some(p);
    }
    if old <= MEDIUM_MAX || n <= MEDIUM_MAX || n > PTRDIFF_MAX {
        return None;
    }
    let meta = page::lookup(p)?;
    // SAFETY: passed on.
    unsafe {
        if matches!(meta.kind(), Kind::SampledLarge | Kind::SampledWhale) {
            profile::resize(meta, || resize_whole(p, meta, n))
        } else {
            resize_whole(p, meta, n)
        }
    }
    // It is as if it had been allocated anew.
    .inspect(|&at| {
        if profile::is_on() {
            sample_whole(at)
        }
    })
}

/// Resizes the large block or whale at `p`, in the slot of `meta`.
///
/// # Safety
/// As [`resize`].
unsafe fn resize_whole(p: *mut u8, meta: &'static Meta, n: usize) -> Option<*mut u8> {
    // SAFETY: passed on.
    unsafe {
        match meta.kind() {
            Kind::Large => thread::with_heap(|heap| heap.resize_large(meta, n).then_some(p)),
            Kind::Whale if n > LARGE_MAX => {
                let moved = whale::resize(meta, n)?;
                purge::tick();
                Some(moved.start())
            }
            _ => None,
        }
    }
}

/// Moves `p`, which holds `old` bytes, to `to`, which holds `n`, and frees it.
///
/// # Safety
/// Both are live blocks of this allocator and the caller's.
pub unsafe fn move_block(p: *mut u8, old: usize, to: *mut u8, n: usize) {
    // SAFETY: two different blocks of at least so many bytes.
    unsafe {
        to.copy_from_nonoverlapping(p, old.min(n));
        free_known(p);
    }
}
