//! Linux: raw system calls.
//!
//! libc's wrappers set errno when they fail, and some are cancellation points. A raw system call
//! leaves errno alone and is no cancellation point.

#[cfg(feature = "fault-injection")]
use super::coarse::call as made;
use super::count::{Kind, counted};
pub(super) use super::processor::raw;
use super::vdso::clock;
use crate::base::sync::plain::AtomicUsize;
use crate::base::sync::{AtomicU32, Ordering::Relaxed};
#[cfg(not(feature = "fault-injection"))]
use raw as made;

const PROT_NONE: usize = libc::PROT_NONE as usize;
pub(super) const PROT_RW: usize = (libc::PROT_READ | libc::PROT_WRITE) as usize;
const MADV_POPULATE_WRITE: usize = 23;

// Where a variable's address goes to the kernel, its provenance is exposed: the kernel may write
// there.

/// Makes a system call with up to six arguments. A negative result is a negated error number.
#[inline(always)]
pub(super) fn syscall(number: libc::c_long, a: [usize; 6]) -> isize {
    #[cfg(feature = "fault-injection")]
    if let Some(refused) = super::faults::refuse(number, a) {
        return refused;
    }
    made(number, a)
}

pub(super) fn succeeded(result: isize) -> bool {
    result >= 0
}

/// Reserves `len` bytes of inaccessible address space. None: the system refuses.
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn reserve(len: usize) -> Option<usize> {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    let at =
        counted(Kind::Mmap, || syscall(libc::SYS_mmap, [0, len, PROT_NONE, flags, usize::MAX, 0]));
    usize::try_from(at).ok()
}

/// Gives up a part of a reservation that no thread uses.
pub fn unreserve(at: usize, len: usize) -> bool {
    succeeded(counted(Kind::Mmap, || syscall(libc::SYS_munmap, [at, len, 0, 0, 0, 0])))
}

/// Makes a reserved range readable and writable. It counts against the commit limit from now on.
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn commit(at: usize, len: usize) -> bool {
    succeeded(counted(Kind::Mprotect, || syscall(libc::SYS_mprotect, [at, len, PROT_RW, 0, 0, 0])))
}

/// False if the system refuses so many bytes to a program that maps them. It refuses a map of more
/// than the machine has, but not a reservation that becomes writable.
#[inline]
pub fn may_have(len: usize) -> bool {
    len <= PHYSICAL.load(Relaxed) || would_map(len)
}

/// True if the system maps so many bytes for the process. It gives them back at once.
#[cold]
#[inline(never)]
fn would_map(len: usize) -> bool {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    let map = || syscall(libc::SYS_mmap, [0, len, PROT_RW, flags, usize::MAX, 0]);
    match usize::try_from(counted(Kind::Mmap, map)) {
        Ok(at) => unreserve(at, len),
        // The reservation may have taken what a limit on address space allows.
        Err(_) => (len..usize::MAX).contains(&address_limit()),
    }
}

/// Makes a reserved range readable. It reads as zero, takes no memory, and is not charged.
pub fn make_readable(at: usize, len: usize) -> bool {
    let read = libc::PROT_READ as usize;
    succeeded(counted(Kind::Mprotect, || syscall(libc::SYS_mprotect, [at, len, read, 0, 0, 0])))
}

#[unsafe(link_section = ".text.hot.hakmem")]
fn advise(at: usize, len: usize, advice: usize) -> bool {
    succeeded(counted(Kind::Madvise, || syscall(libc::SYS_madvise, [at, len, advice, 0, 0, 0])))
}

/// Gives the memory of a range back. The range reads as zero afterwards. Fails for locked memory.
pub fn purge(at: usize, len: usize) -> bool {
    #[cfg(all(test, not(any(loom, shuttle))))]
    super::stops::before_purge();
    advise(at, len, libc::MADV_DONTNEED as usize)
}

/// Faults a range in with one call. False (old kernels, no memory): the faults come one by one.
pub fn populate(at: usize, len: usize) -> bool {
    advise(at, len, MADV_POPULATE_WRITE)
}

/// True if all pages of a range are mapped. A program may have left some out of the child of its
/// fork (MADV_DONTFORK).
pub fn is_mapped(at: usize, len: usize) -> bool {
    // It changes nothing: no range of hakmem has another advice about the order of accesses.
    advise(at, len, libc::MADV_NORMAL as usize)
}

