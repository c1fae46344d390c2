//! The system for Miri. Memory comes from Miri's own heap. Threads yield instead of sleeping. The
//! clock moves on each time that a thread reads it.
//!
//! A purge clears memory by plain writes. So Miri reports a race if another thread uses that memory
//! at the same time.

use super::count::{Kind, counted};
use crate::base::sync::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use core::ptr::null_mut;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io::Write;

const MEMORY_PAGE: usize = 4096;
/// The limit on memory. It is so low that an arena has the least size.
const LIMIT: usize = 64 << 20;

/// Two words. They need not be random here.
pub fn random() -> [usize; 2] {
    [0x9e37_79b9_7f4a_7c15, 0x2545_f491_4f6c_dd1d]
}

/// A reservation. All pointers into it are derived from `base`.
struct Reserved {
    base: AtomicPtr<u8>,
    len: AtomicUsize,
}
static RESERVED: [Reserved; 64] =
    [const { Reserved { base: AtomicPtr::new(null_mut()), len: AtomicUsize::new(0) } }; 64];

fn layout(len: usize) -> Layout {
    Layout::from_size_align(len, MEMORY_PAGE).expect("a range")
}

/// Reserves address space, as on Linux. Here it is accessible at once.
pub fn reserve(len: usize) -> Option<usize> {
    let free = RESERVED.iter().find(|r| r.base.load(Ordering::Acquire).is_null())?;
    // SAFETY: callers reserve at least one byte, so the layout is not empty.
    let base = unsafe { alloc_zeroed(layout(len)) };
    free.len.store(len, Ordering::Relaxed);
    // Release: `at` reads the length.
    free.base.store(base, Ordering::Release);
    counted(Kind::Mmap, || base.addr() as isize);
    Some(base.addr())
}

/// Gives a reservation up, as on Linux.
pub fn unreserve(at: usize, len: usize) -> bool {
    let reserved = RESERVED.iter().find(|r| {
        r.base.load(Ordering::Acquire).addr() == at && r.len.load(Ordering::Relaxed) == len
    });
    if let Some(r) = reserved {
        // SAFETY: `reserve` allocated the range with this layout. The caller gives the whole range
        // up, so no thread uses it.
        unsafe { dealloc(r.base.swap(null_mut(), Ordering::Relaxed), layout(len)) };
    }
    reserved.is_some()
}

/// The pointer to an address in a reservation, derived from the reservation's base.
pub fn at(address: usize) -> *mut u8 {
    for r in &RESERVED {
        let base = r.base.load(Ordering::Acquire);
        if !base.is_null() && address.wrapping_sub(base.addr()) < r.len.load(Ordering::Relaxed) {
            return base.with_addr(address);
        }
    }
    // Null, or memory that a test has made itself.
    core::ptr::with_exposed_provenance_mut(address)
}

/// All of a reservation is accessible here.
pub fn commit(_: usize, _: usize) -> bool {
    true
}

/// Children have all of it.
pub fn is_mapped(_: usize, _: usize) -> bool {
    true
}

/// There are no dumps.
pub fn leave_out_of_dumps(_: usize, _: usize) -> bool {
    true
}

/// See [`leave_out_of_dumps`].
pub fn take_into_dumps(_: usize, _: usize) -> bool {
    true
}

/// See [`commit`].
pub fn make_readable(_: usize, _: usize) -> bool {
    true
}

/// Gives memory back, as on Linux: the range is zero afterwards.
pub fn purge(address: usize, len: usize) -> bool {
    // SAFETY: the range is in a reservation. The caller has claimed its slots, so no other thread
    // uses it.
    counted(Kind::Madvise, || unsafe {
        at(address).write_bytes(0, len);
        0
    });
    true
}

/// False: Miri has no program in memory whose addresses hakmem could know.
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

/// As [`purge`]: a reservation stays accessible here.
pub fn decommit(address: usize, len: usize) -> bool {
    purge(address, len)
}

/// The result of [`move_pages`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "callers know all of what Linux may answer")]
pub enum Moved {
    /// The pages are at the new place.
    Yes,
    /// The pages are where they were.
    No,
    /// The pages are where they were, and the new place must not be used again.
    Lost,
}

