//! Allocation: a request gets a block of a class, whole slots, or whole segments, by its size.
//!
//! ```text
//! alloc16 ──┬── pop                               the heap's list has a block
//!           ├── alloc16_slow ─────── from_class   the list is empty: refill
//!           └── alloc16_unlisted ─┬─ from_class   up to 64 KiB
//!                                 └─ alloc_big    large and huge blocks
//!
//! alloc_big ── from_cache_or_new ─┬─              the heap's cache has a large block
//!                                 └─ new_whole    whole slots or segments
//!
//! from_class, alloc_big ─── in a scope: the program heap
//! ```

use super::resize::size_of_whole;
use super::{keep_limit, note_released, refused};
use crate::backend::arena::SLOT;
use crate::backend::check;
use crate::backend::nothing;
use crate::backend::page::{self, Block, Kind};
use crate::base::address::formed;
use crate::base::prefetch::prefetch;
use crate::base::size_class::{self, FIRST_LONG, MEDIUM_MAX, NOTHING, SIZES, SMALL_MAX};
use crate::heap::all::are_many;
use crate::heap::{CachedLarge, Found, Heap};
use crate::large::huge::{self, kept::Kept};
use crate::large::{self, LARGE_MAX};
use crate::program::scope::Scope;
use crate::program::{self, Made, ProgramHeap, Refusal, Way};
use crate::proto::inbox::Link;
use crate::proto::take_away;
use crate::thread::{self, ThreadState};
use crate::{guard, os, profile};
use core::ptr::{NonNull, null_mut};

/// Which bytes of a new block must be zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clear {
    Nothing,
    /// The bytes that the caller requested. A Rust program knows this size only, and uses no more.
    Request,
    /// All bytes of the block: a C program may ask for the usable size and use all of it.
    Block,
}

/// Allocates a block for `n` bytes, aligned to 16. Returns null with errno ENOMEM if there is no
/// memory. O(1).
#[inline(always)]
pub fn alloc16(n: usize) -> *mut u8 {
    if n > SMALL_MAX {
        return alloc16_unlisted(n);
    }
    // SAFETY: the check above gives n <= SMALL_MAX.
    let class = unsafe { listed_class(n) };
    pop(class).unwrap_or_else(|| alloc16_slow(n, class))
}

/// [`alloc16`] with the caller's own slow path.
#[inline(always)]
pub fn alloc16_or(n: usize, slow: impl FnOnce(usize) -> *mut u8) -> *mut u8 {
    if n <= SMALL_MAX
        // SAFETY: the first condition gives n <= SMALL_MAX.
        && let Some(block) = pop(unsafe { listed_class(n) })
    {
        return block;
    }
    slow(n)
}

/// A block for `n` bytes, aligned to 16, from the thread's list, and its class. None: the list is
/// empty, or the request is not small.
#[inline(always)]
pub fn pop16(n: usize) -> Option<(*mut u8, usize)> {
    if n > SMALL_MAX {
        return None;
    }
    // SAFETY: the check above gives n <= SMALL_MAX.
    let class = unsafe { listed_class(n) };
    pop(class).map(|p| (p, class))
}

/// Allocates a block of `class`. A caller with a constant layout passes a constant class. Returns
/// null with errno ENOMEM if there is no memory.
#[inline(always)]
pub fn alloc_class(class: usize) -> *mut u8 {
    if class >= FIRST_LONG {
        alloc16_unlisted(size_of(class))
    } else {
        alloc_class_or(class, |class| alloc_class_slow(class))
    }
}

/// [`alloc_class`] of a small class, with the caller's own slow path. That path ends with a call of
/// `alloc_class_slow`.
#[inline(always)]
pub fn alloc_class_or(class: usize, slow: impl FnOnce(usize) -> *mut u8) -> *mut u8 {
    pop(class).unwrap_or_else(|| slow(class))
}

/// The class of `n` bytes, from the table in the thread's front.
///
/// # Safety
/// `n` is at most SMALL_MAX.
#[inline(always)]
unsafe fn listed_class(n: usize) -> usize {
    // SAFETY: the word of a thread always points to a readable front. The caller promises n <=
    // SMALL_MAX, so the index is at most TABLE16 - 1.
    usize::from(unsafe { *(*thread::front()).class16.get_unchecked((n + 15) >> 4) })
}

/// Takes the first block of the thread's list of `class`.
#[inline(always)]
fn pop(class: usize) -> Option<*mut u8> {
    // SAFETY: the word of a thread always points to a readable front. Classes are below CLASSES. A
    // block on the list is free, and only this thread, the holder of the heap, uses the list
    // (`heap` rule 1).
    unsafe {
        let list = formed((*thread::front()).free.get_unchecked(class));
        let block = list.get();
        if block.is_null() {
            return None;
        }
        let next = Block::next(block);
        take_away::pop(|| list.set(next));
        // The next call pops this block: it reads the link, and then the program writes to the
        // block.
        prefetch(next);
        Some(block.cast())
    }
}