/// Leaves a reserved range out of core dumps. A debugger that dumps the process would else write
/// zeros for all of it.
pub fn leave_out_of_dumps(at: usize, len: usize) -> bool {
    advise(at, len, libc::MADV_DONTDUMP as usize)
}

/// Takes a range into core dumps again. The kernel may then join it with its neighbours.
pub fn take_into_dumps(at: usize, len: usize) -> bool {
    advise(at, len, libc::MADV_DODUMP as usize)
}

/// Asks for THP in a range.
pub fn want_thp(at: usize, len: usize) -> bool {
    advise(at, len, libc::MADV_HUGEPAGE as usize)
}

/// Asks for no THP in a range.
pub fn refuse_thp(at: usize, len: usize) -> bool {
    advise(at, len, libc::MADV_NOHUGEPAGE as usize)
}

/// Makes a range as it was when it was reserved: a fresh map, inaccessible, and no longer charged
/// to the process. The kernel joins the map with its neighbours, except with maps that were moved
/// there. Fails where the process may have no further map. Then the range stays as it was.
pub fn decommit(at: usize, len: usize) -> bool {
    let flags =
        (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED) as usize;
    succeeded(counted(Kind::Mmap, || {
        syscall(libc::SYS_mmap, [at, len, PROT_NONE, flags, usize::MAX, 0])
    }))
}

/// The pointer to an address in memory that was mapped here. No other function makes such a pointer
/// of an address.
#[inline]
pub fn at(address: usize) -> *mut u8 {
    core::ptr::with_exposed_provenance_mut(address)
}

#[cfg(feature = "fault-injection")]
pub use super::coarse::page_size;
#[cfg(not(feature = "fault-injection"))]
pub use machine_page as page_size;

/// Bytes of a system page.
pub fn machine_page() -> usize {
    // SAFETY: any key may be asked for. The answer comes from the auxiliary vector, which stays.
    unsafe { libc::getauxval(libc::AT_PAGESZ) as usize }
}

