//! Linux: raw system calls.
//!
//! libc's wrappers would set errno on failure, and some are cancellation points; a raw call is neither.

#[cfg(feature = "fault-injection")]
use super::coarse::call as made;
use super::count::{Kind, counted};
use super::vdso::clock;
use crate::base::sync::AtomicU32;
use core::arch::asm;
#[cfg(not(feature = "fault-injection"))]
use raw as made;

const PROT_NONE: usize = libc::PROT_NONE as usize;
const PROT_RW: usize = (libc::PROT_READ | libc::PROT_WRITE) as usize;
const MADV_POPULATE_WRITE: usize = 23;
const MREMAP_DONTUNMAP: i32 = 4;

// Addresses of the program's own variables that go to the kernel have their provenance exposed: the kernel writes there.

/// A system call with up to six arguments; the result is a negated error number if it failed.
#[inline(always)]
pub(super) fn syscall(number: libc::c_long, a: [usize; 6]) -> isize {
    #[cfg(feature = "fault-injection")]
    if let Some(refused) = super::faults::refuse(number, a) {
        return refused;
    }
    made(number, a)
}

/// The call itself.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn raw(number: libc::c_long, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel reads and writes only what the arguments name; each caller below answers for those.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5], lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

pub(super) fn succeeded(result: isize) -> bool {
    result >= 0
}

/// Reserves `len` bytes of address space without access. None if the system refuses.
pub fn reserve(len: usize) -> Option<usize> {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    let at = counted(Kind::Mmap, || syscall(libc::SYS_mmap, [0, len, PROT_NONE, flags, usize::MAX, 0]));
    usize::try_from(at).ok()
}

/// Gives a part of a reservation up that nobody uses.
pub fn unreserve(at: usize, len: usize) -> bool {
    succeeded(counted(Kind::Mmap, || syscall(libc::SYS_munmap, [at, len, 0, 0, 0, 0])))
}

/// Makes a reserved range readable and writable; it is charged against the commit limit from now on.
pub fn commit(at: usize, len: usize) -> bool {
    succeeded(counted(Kind::Mprotect, || syscall(libc::SYS_mprotect, [at, len, PROT_RW, 0, 0, 0])))
}

/// Makes a reserved range readable: zero, without memory of its own, and not charged.
pub fn make_readable(at: usize, len: usize) -> bool {
    let read = libc::PROT_READ as usize;
    succeeded(counted(Kind::Mprotect, || syscall(libc::SYS_mprotect, [at, len, read, 0, 0, 0])))
}

fn advise(at: usize, len: usize, advice: usize) -> bool {
    succeeded(counted(Kind::Madvise, || syscall(libc::SYS_madvise, [at, len, advice, 0, 0, 0])))
}

/// Gives the memory of a range back; it reads as zero afterwards. Fails where pages are locked.
pub fn purge(at: usize, len: usize) -> bool {
    advise(at, len, libc::MADV_DONTNEED as usize)
}

/// Faults a range in with one call. May fail (old kernels, no memory): then the faults come one by one.
pub fn populate(at: usize, len: usize) -> bool {
    advise(at, len, MADV_POPULATE_WRITE)
}

/// Asks for huge pages in a range.
pub fn want_thp(at: usize, len: usize) -> bool {
    advise(at, len, libc::MADV_HUGEPAGE as usize)
}

/// Takes that back.
pub fn refuse_thp(at: usize, len: usize) -> bool {
    advise(at, len, libc::MADV_NOHUGEPAGE as usize)
}

/// Replaces what is mapped at a range by a fresh map, as it was reserved: inaccessible, and not charged to the process any more.
/// The kernel makes one map of it and its neighbours, unless these were moved there. Fails where there is no room for another
/// map; then it is as it was.
pub fn decommit(at: usize, len: usize) -> bool {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED) as usize;
    succeeded(counted(Kind::Mmap, || syscall(libc::SYS_mmap, [at, len, PROT_NONE, flags, usize::MAX, 0])))
}

