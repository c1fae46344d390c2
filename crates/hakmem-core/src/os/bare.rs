//! The bare thread: a thread that libc does not know of. The scavenger runs on it.
//!
//! `pthread_create` takes locks, and glibc frees memory while it holds them. So `free` cannot call
//! `pthread_create`, but it can call clone. The bare thread has its own stack and its own, empty
//! thread-local storage. Both are static.
//!
//! Rules
//! 1. A process has at most one bare thread. Its maker knows that the last one is gone before it
//!    makes the next (`proto::worker`).
//! 2. The bare thread calls no function of libc that touches thread-local variables, such as
//!    `errno`. Libc finds its own at an offset that has nothing to do with this storage. So what
//!    may run on any thread asks [`is_bare`] before it calls libc.

use super::count::{Kind, counted};
use super::linux::{succeeded, syscall};
use super::processor;
#[cfg(target_env = "gnu")]
use crate::base::sync::AtomicU8;
use crate::base::sync::{AtomicU32, Ordering};

/// Bytes of the bare thread's stack.
const STACK: usize = 32 << 10;
/// Bytes of the bare thread's own thread-local storage, half of them below its control block. The
/// variables lie below it on x86-64, and above it on aarch64.
const TLS: usize = 8 << 10;

// Not aligned to a system page: the small statics around it can then share its first and last one.
#[repr(C, align(64))]
struct Bare<const N: usize>(core::cell::UnsafeCell<[u8; N]>);
// SAFETY: the maker writes here before the bare thread runs, and only the bare thread uses it from
// then on. There is one bare thread at a time (rule 1).
unsafe impl<const N: usize> Sync for Bare<N> {}
static BARE_STACK: Bare<STACK> = Bare(core::cell::UnsafeCell::new([0; STACK]));
static BARE_TLS: Bare<TLS> = Bare(core::cell::UnsafeCell::new([0; TLS]));

/// The addresses of the bare thread's thread-local storage.
#[cfg(all(test, not(any(loom, feature = "fault-injection"))))]
pub fn tls_room() -> core::ops::Range<usize> {
    let start = BARE_TLS.0.get().expose_provenance();
    start..start + TLS
}

/// True if the calling thread is the bare one (rule 2).
pub fn is_bare() -> bool {
    processor::control_block().wrapping_sub(BARE_TLS.0.get().expose_provenance()) < TLS
}

/// Ends the process by SIGABRT, on the bare thread. A handler of the program's needs a thread of
/// the program's. So the signal goes to the process. All signals are blocked here, so another
/// thread takes it. If the process is still there some seconds later, the handler came back, or
/// the signal was ignored: then the process ends without a handler.
pub(super) fn abort() -> ! {
    const HANDLER_MS: u32 = 5_000;
    let signal = libc::SIGABRT as usize;
    let process = syscall(libc::SYS_getpid, [0; 6]) as usize;
    // The kernel's action begins with the handler. No part of it is longer than these words.
    let mut action = [libc::SIG_DFL; 8];
    let at = |words: &[usize; 8]| words.as_ptr().expose_provenance();
    let set = size_of::<super::SignalMask>();
    let to = action.as_mut_ptr().expose_provenance();
    syscall(libc::SYS_rt_sigaction, [signal, 0, to, set, 0, 0]);
    syscall(libc::SYS_kill, [process, signal, 0, 0, 0, 0]);
    if action[0] != libc::SIG_IGN {
        (0..HANDLER_MS).for_each(|_| super::sleep_us(1000));
    }
    let default = [libc::SIG_DFL; 8];
    syscall(libc::SYS_rt_sigaction, [signal, at(&default), 0, set, 0, 0]);
    super::restore_signals(!(1 << (libc::SIGABRT - 1)));
    let thread = syscall(libc::SYS_gettid, [0; 6]) as usize;
    syscall(libc::SYS_tgkill, [process, thread, signal, 0, 0, 0]);
    loop {
        syscall(libc::SYS_exit_group, [128 + signal, 0, 0, 0, 0, 0]);
    }
}

