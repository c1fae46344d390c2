//! The bare thread: one thread of our own that libc does not know of.
//!
//! `pthread_create` takes locks under which glibc itself frees memory, so it cannot be called from `free`; a bare clone
//! can. It has its own stack and its own, empty thread-local storage, both static.

use super::count::{Kind, counted};
use super::linux::{succeeded, syscall};
use crate::base::sync::{AtomicU8, AtomicU32, Ordering};
use core::arch::asm;
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
use core::arch::global_asm;

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
global_asm!(".weak __libc_single_threaded");

/// Bytes of the bare thread's stack.
const STACK: usize = 32 << 10;
/// Bytes of the bare thread's own thread-local storage: half below its control block, for variables, half above.
const TLS: usize = 8 << 10;

// No page alignment: that would keep the small statics around it from sharing pages.
#[repr(C, align(64))]
struct Bare<const N: usize>(core::cell::UnsafeCell<[u8; N]>);
// SAFETY: only the one bare thread uses it; nobody reads it.
unsafe impl<const N: usize> Sync for Bare<N> {}
static BARE_STACK: Bare<STACK> = Bare(core::cell::UnsafeCell::new([0; STACK]));
static BARE_TLS: Bare<TLS> = Bare(core::cell::UnsafeCell::new([0; TLS]));

/// Where the bare thread's thread-local storage is.
#[cfg(all(test, not(any(loom, feature = "fault-injection"))))]
pub fn tls_room() -> core::ops::Range<usize> {
    let start = BARE_TLS.0.get().expose_provenance();
    start..start + TLS
}

/// The calling thread, which is a bare one, is scheduled as the process's first thread is, but never in real time: it inherits
/// from whichever thread made it. And it has a name. What the system refuses stays as it is.
pub fn be_ordinary() {
    const NAME: &core::ffi::CStr = c"hakmem-purge";
    /// Room for 8192 processors.
    const WORDS: usize = 128;
    let at = |p: *const u8| p.expose_provenance();
    syscall(libc::SYS_prctl, [libc::PR_SET_NAME as usize, at(NAME.as_ptr().cast()), 0, 0, 0, 0]);
    let other = libc::SCHED_OTHER as isize;
    if syscall(libc::SYS_sched_getscheduler, [0; 6]) != other {
        let none = libc::sched_param { sched_priority: 0 };
        let none = at((&raw const none).cast());
        syscall(libc::SYS_sched_setscheduler, [0, other as usize, none, 0, 0, 0]);
    }
    let first = syscall(libc::SYS_getpid, [0; 6]) as usize;
    let mut processors = [0usize; WORDS];
    let to = processors.as_mut_ptr().expose_provenance();
    if let Ok(len @ 1..) = usize::try_from(syscall(libc::SYS_sched_getaffinity, [first, WORDS * 8, to, 0, 0, 0])) {
        syscall(libc::SYS_sched_setaffinity, [0, len, to, 0, 0, 0]);
    }
    // The call gives 20 less the niceness.
    let nice = |of: usize| 20 - syscall(libc::SYS_getpriority, [libc::PRIO_PROCESS as usize, of, 0, 0, 0, 0]);
    if nice(first) != nice(0) {
        syscall(libc::SYS_setpriority, [libc::PRIO_PROCESS as usize, 0, nice(first) as usize, 0, 0, 0]);
    }
}

/// Starts the one bare thread of the process: it shares everything, has the signals blocked that its maker has, which
/// must be all, and runs `work` on a stack of its own, with an empty thread-local storage (its maker's may be gone before
/// it). It must not call what uses more of it than the stack protector does. The thread ends when `work` returns; `alive`
/// is its number, from now until the kernel ends it. Returns that number; 0: it could not be made. At most one may run in a
/// process at a time.
#[cfg(target_arch = "x86_64")]
pub fn spawn_bare(work: extern "C" fn(), alive: &'static AtomicU32) -> u32 {
    const FLAGS: i32 = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM
        | libc::CLONE_PARENT_SETTID
        | libc::CLONE_CHILD_CLEARTID
        | libc::CLONE_SETTLS;
    alive.store(1, Ordering::Relaxed);
    let alive_at = core::ptr::from_ref(alive).expose_provenance();
    let control = BARE_TLS.0.get().cast::<u8>().wrapping_add(TLS / 2).cast::<usize>();
    let tls = control.expose_provenance();
    // SAFETY: inside the static; nobody else uses it. A control block's first and third words are its own address.
    unsafe {
        control.write(tls);
        control.add(2).write(tls);
    }
    let top = BARE_STACK.0.get().expose_provenance() + STACK;
    let made = counted(Kind::Clone, || {
        #[cfg(feature = "fault-injection")]
        if let Some(refused) = super::faults::refuse(libc::SYS_clone, [0; 6]) {
            return refused;
        }
        let result: isize;
        // SAFETY: the child has its own stack, whose top is aligned; it ends itself behind `work`, and touches nothing of
        // this frame. The kernel clobbers rcx and r11 only.
        unsafe {
            asm!("syscall", "test rax, rax", "jnz 2f", "xor ebp, ebp", "call r12",
                "xor edi, edi", "mov eax, {exit}", "syscall", "ud2", "2:",
                exit = const libc::SYS_exit, in("r12") work,
                inlateout("rax") libc::SYS_clone as isize => result,
                in("rdi") FLAGS as isize, in("rsi") top, in("rdx") alive_at, in("r10") alive_at, in("r8") tls,
                lateout("rcx") _, lateout("r11") _);
        }
        result
    });
    if !succeeded(made) {
        alive.store(0, Ordering::Relaxed);
        return 0;
    }
    made as u32
}

/// True if the process has a thread of this number.
pub fn is_thread(number: u32) -> bool {
    let process = syscall(libc::SYS_getpid, [0; 6]);
    succeeded(syscall(libc::SYS_tgkill, [process as usize, number as usize, 0, 0, 0, 0]))
}

/// The numbers of the process and of the calling thread.
pub fn numbers() -> (u32, u32) {
    (syscall(libc::SYS_getpid, [0; 6]) as u32, syscall(libc::SYS_gettid, [0; 6]) as u32)
}

/// True if the process never had a second thread, as far as libc knows.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
pub fn is_single_threaded() -> bool {
    let known: *const AtomicU8;
    // SAFETY: reads the variable's address from the table of addresses; null where libc (before glibc 2.32) has none.
    unsafe {
        asm!("mov {}, qword ptr [rip + __libc_single_threaded@GOTPCREL]", out(reg) known, options(pure, readonly, nostack, preserves_flags));
    }
    // SAFETY: libc's variable, which is a char, and for ever.
    unsafe { known.as_ref() }.is_some_and(|known| known.load(Ordering::Relaxed) != 0)
}

/// Not known.
#[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
pub fn is_single_threaded() -> bool {
    false
}

/// True in a child of vfork, and in one made by a raw system call: libc believes that the thread is its parent's.
pub fn in_borrowed_process() -> bool {
    let mut clock = 0;
    // SAFETY: asks libc for what it knows of the calling thread, without a system call.
    if unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) } != 0 {
        return false;
    }
    // A thread's clock is its number, inverted, above three bits (Linux).
    let believed = !(clock >> 3) as isize;
    believed != syscall(libc::SYS_gettid, [0; 6])
}