/// Moves the pages behind `old`, `len` bytes, to `new`, `room` bytes; both are committed and the caller's. `old` stays
/// committed and then reads as zero, and so does the rest of `new`, which is one map then. No byte is copied. Linux 5.7 and
/// later.
///
/// Older kernels unmap what is at `new` before they find that `old` is more than one map and refuse: another thread's
/// mmap could then land in the hole. So the pages go to a place of the kernel's choice first, which unmaps nothing and
/// leaves them one map, and from there to `new`.
pub fn move_pages(old: usize, len: usize, new: usize, room: usize) -> Moved {
    let flags = (libc::MREMAP_MAYMOVE | MREMAP_DONTUNMAP) as usize;
    let moved = counted(Kind::Mremap, || syscall(libc::SYS_mremap, [old, len, len, flags, 0, 0]));
    let Ok(half_way) = usize::try_from(moved) else { return Moved::No };
    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
    let moved = counted(Kind::Mremap, || syscall(libc::SYS_mremap, [half_way, len, room, flags, new, 0]));
    if succeeded(moved) {
        return Moved::Yes;
    }
    // No more maps, or no memory for page tables. `new` may be a hole now; fill it, unless somebody else has.
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE) as usize;
    let filled = counted(Kind::Mmap, || syscall(libc::SYS_mmap, [new, room, PROT_RW, flags, usize::MAX, 0]));
    let (from, to) = (at(half_way), at(old));
    // SAFETY: `half_way` is a map of `len` bytes that is ours alone; `old` is still mapped, and the caller's.
    unsafe { core::ptr::copy_nonoverlapping(from, to, len) };
    counted(Kind::Mmap, || syscall(libc::SYS_munmap, [half_way, len, 0, 0, 0, 0]));
    if succeeded(filled) { Moved::No } else { Moved::Lost }
}

/// What came of [`move_pages`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// The pages are at `new`.
    Yes,
    /// They are where they were.
    No,
    /// They are where they were, and what is mapped at `new` is not known: it must not be used again.
    Lost,
}

/// The pointer to an address inside memory that was mapped here: the one place where an address becomes a pointer.
#[inline]
pub fn at(address: usize) -> *mut u8 {
    core::ptr::with_exposed_provenance_mut(address)
}

#[cfg(feature = "fault-injection")]
pub use super::coarse::page_size;
#[cfg(not(feature = "fault-injection"))]
pub use machine_page as page_size;

/// The size of a page of memory in bytes.
pub fn machine_page() -> usize {
    // SAFETY: reads the auxiliary vector that the kernel left in the process; no system call.
    unsafe { libc::getauxval(libc::AT_PAGESZ) as usize }
}