/// There are no page tables here: the caller copies.
pub fn move_pages(_: usize, _: usize, _: usize, _: usize) -> Moved {
    Moved::No
}

/// The state of a system page, as [`Pagemap::read`] reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "callers know all of what Linux may answer")]
pub enum Page {
    /// The page takes no memory.
    Absent,
    /// The page is in memory.
    Resident,
    /// The page is in swap space.
    Swapped,
}

/// Says which system pages are resident, as on Linux.
pub struct Pagemap;

impl Pagemap {
    /// Always succeeds here.
    pub fn open() -> Option<Self> {
        Some(Self)
    }

    /// The same.
    pub fn open_file() -> Option<Self> {
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

/// The length of a system page in bytes.
pub fn page_size() -> usize {
    MEMORY_PAGE
}

/// False if the system has not so many bytes.
pub fn may_have(_: usize) -> bool {
    true
}

/// Physical memory in bytes.
pub fn physical_memory() -> usize {
    LIMIT
}

/// The limit on address space in bytes.
pub fn address_limit() -> usize {
    LIMIT
}

/// The clock. It moves on by one each time that a thread reads it, so that free memory ages.
static CLOCK: AtomicU32 = AtomicU32::new(1);

/// The clock in milliseconds, which wrap.
pub fn now_ms() -> u32 {
    CLOCK.fetch_add(1, Ordering::Relaxed)
}

/// Milliseconds from `then` to `now`, as on Linux: 0 if `then` is the later one.
pub fn age(now: u32, then: u32) -> u32 {
    let age = now.wrapping_sub(then);
    if age > u32::MAX - (1 << 20) { 0 } else { age }
}

/// The clock in nanoseconds.
pub fn now_ns() -> u64 {
    u64::from(now_ms()) * 1_000_000
}

/// Yields, and returns. The real call may return early too.
pub fn futex_wait(_: &AtomicU32, _: u32, _: Option<u32>) {
    std::thread::yield_now();
}

/// Does nothing, as no thread sleeps.
pub fn futex_wake(_: &AtomicU32) {}

/// [`futex_wait`] with a time limit.
pub fn futex_wait_for_end(alive: &AtomicU32, value: u32, ms: u32) {
    futex_wait(alive, value, Some(ms));
}

/// Yields instead of sleeping.
pub fn sleep_us(_: u32) {
    std::thread::yield_now();
}

/// Writes to standard error, as much as it takes.
pub fn write_stderr(text: &[u8]) {
    // The text is lost if stderr takes none.
    let _ = std::io::stderr().write_all(text);
}

/// As [`write_stderr`]: Miri's programs keep theirs.
pub fn write_line(line: &[u8]) {
    write_stderr(line);
}

/// Notes nothing.
pub fn note_stderr() {}

/// Ends the process.
pub fn abort() -> ! {
    std::process::abort()
}

/// Sets errno to ENOMEM.
pub fn set_enomem() {
    // SAFETY: libc returns the address of the calling thread's errno, which it may write.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
}

/// The set of signals that a thread has blocked.
pub type SignalMask = u64;

/// Does nothing, as Miri has no signals.
pub fn block_signals() -> SignalMask {
    0
}

/// Does nothing: see [`block_signals`].
pub fn restore_signals(_: SignalMask) {}

/// The token of the calling thread: above 0, and no other thread's while it lives.
pub fn thread_token() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(2);
    std::thread_local! { static MINE: u32 = NEXT.fetch_add(1, Ordering::Relaxed); }
    // 1 in a thread that is ending, where the variable is gone.
    MINE.try_with(|mine| *mine).unwrap_or(1)
}

/// Miri cannot make another thread pass a barrier.
pub enum HeavyBarriers {}

impl HeavyBarriers {
    /// There are none.
    pub fn get() -> Option<Self> {
        None
    }

    /// Nobody calls this.
    #[must_use]
    pub fn pass(&self, _: u32) -> bool {
        false
    }
}