/// [`pop`] for a class above `SMALL_MAX`, for a request of `n` bytes. Frees put blocks onto these
/// lists, and nobody looks at them before. So the slow path takes the block, too, if the next one
/// does not lie in the first arena: it checks the link further.
#[inline(always)]
fn alloc_kept(n: usize, class: usize) -> *mut u8 {
    let front = thread::front();
    // SAFETY: the word of a thread always points to a readable front. Classes are below CLASSES. A
    // block on the list is free, and only this thread, the holder of the heap, uses the list
    // (`heap` rule 1).
    unsafe {
        let list = formed((*front).free.get_unchecked(class));
        let block = list.get();
        if block.is_null() {
            return alloc16_slow(n, class);
        }
        let next = Block::next(block);
        if !check::is_plain_link(next) {
            // The refill takes it, and checks the link.
            return alloc16_slow(n, class);
        }
        take_away::pop(|| list.set(next));
        let kept = formed((*front).kept.get_unchecked(class - FIRST_LONG));
        kept.set(kept.get().saturating_sub(1));
        prefetch(next);
        block.cast()
    }
}

/// [`alloc16`] of more than SMALL_MAX bytes.
#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
pub extern "C" fn alloc16_unlisted(n: usize) -> *mut u8 {
    if n > MEDIUM_MAX {
        return alloc_large(n);
    }
    let class = size_class::computed(n);
    alloc_kept(n, class)
}

#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
extern "C" fn alloc16_slow(n: usize, class: usize) -> *mut u8 {
    if class == NOTHING {
        return alloc_nothing();
    }
    finish(from_class(class, n))
}

#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
pub extern "C" fn alloc_class_slow(class: usize) -> *mut u8 {
    if class == NOTHING {
        return alloc_nothing();
    }
    finish(from_class(class, size_of(class)))
}

/// Bytes of a block of `class`.
fn size_of(class: usize) -> usize {
    SIZES[class] as usize
}

/// A block of 0 bytes, or of one if there is no such block.
#[cold]
#[inline(never)]
pub fn alloc_nothing() -> *mut u8 {
    nothing::alloc().unwrap_or_else(|| finish(from_class(size_class::of16(1), 1)))
}

/// Pops a block from the class's list, or refills the list. `request` is at most the size of the
/// class: a sampled block has no more bytes. None: there is no memory, even after a purge of
/// everything free and the program's callback.
#[inline(always)]
fn from_class(class: usize, request: usize) -> Option<Found> {
    let got = match thread::state_in_scope() {
        Ok(ThreadState::Live(heap)) => from_heap(heap, class, request),
        Ok(ThreadState::Empty | ThreadState::Dead) => from_new_heap(class, request),
        Err(scope) => return from_scope(scope, class, request),
    };
    match got {
        // Without the request, which would have to be kept until here.
        None => from_class_after_purge(class),
        got => got,
    }
}

#[inline(always)]
fn from_heap(heap: &Heap, class: usize, request: usize) -> Option<Found> {
    // SAFETY: classes are below CLASSES, the length of the array.
    let list = unsafe { heap.owner.front.free.get_unchecked(class) };
    if let Some(block) = NonNull::new(list.get()) {
        // SAFETY: a block on the list is free, and the calling thread holds the heap of the list.
        let next = unsafe { Block::next(block.as_ptr()) };
        take_away::pop(|| list.set(next));
        heap.note_taken(class);
        check::check_link(block.as_ptr(), next);
        return Some((block, false));
    }
    let fresh = heap.refill(class, request);
    if heap.released().get() {
        note_released(heap);
    }
    fresh
}

#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
fn from_new_heap(class: usize, request: usize) -> Option<Found> {
    thread::with_heap(|heap| from_heap(heap, class, request))
}

#[cold]
#[inline(never)]
fn from_class_after_purge(class: usize) -> Option<Found> {
    refused::again(size_of(class), || thread::with_heap(|heap| heap.refill(class, size_of(class))))
}

/// Takes a block of `class` from the program heap whose scope the thread is in.
#[cold]
#[inline(never)]
fn from_scope(scope: &Scope, class: usize, request: usize) -> Option<Found> {
    if guard::is_on()
        && let Some(block) = scope.alloc_guarded(class, request)
    {
        return Some((block, true));
    }
    or_again(size_of(class), || {
        if profile::is_on() { from_scope_sampled(scope, class) } else { scope.alloc(class) }
    })
    .ok()
}

