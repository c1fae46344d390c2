//! Pointers that are not ours: passed on, leaked or fatal, counted, and reported with their call site.

use crate::guard;
use crate::os;
use crate::policy::{self, Foreign};
use crate::proto::lock::Lock;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};
use core::cell::UnsafeCell;
use core::ptr::null_mut;

/// The next allocator in link order.
#[derive(Clone, Copy)]
pub struct Next {
    /// Its `free`.
    pub free: unsafe extern "C" fn(*mut u8),
    /// Its `realloc`.
    pub realloc: unsafe extern "C" fn(*mut u8, usize) -> *mut u8,
    /// Its `malloc_usable_size`.
    pub usable_size: unsafe extern "C" fn(*mut u8) -> usize,
}

struct Slot(UnsafeCell<Option<Next>>);
// SAFETY: written once, under LOCK, before KNOWN is set (release); read after KNOWN was seen (acquire).
unsafe impl Sync for Slot {}

#[unsafe(link_section = ".data.hakmem")]
static FIND: AtomicPtr<()> = AtomicPtr::new(null_mut());
/// Held over the search, and across fork.
#[unsafe(link_section = ".data.hakmem")]
pub static LOCK: Lock = Lock::new();
static KNOWN: AtomicBool = AtomicBool::new(false);
static NEXT: Slot = Slot(UnsafeCell::new(None));
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
        // A pointer that the search itself frees is leaked; other threads wait for its end.
        if LOCK.is_held_by(os::thread_token()) {
            return None;
        }
        let _held = LOCK.lock();
        if !KNOWN.load(Relaxed) {
            // SAFETY: only `on_foreign` stores there, and it stores such a function.
            let find: fn() -> Option<Next> = unsafe { core::mem::transmute(find) };
            let found = find();
            // SAFETY: see `Slot`.
            unsafe { *NEXT.0.get() = found };
            KNOWN.store(true, Release);
        }
    }
    // SAFETY: see `Slot`.
    unsafe { *NEXT.0.get() }
}

/// Frees a foreign pointer; `site` is where the call came from.
///
/// # Safety
/// `p` is not ours, and the caller's to free.
#[cold]
pub unsafe fn free(p: *mut u8, site: usize) {
    note(p, site);
    if let Some(next) = next() {
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
        guard::fatal(format_args!("free of {p:p}, which is not from this allocator, by the code at {site:#x}"));
    }
    if count == u64::from(policy::FOREIGN_REPORT.get()) {
        guard::report(format_args!(
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
    // SAFETY: if it is anybody's, it is the next allocator's.
    next().map(|next| unsafe { (next.realloc)(p, size) })
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