/// Writes `bytes` to the file of this name, which `flags` open. For the bare thread. False: not all
/// was written.
pub fn write_to(name: &core::ffi::CStr, flags: i32, bytes: &[u8]) -> bool {
    const HERE: usize = libc::AT_FDCWD as isize as usize;
    let name = name.as_ptr().expose_provenance();
    let fd = syscall(libc::SYS_openat, [HERE, name, flags as usize, 0o600, 0, 0]);
    let Ok(fd) = usize::try_from(fd) else { return false };
    let done = super::linux::write(fd, bytes);
    syscall(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
    done
}

/// Names the calling thread, a bare one, and schedules it as the process's first thread, but never
/// in real time. Before, its priority and processors are those of whichever thread made it. A
/// setting that the system refuses stays as it is.
///
/// A filter for system calls may end the process for these calls: units of systemd do so. So in a
/// process that may have one the thread is named by a file, and scheduled as its maker.
pub fn be_ordinary() {
    const NAME: &core::ffi::CStr = c"hakmem-purge";
    if super::is_careful() {
        write_to(c"/proc/thread-self/comm", libc::O_WRONLY | libc::O_CLOEXEC, NAME.to_bytes());
        return;
    }
    let at = |p: *const u8| p.expose_provenance();
    syscall(libc::SYS_prctl, [libc::PR_SET_NAME as usize, at(NAME.as_ptr().cast()), 0, 0, 0, 0]);
    schedule_as_first();
}

/// Schedules the calling thread as the process's first one.
fn schedule_as_first() {
    /// Room for 8192 processors.
    const WORDS: usize = 128;
    let at = |p: *const u8| p.expose_provenance();
    const RESET_ON_FORK: isize = 0x4000_0000;
    let first = syscall(libc::SYS_getpid, [0; 6]) as usize;
    let policy = |thread| syscall(libc::SYS_sched_getscheduler, [thread, 0, 0, 0, 0, 0]);
    let wanted = match policy(first) & !RESET_ON_FORK {
        firsts if firsts == libc::SCHED_BATCH as isize => firsts,
        firsts if firsts == libc::SCHED_IDLE as isize => firsts,
        _ => libc::SCHED_OTHER as isize,
    };
    if policy(0) != wanted {
        // The kernel's `struct sched_param` is the priority alone. Some C libraries have more in
        // it.
        let none: libc::c_int = 0;
        let none = at((&raw const none).cast());
        syscall(libc::SYS_sched_setscheduler, [0, wanted as usize, none, 0, 0, 0]);
    }
    let mut processors = [0usize; WORDS];
    let to = processors.as_mut_ptr().expose_provenance();
    if let Ok(len @ 1..) =
        usize::try_from(syscall(libc::SYS_sched_getaffinity, [first, WORDS * 8, to, 0, 0, 0]))
    {
        syscall(libc::SYS_sched_setaffinity, [0, len, to, 0, 0, 0]);
    }
    // The system call returns 20 minus the niceness.
    let nice = |of: usize| {
        20 - syscall(libc::SYS_getpriority, [libc::PRIO_PROCESS as usize, of, 0, 0, 0, 0])
    };
    if nice(first) != nice(0) {
        syscall(
            libc::SYS_setpriority,
            [libc::PRIO_PROCESS as usize, 0, nice(first) as usize, 0, 0, 0],
        );
    }
}

/// Starts the one bare thread of the process. It runs `work`, and ends when `work` returns. Returns
/// the thread's number, or 0 if the system refuses.
///
/// The thread shares everything with its maker except its stack and its thread-local storage. The
/// latter is empty, not the maker's: the maker may end first. `alive` is not 0 from now until the
/// kernel has ended the thread: the kernel writes the thread's number there, and 0 at its end.
///
/// For callers: no other bare thread runs (rule 1). All signals are blocked, and the thread
/// inherits that. `work` uses no more thread-local storage than the stack protector does (rule 2).
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
    let top = BARE_STACK.0.get().expose_provenance() + STACK;
    let made = counted(Kind::Clone, || {
        #[cfg(feature = "fault-injection")]
        if let Some(refused) = super::faults::refuse(libc::SYS_clone, [0; 6]) {
            return refused;
        }
        // SAFETY: the stack and the storage are statics that only the bare thread uses, and there
        // is no other (rule 1). Statics of that alignment end at a multiple of 64. `alive` is
        // static, so the kernel may write there at any time. The flags share everything.
        unsafe { processor::clone(FLAGS, top, control, alive_at, work) }
    });
    if !succeeded(made) {
        alive.store(0, Ordering::Relaxed);
        return 0;
    }
    made as u32
}

