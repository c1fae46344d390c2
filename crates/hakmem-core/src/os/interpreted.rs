//! Miri: memory from its own heap, threads that yield instead of sleeping, a clock that is asked for the time.
//!
//! Memory that is given back is cleared by plain writes, so that whoever else uses it meanwhile is found to race.

use super::count::{Kind, counted};
use crate::base::sync::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use core::ptr::null_mut;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io::Write;

const MEMORY_PAGE: usize = 4096;
/// So that an arena has the least size.
const LIMIT: usize = 64 << 20;

/// A reservation, by the pointer that all pointers into it are derived from.
struct Reserved {
    base: AtomicPtr<u8>,
    len: AtomicUsize,
}
static RESERVED: [Reserved; 64] =
    [const { Reserved { base: AtomicPtr::new(null_mut()), len: AtomicUsize::new(0) } }; 64];

fn layout(len: usize) -> Layout {
    Layout::from_size_align(len, MEMORY_PAGE).expect("a range")
}

/// As on Linux.
pub fn reserve(len: usize) -> Option<usize> {
    let free = RESERVED.iter().find(|r| r.base.load(Ordering::Acquire).is_null())?;
    // SAFETY: not empty.
    let base = unsafe { alloc_zeroed(layout(len)) };
    free.len.store(len, Ordering::Relaxed);
    // Release: `at` reads the length.
    free.base.store(base, Ordering::Release);
    counted(Kind::Mmap, || base.addr() as isize);
    Some(base.addr())
}

/// As on Linux.
pub fn unreserve(at: usize, len: usize) -> bool {
    let reserved =
        RESERVED.iter().find(|r| r.base.load(Ordering::Acquire).addr() == at && r.len.load(Ordering::Relaxed) == len);
    if let Some(r) = reserved {
        // SAFETY: reserved so, and nobody has used it.
        unsafe { dealloc(r.base.swap(null_mut(), Ordering::Relaxed), layout(len)) };
    }
    reserved.is_some()
}

/// The pointer to an address inside memory that was reserved here, derived from the reservation's own.
pub fn at(address: usize) -> *mut u8 {
    for r in &RESERVED {
        let base = r.base.load(Ordering::Acquire);
        if !base.is_null() && address.wrapping_sub(base.addr()) < r.len.load(Ordering::Relaxed) {
            return base.with_addr(address);
        }
    }
    // Null, or memory of a test's own.
    core::ptr::with_exposed_provenance_mut(address)
}

/// All of a reservation is accessible here.
pub fn commit(_: usize, _: usize) -> bool {
    true
}

/// See [`commit`].
pub fn make_readable(_: usize, _: usize) -> bool {
    true
}

/// As on Linux.
pub fn purge(address: usize, len: usize) -> bool {
    // SAFETY: reserved, and the caller's.
    counted(Kind::Madvise, || unsafe {
        at(address).write_bytes(0, len);
        0
    });
    true
}

/// There is no such program here.
pub fn in_program(_: usize) -> bool {
    false
}

/// See [`in_program`].
pub fn on_first_stack(_: usize, _: usize) -> bool {
    false
}

/// See [`in_program`].
pub fn program_headers() -> usize {
    0
}

/// Nothing is faulted in here.
pub fn populate(_: usize, _: usize) -> bool {
    false
}

/// There are no huge pages here.
pub fn want_thp(_: usize, _: usize) -> bool {
    false
}

/// See [`want_thp`].
pub fn refuse_thp(_: usize, _: usize) -> bool {
    true
}

pub fn decommit(address: usize, len: usize) -> bool {
    purge(address, len)
}

/// What came of [`move_pages`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "callers know all of what Linux may answer")]
pub enum Moved {
    /// The pages are at the new place.
    Yes,
    /// They are where they were.
    No,
    /// They are where they were, and the new place must not be used again.
    Lost,
}

/// There are no page tables here: the caller copies.
pub fn move_pages(_: usize, _: usize, _: usize, _: usize) -> Moved {
    Moved::No
}

/// What [`Pagemap::read`] says of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "callers know all of what Linux may answer")]
pub enum Page {
    /// It takes no memory.
    Absent,
    /// It is in memory.
    Resident,
    /// It is elsewhere.
    Swapped,
}

/// As on Linux.
pub struct Pagemap;

impl Pagemap {
    /// As on Linux.
    pub fn open() -> Option<Self> {
        Some(Self)
    }

    /// Everything is resident.
    pub fn read(&self, _: usize, pages: &mut [Page]) -> bool {
        pages.fill(Page::Resident);
        true
    }
}

/// The interpreter gives no rights.
pub fn is_secure() -> bool {
    false
}

/// Bytes of a page of memory.
pub fn page_size() -> usize {
    MEMORY_PAGE
}

/// Physical memory in bytes.
pub fn physical_memory() -> usize {
    LIMIT
}

/// The limit on address space in bytes.
pub fn address_limit() -> usize {
    LIMIT
}

/// Goes on by one each time it is asked, so that things age.
static CLOCK: AtomicU32 = AtomicU32::new(1);

/// Milliseconds that wrap.
pub fn now_ms() -> u32 {
    CLOCK.fetch_add(1, Ordering::Relaxed)
}

/// As on Linux.
pub fn age(now: u32, then: u32) -> u32 {
    let age = now.wrapping_sub(then);
    if age > u32::MAX / 2 { 0 } else { age }
}

/// Nanoseconds.
pub fn now_ns() -> u64 {
    u64::from(now_ms()) * 1_000_000
}

/// Returns early, as it may.
pub fn futex_wait(_: &AtomicU32, _: u32, _: Option<u32>) {
    std::thread::yield_now();
}

/// Nobody sleeps.
pub fn futex_wake(_: &AtomicU32) {}

/// As [`futex_wait`].
pub fn futex_wait_for_end(alive: &AtomicU32, value: u32, ms: u32) {
    futex_wait(alive, value, Some(ms));
}

/// Does not sleep.
pub fn sleep_us(_: u32) {
    std::thread::yield_now();
}

/// As on Linux.
pub fn write_stderr(text: &[u8]) {
    // Lost if it cannot be written.
    let _ = std::io::stderr().write_all(text);
}

/// Ends the process.
pub fn abort() -> ! {
    std::process::abort()
}

/// As on Linux.
pub fn set_enomem() {
    // SAFETY: errno's location is valid for the calling thread.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
}

/// Signals that a thread has blocked.
pub type SignalMask = u64;

/// There are no signals here.
pub fn block_signals() -> SignalMask {
    0
}

/// See [`block_signals`].
pub fn restore_signals(_: SignalMask) {}

/// As on Linux.
pub fn thread_token() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(2);
    std::thread_local! { static MINE: u32 = NEXT.fetch_add(1, Ordering::Relaxed); }
    // In a thread that ends.
    MINE.try_with(|mine| *mine).unwrap_or(1)
}
