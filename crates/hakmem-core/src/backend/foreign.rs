//! Foreign pointers: hands them to the next allocator, leaks them, or ends the process. Counts and
//! reports them with their call site.
//!
//! The first foreign pointer starts the search for the next allocator. The search calls the loader,
//! which takes a lock of its own, and a constructor may free a foreign pointer under that lock. So
//! a thread holds nothing of hakmem's during the search. Threads that search at once do so side by
//! side, and find the same.
//!
//! Rules
//! 1. A search writes what it found to `NEXT` before it sets `KNOWN` (release). A thread reads
//!    `NEXT` after it saw `KNOWN` set (acquire). Every search writes the same.
//! 2. An entry of `SEARCHERS` belongs to the thread that put its token there.

use crate::backend::{nothing, stray};
use crate::base::renew::Renew;
use crate::base::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use crate::os;
use crate::policy::{self, Foreign};
use core::mem::transmute;
use core::ptr::null_mut;

type Free = unsafe extern "C" fn(*mut u8);
type Realloc = unsafe extern "C" fn(*mut u8, usize) -> *mut u8;
type UsableSize = unsafe extern "C" fn(*mut u8) -> usize;
type HasMemory = fn() -> bool;

/// The next allocator in link order.
#[derive(Clone, Copy)]
pub struct Next {
    /// Its `free`.
    pub free: Free,
    /// Its `realloc`.
    pub realloc: Realloc,
    /// Its `malloc_usable_size`.
    pub usable_size: UsableSize,
    /// False if it certainly has no block: then it gets no pointer.
    pub has_memory: HasMemory,
}

#[unsafe(link_section = ".data.hakmem")]
static FIND: AtomicPtr<()> = AtomicPtr::new(null_mut());
static KNOWN: AtomicBool = AtomicBool::new(false);
/// The functions of [`Next`], in its order. Null: there is no next allocator.
static NEXT: [AtomicPtr<()>; 4] = [const { AtomicPtr::new(null_mut()) }; 4];
/// The tokens of the threads that search now.
#[unsafe(link_section = ".data.hakmem")]
static SEARCHERS: [AtomicU32; 16] = [const { AtomicU32::new(0) }; 16];
pub static COUNT: AtomicU64 = AtomicU64::new(0);

/// Call sites that are counted one by one.
pub const SITES: usize = 16;

/// The first call sites that freed foreign pointers, and how many each freed.
pub static BY_SITE: [(AtomicUsize, AtomicU64); SITES] =
    [const { (AtomicUsize::new(0), AtomicU64::new(0)) }; SITES];

fn note_site(site: usize) {
    for (known, frees) in &BY_SITE {
        let is = match known.compare_exchange(0, site, Relaxed, Relaxed) {
            Ok(_) => true,
            Err(other) => other == site,
        };
        if is {
            frees.fetch_add(1, Relaxed);
            return;
        }
    }
}

/// The `i`th call site that freed foreign pointers, and how many it freed. None: there is none.
pub fn site(i: usize) -> Option<(usize, u64)> {
    let (site, frees) = &BY_SITE[i];
    let site = site.load(Relaxed);
    (site != 0).then(|| (site, frees.load(Relaxed)))
}

/// Foreign frees so far.
pub fn count() -> u64 {
    COUNT.load(Relaxed)
}

/// Registers the function that finds the next allocator. `search` calls it at the first foreign
/// pointer, from a slow path without locks held. It may allocate.
pub fn on_foreign(find: fn() -> Option<Next>) {
    FIND.store(find as *mut (), Release);
}

/// The next allocator. None: there is none, or the option `FOREIGN` is not `forward`.
fn next() -> Option<Next> {
    if policy::FOREIGN.get() != Foreign::Forward as u32 {
        return None;
    }
    let find = FIND.load(Acquire);
    if find.is_null() {
        return None;
    }
    if !KNOWN.load(Acquire) {
        // SAFETY: `find` is not null. Only `on_foreign` stores to `FIND`, and it stores a function
        // of this type.
        search(unsafe { transmute::<*mut (), fn() -> Option<Next>>(find) });
    }
    let [free, realloc, usable_size, has_memory] =
        NEXT.each_ref().map(|function| function.load(Acquire));
    if free.is_null() {
        return None;
    }
    // SAFETY: `free` is not null. So a search has written all four words, from functions of these
    // types (rule 1): it stored `free` last with release, and each load here acquires.
    unsafe {
        Some(Next {
            free: transmute::<*mut (), Free>(free),
            realloc: transmute::<*mut (), Realloc>(realloc),
            usable_size: transmute::<*mut (), UsableSize>(usable_size),
            has_memory: transmute::<*mut (), HasMemory>(has_memory),
        })
    }
}