/// [`Scope::alloc`] while the profile is on.
#[cold]
#[inline(never)]
fn from_scope_sampled(scope: &Scope, class: usize) -> Result<Found, Refusal> {
    thread::with_heap(|own| Some(scope.alloc_sampled(own, class)))
        .unwrap_or_else(|| scope.alloc(class))
}

/// [`alloc_big`] in a scope of a program heap.
#[cold]
#[inline(never)]
fn big_from_scope(scope: &Scope, n: usize, align: usize, clear: Clear) -> *mut u8 {
    let made = alloc_of(scope.heap(), Way::Routed, n, align, None);
    let Ok((block, zero)) = made else { return no_memory() };
    if clear != Clear::Nothing && !zero {
        // SAFETY: the block was just allocated for `n` bytes.
        unsafe { program::clear(block, n, clear == Clear::Block) };
    }
    block.as_ptr()
}

/// Allocates from a program heap: see [`ProgramHeap::alloc`]. Purges all free memory first if the
/// system has none.
pub fn alloc_of(
    heap: &'static ProgramHeap,
    way: Way,
    n: usize,
    align: usize,
    class: Option<usize>,
) -> Made {
    if guard::is_on()
        && let Some(class) = class
    {
        // Such a request keeps the alignment of its class.
        let request = if align > 16 { size_of(class) } else { n };
        if let Some(block) = heap.alloc_guarded(way, class, request) {
            return Ok((block, true));
        }
    }
    if n > huge::TOO_LARGE || align > huge::TOO_LARGE {
        return Err(Refusal::Memory); // No purge would help.
    }
    let made = or_again(n, || heap.alloc(way, n, align, class))?;
    if profile::is_on() {
        sample_of(heap, way, made.0);
    }
    Ok(made)
}

/// Samples a block of a program heap that was just allocated, if a sample is due.
#[cold]
#[inline(never)]
pub fn sample_of(heap: &'static ProgramHeap, way: Way, block: NonNull<u8>) {
    thread::with_heap(|own| {
        heap.sample(own, way, block);
        Some(())
    });
}

/// Allocates `n` bytes from a program heap by `allocate`, and again after a purge if the system has
/// no memory.
fn or_again<T>(n: usize, allocate: impl Fn() -> Result<T, Refusal>) -> Result<T, Refusal> {
    match allocate() {
        // The limit of the heap may forbid it the second time: that fails, too.
        Err(Refusal::Memory) => refused::again(n, || allocate().ok()).ok_or(Refusal::Memory),
        made => made,
    }
}

fn finish(fresh: Option<Found>) -> *mut u8 {
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

/// Allocates a large or huge block: `n` is above the largest class, or `align` is larger than the
/// alignment of pages.
#[cold]
#[inline(never)]
pub fn alloc_big(n: usize, align: usize, clear: Clear) -> *mut u8 {
    if let Err(scope) = thread::state_in_scope() {
        return big_from_scope(scope, n, align, clear);
    }
    if profile::is_on() {
        return alloc_big_sampled(n, align, clear);
    }
    from_cache_or_new(n, align, clear)
}

/// [`alloc_big`] while the profile is on.
#[cold]
#[inline(never)]
fn alloc_big_sampled(n: usize, align: usize, clear: Clear) -> *mut u8 {
    let p = from_cache_or_new(n, align, clear);
    sample_whole(p);
    p
}

/// Samples the large or huge block at `p`, which was just allocated, if a sample is due. Does
/// nothing for null.
#[cold]
#[inline(never)]
pub fn sample_whole(p: *mut u8) {
    if let Some(meta) = page::lookup(p) {
        thread::with_heap(|heap| {
            heap.sample_large(meta, size_of_whole(p, meta));
            Some(())
        });
    }
}

/// [`alloc_big`] for a request of malloc. The usual case of a large block comes first.
#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
extern "C" fn alloc_large(n: usize) -> *mut u8 {
    if n > LARGE_MAX || profile::is_on() {
        return alloc_big(n, SLOT, Clear::Nothing);
    }
    let Some(heap) = thread::heap() else { return alloc_big(n, SLOT, Clear::Nothing) };
    match heap.cached_large(n) {
        CachedLarge::Block(p) => p,
        CachedLarge::Grown(p) => grown(p, heap),
        CachedLarge::None => new_whole(n, SLOT, Clear::Nothing),
    }
}

/// Returns `p`, with which the live bytes of `heap` have grown.
#[cold]
#[inline(never)]
extern "C" fn grown(p: *mut u8, heap: &'static Heap) -> *mut u8 {
    heap.note_growth();
    p
}

/// A large block from the heap's cache, else [`new_whole`].
#[inline(always)]
fn from_cache_or_new(n: usize, align: usize, clear: Clear) -> *mut u8 {
    if n > LARGE_MAX || align > SLOT {
        return new_whole(n, align, clear);
    }
    let ThreadState::Live(heap) = thread::state() else { return new_whole(n, align, clear) };
    let p = match heap.cached_large(n) {
        CachedLarge::Block(p) => p,
        CachedLarge::Grown(p) => grown(p, heap),
        CachedLarge::None => return new_whole(n, align, clear),
    };
    // SAFETY: `cached_large` has just allocated the block for `n` bytes, and no one else knows it
    // yet.
    unsafe { clear_large(p, n, clear) };
    p
}

/// Zeroes as much of the large block at `p` as `clear` says.
///
/// # Safety
/// The block is live and was allocated for `n` bytes. No other thread uses it during the call.
#[inline(never)]
unsafe fn clear_large(p: *mut u8, n: usize, clear: Clear) {
    let bytes = match clear {
        Clear::Nothing => return,
        Clear::Request => n,
        Clear::Block => large::size_for(n),
    };
    // SAFETY: the caller promises that the block is live and in no use. It was allocated for `n`
    // bytes, so it holds `size_for(n)`.
    unsafe { p.write_bytes(0, bytes) };
}

/// The huge blocks that the calling thread's heap keeps. None: it has no heap, or none are kept.
#[inline(always)]
pub fn kept_huge() -> Option<&'static Kept> {
    if !are_many() {
        return None;
    }
    match thread::state() {
        ThreadState::Live(heap) => Some(heap.kept_huge()),
        ThreadState::Empty | ThreadState::Dead => None,
    }
}