/// True if the program runs with rights that its user does not have: then the environment is not to be trusted.
pub fn is_secure() -> bool {
    // SAFETY: as in `page_size`.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Physical memory in bytes; 4 GiB if the system does not tell, or a filter may end the process for asking.
pub fn physical_memory() -> usize {
    const UNKNOWN: usize = 4 << 30;
    if super::is_filtered() {
        return UNKNOWN;
    }
    // SAFETY: an all-zero sysinfo is valid.
    let mut info: libc::sysinfo = unsafe { core::mem::zeroed() };
    let to = (&raw mut info).expose_provenance();
    if !succeeded(counted(Kind::Query, || syscall(libc::SYS_sysinfo, [to, 0, 0, 0, 0, 0]))) {
        return UNKNOWN;
    }
    (info.totalram as usize).saturating_mul(info.mem_unit as usize)
}

/// The limit on the process's address space in bytes, usize::MAX if there is none, or a filter may end the process for asking.
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn address_limit() -> usize {
    if super::is_filtered() {
        return usize::MAX;
    }
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    let to = (&raw mut limit).expose_provenance();
    let resource = libc::RLIMIT_AS as usize;
    counted(Kind::Query, || syscall(libc::SYS_prlimit64, [0, resource, 0, to, 0, 0]));
    limit.rlim_cur as usize
}

/// A coarse clock in milliseconds that wraps; some nanoseconds a call.
pub fn now_ms() -> u32 {
    let t = clock(libc::CLOCK_MONOTONIC_COARSE);
    (t.tv_sec as u64).wrapping_mul(1000).wrapping_add(t.tv_nsec as u64 / 1_000_000) as u32
}

/// Milliseconds from `then` to `now`; 0 if `then` is later, as it is when another thread was quicker.
pub fn age(now: u32, then: u32) -> u32 {
    let age = now.wrapping_sub(then);
    if age > u32::MAX / 2 { 0 } else { age }
}

/// Nanoseconds since some moment.
pub fn now_ns() -> u64 {
    let t = clock(libc::CLOCK_MONOTONIC);
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}

const FUTEX_WAIT: usize = 0;
const FUTEX_WAIT_PRIVATE: usize = 128;
const FUTEX_WAKE_PRIVATE: usize = 129;

fn futex(word: &AtomicU32, operation: usize, value: u32, time: Option<libc::timespec>) {
    let time = time.as_ref().map_or(0, |t| core::ptr::from_ref(t).expose_provenance());
    let at = core::ptr::from_ref(word).expose_provenance();
    counted(Kind::Futex, || syscall(libc::SYS_futex, [at, operation, value as usize, time, 0, 0]));
}

fn span(us: u64) -> libc::timespec {
    libc::timespec { tv_sec: (us / 1_000_000) as _, tv_nsec: (us % 1_000_000 * 1000) as _ }
}

/// Sleeps while `word` is `value`, at most `ms` milliseconds.
pub fn futex_wait(word: &AtomicU32, value: u32, ms: Option<u32>) {
    futex(word, FUTEX_WAIT_PRIVATE, value, ms.map(|ms| span(u64::from(ms) * 1000)));
}

/// Sleeps until the kernel has reset the word of a thread that it ends, at most `ms` milliseconds: it wakes who sleeps there as
/// if the word were shared with other processes.
pub fn futex_wait_for_end(alive: &AtomicU32, value: u32, ms: u32) {
    futex(alive, FUTEX_WAIT, value, Some(span(u64::from(ms) * 1000)));
}

/// Sleeps for so many microseconds.
pub fn sleep_us(us: u32) {
    futex(&AtomicU32::new(0), FUTEX_WAIT_PRIVATE, 0, Some(span(us.into())));
}

/// Wakes one thread that sleeps on `word`.
pub fn futex_wake(word: &AtomicU32) {
    let at = core::ptr::from_ref(word).expose_provenance();
    counted(Kind::Futex, || syscall(libc::SYS_futex, [at, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0]));
}

/// Writes to standard error, as much as it takes.
pub fn write_stderr(text: &[u8]) {
    let mut rest = text;
    while !rest.is_empty() {
        let n = syscall(libc::SYS_write, [2, rest.as_ptr().expose_provenance(), rest.len(), 0, 0, 0]);
        if n == -(libc::EINTR as isize) {
            continue;
        }
        let Some(after) = usize::try_from(n).ok().filter(|&n| n > 0).and_then(|n| rest.get(n..)) else { return };
        rest = after;
    }
}

/// Ends the process by SIGABRT.
pub fn abort() -> ! {
    // SAFETY: abort may be called at any time.
    unsafe { libc::abort() }
}

/// Sets errno to ENOMEM, on the paths that return NULL.
pub fn set_enomem() {
    // SAFETY: errno's location is valid for the calling thread.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
}

/// A token for the calling thread: above 0, below 2³⁰, and its alone as long as it lives.
#[cfg(target_arch = "x86_64")]
pub fn thread_token() -> u32 {
    let thread: usize;
    // SAFETY: the first word of the thread control block is its own address (x86-64 psABI).
    unsafe {
        asm!("mov {}, qword ptr fs:[0]", out(reg) thread, options(pure, readonly, nostack, preserves_flags));
    }
    // Control blocks are pages apart: two with the same token would be 4 TiB apart, to the page.
    ((thread >> 12) as u32 & 0x3fff_ffff).max(1)
}

/// Signals that a thread has blocked, as the kernel keeps them.
pub type SignalMask = u64;

/// Blocks all signals for the calling thread. Returns those that were blocked before.
pub fn block_signals() -> SignalMask {
    let (all, mut old) = (SignalMask::MAX, 0);
    set_mask((&raw const all).expose_provenance(), (&raw mut old).expose_provenance());
    old
}

/// Takes [`block_signals`] back.
pub fn restore_signals(old: SignalMask) {
    set_mask((&raw const old).expose_provenance(), 0);
}

fn set_mask(new: usize, old: usize) {
    let how = libc::SIG_SETMASK as usize;
    syscall(libc::SYS_rt_sigprocmask, [how, new, old, size_of::<SignalMask>(), 0, 0]);
}
