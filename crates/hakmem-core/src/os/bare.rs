//! The bare thread: one thread of our own that libc does not know of.
//!
//! `pthread_create` takes locks under which glibc itself frees memory, so it cannot be called from `free`; a bare clone
//! can. It has its own stack and its own, empty thread-local storage, both static.

use super::count::{Kind, counted};
use super::linux::{succeeded, syscall};
use crate::sync::{AtomicU32, Ordering};
use core::arch::asm;

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

/// Gives up the calling thread's capabilities: libc does not know of a bare thread, so it would keep what the program
/// drops later.
pub fn drop_capabilities() {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let header = Header { version: VERSION_3, pid: 0 };
    let none = [0u32; 6];
    let at = |p: *const u8| p.expose_provenance();
    let (header, none) = (at((&raw const header).cast()), at((&raw const none).cast()));
    syscall(libc::SYS_capset, [header, none, 0, 0, 0, 0]);
}

/// Starts the one bare thread of the process: it shares everything, has the signals blocked that its maker has, which
/// must be all, and runs `work` on a stack of its own, with an empty thread-local storage (its maker's may be gone before
/// it). It must not call what uses more of it than the stack protector does. The thread ends when `work` returns; `alive`
/// is its number, from now until the kernel has ended it. Returns whether it was made. At most one may ever run in a
/// process.
#[cfg(target_arch = "x86_64")]
pub fn spawn_bare(work: extern "C" fn(), alive: &'static AtomicU32) -> bool {
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
    }
    succeeded(made)
}

/// True if the process has a thread of this number.
pub fn is_thread(number: u32) -> bool {
    let process = syscall(libc::SYS_getpid, [0; 6]);
    succeeded(syscall(libc::SYS_tgkill, [process as usize, number as usize, 0, 0, 0, 0]))
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