/// Searches for the next allocator. Two kinds of foreign pointers are leaked: those that the search
/// itself frees, and those that threads free while all entries are taken.
#[cold]
fn search(find: fn() -> Option<Next>) {
    let me = os::thread_token();
    if SEARCHERS.iter().any(|who| who.load(Relaxed) == me) {
        return;
    }
    let Some(own) =
        SEARCHERS.iter().find(|who| who.compare_exchange(0, me, Relaxed, Relaxed).is_ok())
    else {
        return;
    };
    if let Some(found) = find() {
        // `free` comes last (release): a thread that sees it without `KNOWN` sees the others.
        NEXT[3].store(found.has_memory as *mut (), Relaxed);
        NEXT[2].store(found.usable_size as *mut (), Relaxed);
        NEXT[1].store(found.realloc as *mut (), Relaxed);
        NEXT[0].store(found.free as *mut (), Release);
    }
    KNOWN.store(true, Release);
    own.store(0, Relaxed);
}

/// For the child of a fork: the other threads, which are gone, search no more.
pub fn after_fork(me: u32) {
    SEARCHERS.iter().filter(|who| who.load(Relaxed) != me).for_each(|who| who.renew(0));
}

/// Frees a foreign pointer. `site` is the address of the calling code.
///
/// # Safety
/// `p` is foreign. If it is a block of another allocator, the caller may free it.
#[cold]
#[inline(never)]
pub unsafe fn free(p: *mut u8, site: usize) {
    if nothing::has(p) {
        return nothing::free(p);
    }
    note(p, site);
    let next = next();
    stray::judge(p);
    let Some(next) = next else { return };
    if !(next.has_memory)() {
        return stray::judge_unowned(p);
    }
    // SAFETY: `p` is foreign, by the caller's promise. A block that is not hakmem's can only be the
    // next allocator's, and the caller may free it.
    unsafe { (next.free)(p) };
}

fn note(p: *mut u8, site: usize) {
    let count = COUNT.fetch_add(1, Relaxed) + 1;
    if site != 0 {
        note_site(site);
    }
    if policy::FOREIGN.get() == Foreign::Abort as u32 {
        os::fatal(format_args!(
            "free of {p:p}, which is not from this allocator, by the code at {site:#x}"
        ));
    }
    if count == u64::from(policy::FOREIGN_REPORT.get()) {
        os::report(format_args!(
            "{count} pointers from another allocator were freed here, the last, {p:p}, \
             by the code at {site:#x}"
        ));
    }
}

/// Reallocates a foreign pointer through the next allocator. None: there is none, or it has no
/// memory.
///
/// # Safety
/// `p` is foreign. If it is a block of another allocator, the caller may reallocate it.
#[cold]
pub unsafe fn realloc(p: *mut u8, size: usize) -> Option<*mut u8> {
    note(p, 0);
    let next = next();
    stray::judge(p);
    let next = next?;
    if !(next.has_memory)() {
        stray::judge_unowned(p);
        return None;
    }
    // SAFETY: `p` is foreign, by the caller's promise. A block that is not hakmem's can only be the
    // next allocator's, and the caller may reallocate it.
    Some(unsafe { (next.realloc)(p, size) })
}

/// Usable bytes of a foreign pointer. 0: there is no next allocator with memory to tell.
///
/// # Safety
/// `p` is foreign, and a live block of another allocator.
#[cold]
pub unsafe fn usable_size(p: *mut u8) -> usize {
    if nothing::has(p) {
        return 0;
    }
    match next() {
        // SAFETY: `p` is a live foreign block, by the caller's promise. So it is the next
        // allocator's.
        Some(next) if (next.has_memory)() => unsafe { (next.usable_size)(p) },
        _ => 0,
    }
}
