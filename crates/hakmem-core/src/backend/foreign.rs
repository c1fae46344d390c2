//! Pointers that are not ours: passed on, leaked or fatal, counted, and reported with their call site.
//!
//! The next allocator is searched for at the first foreign pointer, by calls of the loader, which takes a lock of its own. A
//! constructor may free a foreign pointer under that lock. So nothing of ours is held over the search: threads that come to
//! it at once search beside each other, and find the same.
//!
//! Rules
//! 1. `NEXT`'s words are written with what the search found before `KNOWN` is set (release), and read after it was seen
//!    (acquire). Every search writes the same.
//! 2. An entry of `SEARCHERS` belongs to the thread that put its token there.

use crate::backend::stray;
use crate::base::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use crate::os;
use crate::policy::{self, Foreign};
use core::mem::transmute;
use core::ptr::null_mut;

type Free = unsafe extern "C" fn(*mut u8);
type Realloc = unsafe extern "C" fn(*mut u8, usize) -> *mut u8;
type UsableSize = unsafe extern "C" fn(*mut u8) -> usize;

/// The next allocator in link order.
#[derive(Clone, Copy)]
pub struct Next {
    /// Its `free`.
    pub free: Free,
    /// Its `realloc`.
    pub realloc: Realloc,
    /// Its `malloc_usable_size`.
    pub usable_size: UsableSize,
}

#[unsafe(link_section = ".data.hakmem")]
static FIND: AtomicPtr<()> = AtomicPtr::new(null_mut());
static KNOWN: AtomicBool = AtomicBool::new(false);
/// The functions of [`Next`], in its order; null: there is no next allocator.
static NEXT: [AtomicPtr<()>; 3] = [const { AtomicPtr::new(null_mut()) }; 3];
/// Threads that search, by their tokens.
static SEARCHERS: [AtomicU32; 16] = [const { AtomicU32::new(0) }; 16];
pub static COUNT: AtomicU64 = AtomicU64::new(0);

/// Call sites that are told apart.
pub const SITES: usize = 16;

/// Where foreign frees came from, the first that were seen.
pub static BY_SITE: [(AtomicUsize, AtomicU64); SITES] = [const { (AtomicUsize::new(0), AtomicU64::new(0)) }; SITES];

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

/// The `i`th call site that freed foreign pointers, and how many. None: there is none.
pub fn site(i: usize) -> Option<(usize, u64)> {
    let (site, frees) = &BY_SITE[i];
    let site = site.load(Relaxed);
    (site != 0).then(|| (site, frees.load(Relaxed)))
}

/// Foreign frees so far.
pub fn count() -> u64 {
    COUNT.load(Relaxed)
}

/// Registers what finds the next allocator. It is called once, at the first foreign pointer, from a slow path
/// without locks held; it may allocate.
pub fn on_foreign(find: fn() -> Option<Next>) {
    FIND.store(find as *mut (), Release);
}

/// The next allocator, if there is one and foreign pointers are to be passed on.
fn next() -> Option<Next> {
    if policy::FOREIGN.get() != Foreign::Forward as u32 {
        return None;
    }
    let find = FIND.load(Acquire);
    if find.is_null() {
        return None;
    }
    if !KNOWN.load(Acquire) {
        // SAFETY: only `on_foreign` stores there, and it stores such a function.
        search(unsafe { transmute::<*mut (), fn() -> Option<Next>>(find) });
    }
    let [free, realloc, usable_size] = NEXT.each_ref().map(|function| function.load(Acquire));
    if free.is_null() {
        return None;
    }
    // SAFETY: rule 1: not null, so they are all there, and of these types.
    unsafe {
        Some(Next {
            free: transmute::<*mut (), Free>(free),
            realloc: transmute::<*mut (), Realloc>(realloc),
            usable_size: transmute::<*mut (), UsableSize>(usable_size),
        })
    }
}

/// Searches for the next allocator. A pointer that the search itself frees is leaked, and so is one that comes while more
/// threads search than there are entries.
#[cold]
fn search(find: fn() -> Option<Next>) {
    let me = os::thread_token();
    if SEARCHERS.iter().any(|who| who.load(Relaxed) == me) {
        return;
    }
    let Some(own) = SEARCHERS.iter().find(|who| who.compare_exchange(0, me, Relaxed, Relaxed).is_ok()) else { return };
    if let Some(found) = find() {
        // `free` comes last (release): who sees it without `KNOWN` sees the others, too.
        NEXT[2].store(found.usable_size as *mut (), Relaxed);
        NEXT[1].store(found.realloc as *mut (), Relaxed);
        NEXT[0].store(found.free as *mut (), Release);
    }
    KNOWN.store(true, Release);
    own.store(0, Relaxed);
}

/// In the child of a fork: other threads search no more.
pub fn after_fork(me: u32) {
    SEARCHERS.iter().filter(|who| who.load(Relaxed) != me).for_each(|who| who.store(0, Relaxed));
}

/// Frees a foreign pointer; `site` is where the call came from.
///
/// # Safety
/// `p` is not ours, and the caller's to free.
#[cold]
#[inline(never)]
pub unsafe fn free(p: *mut u8, site: usize) {
    note(p, site);
    let next = next();
    stray::judge(p);
    if let Some(next) = next {
        // SAFETY: if it is anybody's, it is the next allocator's.
        unsafe { (next.free)(p) };
    }
}

fn note(p: *mut u8, site: usize) {
    let count = COUNT.fetch_add(1, Relaxed) + 1;
    if site != 0 {
        note_site(site);
    }
    if policy::FOREIGN.get() == Foreign::Abort as u32 {
        os::fatal(format_args!("free of {p:p}, which is not from this allocator, by the code at {site:#x}"));
    }
    if count == u64::from(policy::FOREIGN_REPORT.get()) {
        os::report(format_args!(
            "{count} pointers from another allocator were freed here, the last, {p:p}, by the code at {site:#x}"
        ));
    }
}

/// Reallocates a foreign pointer through the next allocator; None: there is none.
///
/// # Safety
/// `p` is not ours, and the caller's to reallocate.
#[cold]
pub unsafe fn realloc(p: *mut u8, size: usize) -> Option<*mut u8> {
    note(p, 0);
    let next = next();
    stray::judge(p);
    // SAFETY: if it is anybody's, it is the next allocator's.
    next.map(|next| unsafe { (next.realloc)(p, size) })
}

/// Usable bytes of a foreign pointer; 0 if nobody can tell.
///
/// # Safety
/// `p` is not ours, and live.
#[cold]
pub unsafe fn usable_size(p: *mut u8) -> usize {
    // SAFETY: if it is anybody's, it is the next allocator's.
    next().map_or(0, |next| unsafe { (next.usable_size)(p) })
}
