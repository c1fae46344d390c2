//! Linux: raw system calls.
//!
//! libc's wrappers would set errno on failure, and some are cancellation points; a raw call is neither.

use super::count::{Kind, counted};
use crate::sync::AtomicU32;
use core::arch::asm;

const PROT_NONE: usize = libc::PROT_NONE as usize;
const PROT_RW: usize = (libc::PROT_READ | libc::PROT_WRITE) as usize;
const MADV_POPULATE_WRITE: usize = 23;
const MREMAP_DONTUNMAP: i32 = 4;

/// A system call with up to six arguments; the result is a negated error number if it failed.
#[cfg(target_arch = "x86_64")]
fn syscall(number: libc::c_long, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel reads and writes only what the arguments name; each caller below answers for those.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5], lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Asks for the cache line at `p`, which may be any address.
#[inline(always)]
pub fn prefetch(p: *const u8) {
    // SAFETY: a prefetch reads nothing that the program could see, and faults on no address.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(p.cast());
    }
}

fn succeeded(result: isize) -> bool {
    result >= 0
}

/// Reserves `len` bytes of address space without access. None if the system refuses.
pub fn reserve(len: usize) -> Option<usize> {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    let at = counted(Kind::Mmap, || syscall(libc::SYS_mmap, [0, len, PROT_NONE, flags, usize::MAX, 0]));
    usize::try_from(at).ok()
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
pub fn want_huge(at: usize, len: usize) -> bool {
    advise(at, len, libc::MADV_HUGEPAGE as usize)
}

/// Moves the pages behind `old` to `new`; both are `len` bytes, committed. What was at `new` is dropped, `old` stays
/// committed and reads as zero. No byte is copied. Linux 5.7 and later.
pub fn move_pages(old: usize, len: usize, new: usize) -> bool {
    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | MREMAP_DONTUNMAP) as usize;
    succeeded(counted(Kind::Mremap, || syscall(libc::SYS_mremap, [old, len, len, flags, new, 0])))
}

/// Marks in `map`, a byte for each 4 KiB of the range, what is resident (bit 0).
pub fn resident(at: usize, len: usize, map: &mut [u8]) -> bool {
    debug_assert!(map.len() * page_size() >= len);
    let to = map.as_mut_ptr().addr();
    succeeded(counted(Kind::Mincore, || syscall(libc::SYS_mincore, [at, len, to, 0, 0, 0])))
}

/// The size of a page of memory in bytes.
pub fn page_size() -> usize {
    // SAFETY: reads the auxiliary vector that the kernel left in the process; no system call.
    unsafe { libc::getauxval(libc::AT_PAGESZ) as usize }
}

/// Physical memory in bytes; 4 GiB if the system does not tell.
pub fn physical_memory() -> usize {
    // SAFETY: an all-zero sysinfo is valid.
    let mut info: libc::sysinfo = unsafe { core::mem::zeroed() };
    let to = (&raw mut info).addr();
    if !succeeded(counted(Kind::Query, || syscall(libc::SYS_sysinfo, [to, 0, 0, 0, 0, 0]))) {
        return 4 << 30;
    }
    (info.totalram as usize).saturating_mul(info.mem_unit as usize)
}

/// The limit on the process's address space in bytes, usize::MAX if there is none.
pub fn address_limit() -> usize {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    let to = (&raw mut limit).addr();
    let resource = libc::RLIMIT_AS as usize;
    counted(Kind::Query, || syscall(libc::SYS_prlimit64, [0, resource, 0, to, 0, 0]));
    limit.rlim_cur as usize
}

fn clock(id: libc::clockid_t) -> libc::timespec {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec. The vDSO answers without a system call, and it cannot fail for these clocks.
    unsafe { libc::clock_gettime(id, &mut t) };
    t
}

/// A coarse clock in milliseconds that wraps; some nanoseconds a call.
pub fn now_ms() -> u32 {
    let t = clock(libc::CLOCK_MONOTONIC_COARSE);
    (t.tv_sec as u64).wrapping_mul(1000).wrapping_add(t.tv_nsec as u64 / 1_000_000) as u32
}

/// Nanoseconds since some moment.
pub fn now_ns() -> u64 {
    let t = clock(libc::CLOCK_MONOTONIC);
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}

const FUTEX_WAIT_PRIVATE: usize = 128;
const FUTEX_WAKE_PRIVATE: usize = 129;

/// Sleeps while `word` is `value`, at most `ms` milliseconds.
pub fn futex_wait(word: &AtomicU32, value: u32, ms: Option<u32>) {
    let time =
        ms.map(|ms| libc::timespec { tv_sec: (ms / 1000).into(), tv_nsec: ((ms % 1000) * 1_000_000).into() });
    let time = time.as_ref().map_or(0, |t| core::ptr::from_ref(t).addr());
    let at = core::ptr::from_ref(word).addr();
    counted(Kind::Futex, || syscall(libc::SYS_futex, [at, FUTEX_WAIT_PRIVATE, value as usize, time, 0, 0]));
}

/// Wakes one thread that sleeps on `word`.
pub fn futex_wake(word: &AtomicU32) {
    let at = core::ptr::from_ref(word).addr();
    counted(Kind::Futex, || syscall(libc::SYS_futex, [at, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0]));
}

/// Writes to standard error, as much as it takes.
pub fn write_stderr(text: &[u8]) {
    let mut rest = text;
    while !rest.is_empty() {
        let n = syscall(libc::SYS_write, [2, rest.as_ptr().addr(), rest.len(), 0, 0, 0]);
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

/// Bytes of the bare thread's stack.
const STACK: usize = 32 << 10;

#[repr(C, align(4096))]
struct Stack(core::cell::UnsafeCell<[u8; STACK]>);
// SAFETY: only the one bare thread uses it; nobody reads it.
unsafe impl Sync for Stack {}
static BARE_STACK: Stack = Stack(core::cell::UnsafeCell::new([0; STACK]));

/// Starts the one bare thread of the process: it shares everything, has all signals blocked, and runs `work` on a
/// stack of its own. It must not use thread-local storage (the segment register is its maker's) nor call into libc
/// where libc would. Returns whether it was made. At most one may ever run in a process.
#[cfg(target_arch = "x86_64")]
pub fn spawn_bare(work: extern "C" fn() -> !) -> bool {
    const FLAGS: i32 = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM;
    const MASK_BYTES: usize = 8;
    let (all, mut old) = (u64::MAX, 0u64);
    let block = libc::SIG_SETMASK as usize;
    let (all_at, old_at) = ((&raw const all).addr(), (&raw mut old).addr());
    syscall(libc::SYS_rt_sigprocmask, [block, all_at, old_at, MASK_BYTES, 0, 0]);
    let top = BARE_STACK.0.get().addr() + STACK;
    let made = counted(Kind::Clone, || {
        let result: isize;
        // SAFETY: the child has its own stack, whose top is aligned; it never returns from `work`, and touches
        // nothing of this frame. The kernel clobbers rcx and r11 only.
        unsafe {
            asm!("syscall", "test rax, rax", "jnz 2f", "xor ebp, ebp", "call r12", "ud2", "2:",
                in("r12") work,
                inlateout("rax") libc::SYS_clone as isize => result,
                in("rdi") FLAGS as isize, in("rsi") top, in("rdx") 0, in("r10") 0, in("r8") 0,
                lateout("rcx") _, lateout("r11") _);
        }
        result
    });
    syscall(libc::SYS_rt_sigprocmask, [block, old_at, 0, MASK_BYTES, 0, 0]);
    succeeded(made)
}