/// Asks whether the process has a thread of this number. 0: it has.
fn ask_for(number: u32) -> isize {
    let process = syscall(libc::SYS_getpid, [0; 6]);
    syscall(libc::SYS_tgkill, [process as usize, number as usize, 0, 0, 0, 0])
}

/// True if the process has a thread of this number. A filter may refuse the question: then the
/// thread counts as there.
pub fn is_thread(number: u32) -> bool {
    number != 0 && ask_for(number) != -(libc::ESRCH as isize)
}

/// True if the system says that the process has a thread of this number.
pub fn is_counted(number: u32) -> bool {
    succeeded(ask_for(number))
}

/// The number of the process. A process with a filter for its system calls may ask, too: reports
/// need the call.
pub fn process() -> u32 {
    syscall(libc::SYS_getpid, [0; 6]) as u32
}

/// The numbers of the process and of the calling thread.
pub fn numbers() -> (u32, u32) {
    (process(), syscall(libc::SYS_gettid, [0; 6]) as u32)
}

/// True if libc knows of no second thread that the process has or had.
#[cfg(target_env = "gnu")]
pub fn is_single_threaded() -> bool {
    let known: *const AtomicU8;
    // SAFETY: the linker gives a weak symbol an entry in the table of addresses. The load reads
    // that entry: null where libc has no such variable (before glibc 2.32).
    unsafe { known = processor::address_of!("__libc_single_threaded") };
    // SAFETY: null, or the address of libc's variable: a char, which stays until the process ends.
    unsafe { known.as_ref() }.is_some_and(|known| known.load(Ordering::Relaxed) != 0)
}

/// False: unknown here.
#[cfg(not(target_env = "gnu"))]
pub fn is_single_threaded() -> bool {
    false
}

/// True in a child of vfork, and in a process made by a raw system call. There libc still has the
/// parent's number for the calling thread.
pub fn in_borrowed_process() -> bool {
    another_thread().is_some()
}

/// True in a child of vfork: it shares its parent's memory. A process made by a raw system call
/// mostly has a copy of it. If the system does not tell, the memory counts as shared.
pub fn in_shared_memory() -> bool {
    const KCMP_VM: usize = 1;
    let Some((parents, own)) = another_thread() else { return false };
    // 0: the same memory.
    syscall(libc::SYS_kcmp, [parents as usize, own as usize, KCMP_VM, 0, 0, 0]) <= 0
}

/// The number that libc has for the calling thread, and the right one, if they differ.
fn another_thread() -> Option<(isize, isize)> {
    let believed = isize::try_from(libc_number()).ok().filter(|&number| number != 0)?;
    let own = syscall(libc::SYS_gettid, [0; 6]);
    (believed != own).then_some((believed, own))
}

/// The number that libc has for the calling thread, without a system call. 0: it has none. In a
/// child of vfork, that of the parent's thread.
pub fn libc_number() -> u32 {
    let mut clock = 0;
    // SAFETY: the calling thread exists, so its handle is valid, and `clock` is valid for the
    // write. libc answers from its own data, without a system call.
    if unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) } != 0 {
        return 0;
    }
    // Linux makes a thread's clock of its number: inverted, and shifted left by three bits.
    u32::try_from(!(clock >> 3)).unwrap_or(0)
}