/// A large block from a segment, or a huge block. If there is no memory, it gives all that is free
/// back first.
#[inline(never)]
fn new_whole(n: usize, align: usize, clear: Clear) -> *mut u8 {
    if n > huge::TOO_LARGE || align > huge::TOO_LARGE {
        return no_memory();
    }
    let whole = || {
        if n <= LARGE_MAX && align <= SLOT {
            return thread::with_heap(|heap| heap.fresh_large(n));
        }
        if let Some(kept) = kept_huge()
            && let Some(got) = huge::take_kept(n, align, kept)
        {
            return Some(got);
        }
        huge::alloc(n, align, clear == Clear::Nothing)
    };
    let Some((meta, zero)) = whole().or_else(|| refused::again(n, whole)) else {
        return no_memory();
    };
    keep_limit();
    if clear != Clear::Nothing && !zero {
        // SAFETY: `whole` has just allocated the block for `n` bytes, and no one else knows it yet.
        unsafe {
            match meta.kind() {
                Kind::Huge => huge::clear(meta, n, clear == Clear::Block),
                _ => clear_large(meta.start(), n, clear),
            }
        }
    }
    meta.start()
}

/// Allocates a block for `n` bytes, aligned to 16. All bytes of the block are zero. Memory that is
/// known to be zero is not cleared again.
pub fn alloc16_zeroed(n: usize) -> *mut u8 {
    if n == 0 {
        return alloc_nothing();
    }
    if n > MEDIUM_MAX {
        return alloc_big(n, SLOT, Clear::Block);
    }
    let class = size_class::of16(n);
    // SAFETY: it is the size of the class.
    unsafe { zeroed_request(class, n, size_of(class)) }
}

/// Allocates a block of `class` whose first `n` bytes are zero.
///
/// # Safety
/// `class` is below `CLASSES`, and `n` is at most its size.
pub unsafe fn zeroed_class(class: usize, n: usize) -> *mut u8 {
    // SAFETY: the caller promises that the class has `n` bytes.
    unsafe { zeroed_request(class, size_of(class), n) }
}

/// [`zeroed_class`] for a request that is known.
///
/// # Safety
/// As [`zeroed_class`]; `request` is at most the size of the class. A sampled block is zero
/// already.
unsafe fn zeroed_request(class: usize, request: usize, n: usize) -> *mut u8 {
    let Some((block, zero)) = from_class(class, request) else { return no_memory() };
    let p = block.as_ptr().cast::<u8>();
    if !zero {
        // SAFETY: `from_class` has just allocated the block, and the caller promises that it has
        // `n` bytes.
        unsafe { p.write_bytes(0, n) };
    }
    p
}

/// Allocates a block for `n` bytes at a multiple of `align`, a power of two above 16. O(1).
#[cold]
pub fn alloc_aligned(n: usize, align: usize, clear: Clear) -> *mut u8 {
    match (size_class::of_aligned(n, align), clear) {
        (Some(class), Clear::Nothing) => finish(from_class(class, size_of(class))),
        // SAFETY: `of_aligned` gives a class of at least `n` bytes.
        (Some(class), Clear::Request) => unsafe { zeroed_class(class, n) },
        // SAFETY: it is the size of the class.
        (Some(class), Clear::Block) => unsafe { zeroed_class(class, size_of(class)) },
        (None, clear) => alloc_big(n, align, clear),
    }
}