/// True if the program has rights that its user does not have. Then do not trust the environment.
pub fn is_secure() -> bool {
    // SAFETY: any key may be asked for. The answer comes from the auxiliary vector, which stays.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Two random words. They come from the kernel, which gives them at any time once it has started.
/// Not by the C library's function: a sanitizer's runtime stands in front of it, and may allocate
/// before it can be called.
pub fn random() -> [usize; 2] {
    let mut words = [0_usize; 2];
    let (to, bytes) = ((&raw mut words).expose_provenance(), size_of_val(&words));
    let flags = libc::GRND_NONBLOCK as usize;
    if made(libc::SYS_getrandom, [to, bytes, flags, 0, 0, 0]) == bytes as isize {
        return words;
    }
    // SAFETY: the auxiliary vector leads to 16 bytes that stay.
    unsafe { (libc::getauxval(libc::AT_RANDOM) as usize as *const [usize; 2]).read_unaligned() }
}

/// What the system said of its physical memory. No bound: it was not asked yet.
static PHYSICAL: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Physical memory in bytes. 4 GiB if the system does not say, or if the process made a filter,
/// which may end it for asking.
pub fn physical_memory() -> usize {
    const UNKNOWN: usize = 4 << 30;
    if super::is_filtered() {
        return UNKNOWN;
    }
    // SAFETY: all fields of sysinfo are integers, so all zero bytes are a valid one.
    let mut info: libc::sysinfo = unsafe { core::mem::zeroed() };
    let to = (&raw mut info).expose_provenance();
    if !succeeded(counted(Kind::Query, || syscall(libc::SYS_sysinfo, [to, 0, 0, 0, 0, 0]))) {
        return UNKNOWN;
    }
    let bytes = (info.totalram as usize).saturating_mul(info.mem_unit as usize);
    PHYSICAL.store(bytes, Relaxed);
    bytes
}

/// The limit on the process's address space in bytes. usize::MAX if there is none, or if the
/// process made a filter, which may end it for asking.
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

/// Milliseconds of a coarse monotonic clock. They wrap. A call takes some nanoseconds.
pub fn now_ms() -> u32 {
    let t = clock(libc::CLOCK_MONOTONIC_COARSE);
    (t.tv_sec as u64).wrapping_mul(1000).wrapping_add(t.tv_nsec as u64 / 1_000_000) as u32
}

/// Milliseconds from `then` to `now`. 0 if `then` is later by a quarter of an hour at most: another
/// thread may have read the clock for `then` after this thread read it for `now`.
pub fn age(now: u32, then: u32) -> u32 {
    const LATER: u32 = 1 << 20;
    let age = now.wrapping_sub(then);
    if age > u32::MAX - LATER { 0 } else { age }
}

/// Nanoseconds of the monotonic clock.
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

/// Sleeps while `word` is `value`, at most `ms` milliseconds. May return earlier.
pub fn futex_wait(word: &AtomicU32, value: u32, ms: Option<u32>) {
    // Threads that run in turn do not wait in the kernel.
    #[cfg(all(feature = "ledger", not(any(loom, shuttle))))]
    if crate::base::sync::sleep(word, value) {
        return;
    }
    futex(word, FUTEX_WAIT_PRIVATE, value, ms.map(|ms| span(u64::from(ms) * 1000)));
}

/// Sleeps while `alive` is `value`, at most `ms` milliseconds. The kernel sets `alive` to 0 when it
/// ends the thread, and wakes sleepers as for a word that processes share. So this is no private
/// wait.
pub fn futex_wait_for_end(alive: &AtomicU32, value: u32, ms: u32) {
    futex(alive, FUTEX_WAIT, value, Some(span(u64::from(ms) * 1000)));
}

/// Sleeps for `us` microseconds, or less if a signal interrupts it.
pub fn sleep_us(us: u32) {
    futex(&AtomicU32::new(0), FUTEX_WAIT_PRIVATE, 0, Some(span(us.into())));
}

/// Wakes one thread that sleeps in [`futex_wait`] on `word`.
pub fn futex_wake(word: &AtomicU32) {
    #[cfg(all(feature = "ledger", not(any(loom, shuttle))))]
    crate::base::sync::wake(word);
    let at = core::ptr::from_ref(word).expose_provenance();
    counted(Kind::Futex, || syscall(libc::SYS_futex, [at, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0]));
}

/// Writes `text` to standard error, until all is written or a write fails.
pub fn write_stderr(text: &[u8]) {
    let _ = write(2, text);
}

/// Writes `text` to a descriptor, without libc. False: not all was written.
pub fn write(fd: usize, text: &[u8]) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let n =
            syscall(libc::SYS_write, [fd, rest.as_ptr().expose_provenance(), rest.len(), 0, 0, 0]);
        if n == -(libc::EINTR as isize) {
            continue;
        }
        let Some(after) = usize::try_from(n).ok().filter(|&n| n > 0).and_then(|n| rest.get(n..))
        else {
            return false;
        };
        rest = after;
    }
    true
}

/// Ends the process by SIGABRT.
#[cold]
pub fn abort() -> ! {
    #[cfg(not(any(miri, sanitizer, shuttle)))]
    if super::is_bare() {
        super::bare::abort();
    }
    // SAFETY: abort has no preconditions.
    unsafe { libc::abort() }
}

/// Sets errno to ENOMEM, for the paths that return NULL.
pub fn set_enomem() {
    // SAFETY: libc gives the calling thread its own errno, which stays as long as the thread.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
}

/// A token for the calling thread: above 0, below 2³⁰. Two threads that run have the same one only
/// by a chance of about 2⁻³⁰.
pub fn thread_token() -> u32 {
    // No two control blocks lie in the same 4 KiB. Two with the same token are a multiple of 4 TiB
    // apart, as a static program's first one, which lies behind the program, may be from a mapped
    // one.
    ((super::processor::control_block() >> 12) as u32 & 0x3fff_ffff).max(1)
}

/// The set of signals that a thread has blocked, as the kernel keeps it.
pub type SignalMask = u64;

/// Blocks all signals for the calling thread. Returns the set of those that were blocked before.
pub fn block_signals() -> SignalMask {
    let (all, mut old) = (SignalMask::MAX, 0);
    set_mask((&raw const all).expose_provenance(), (&raw mut old).expose_provenance());
    old
}

/// Restores the set that [`block_signals`] returned.
pub fn restore_signals(old: SignalMask) {
    set_mask((&raw const old).expose_provenance(), 0);
}

fn set_mask(new: usize, old: usize) {
    let how = libc::SIG_SETMASK as usize;
    syscall(libc::SYS_rt_sigprocmask, [how, new, old, size_of::<SignalMask>(), 0, 0]);
}
