//! The functions by which a process changes its rights, its namespaces or its sandbox.
//!
//! The scavenger is a thread that the C library does not know. It would keep the rights that the
//! program drops, and the kernel refuses some of these calls to a process with a second thread. So
//! each of these functions ends the scavenger before the call. Later the program's threads may
//! start another one, which has their rights. A process that makes a filter for system calls gets
//! no scavenger afterwards; the files that its reports need are opened before the filter. In every
//! other respect these functions behave as the C library's. `syscall` also ends the scavenger where
//! the program ends a thread by it: the last thread gives the process its exit status.
//!
//! 1. A `NEXT` is 0 or the address of the next function of that name and type in link order. Any
//!    thread may store it, and all store the same value: relaxed. The first call finds it, which
//!    takes the loader's lock. Finding all of them at the start would cost every process page
//!    faults.
//! 2. Signal handlers and children of vfork call `prctl` and `syscall`. So these two search no next
//!    function: the C library's are the bare system call, and so are these. Options and numbers
//!    that change no rights cost a few instructions.
//! 3. In a fully static program there is no next function, and these names are hakmem's. Where the
//!    C library makes a change in all threads, `__nptl_setxid` makes it here, as it does for the C
//!    library's own functions. The linker puts it into each static program that starts threads. In
//!    all others it is null, and there is one thread.
//! 4. A child of vfork shares its parent's memory, and the scavenger there is its parent's. So a
//!    filter that such a child makes changes nothing here but `CHILD_HAS_FILTER`
//!    (`c::in_shared_memory`).

use crate::errno;
use core::ffi::{CStr, c_char, c_int, c_long, c_ulong, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use hakmem_core::c;
use hakmem_core::report::life;
use libc::{gid_t, size_t, uid_t};
use processor::call;

// `prctl`, `syscall` and what they end with are assembly.
mod entries;
#[cfg_attr(target_arch = "x86_64", path = "rights/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "rights/aarch64.rs")]
mod processor;

/// A word with a bit for each number in the list; bit 0 stands for `from`.
const fn bits(from: c_long, list: &[c_long]) -> u64 {
    let (mut bits, mut i) = (0, 0);
    while i < list.len() {
        assert!(list[i] >= from && list[i] < from + 64);
        bits |= 1 << (list[i] - from);
        i += 1;
    }
    bits
}

/// The options of `prctl` that change rights or the sandbox.
const OPTIONS: u64 = bits(
    0,
    &[
        libc::PR_SET_KEEPCAPS as c_long,
        libc::PR_SET_SECCOMP as c_long,
        libc::PR_CAPBSET_DROP as c_long,
        libc::PR_SET_SECUREBITS as c_long,
        libc::PR_SET_NO_NEW_PRIVS as c_long,
        libc::PR_CAP_AMBIENT as c_long,
    ],
);
/// The system calls that change the users and groups of a process.
const IDENTITIES: &[c_long] = &[
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setgroups,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
];

/// Makes a call while there is no scavenger.
fn held<R>(call: impl FnOnce() -> R) -> R {
    c::hold_scavenger();
    let result = call();
    c::release_scavenger();
    result
}

/// A child of vfork has made a filter. Its parent, with the same memory, reads this too: from then
/// on the scavenger stays when a thread ends by `syscall`.
static CHILD_HAS_FILTER: AtomicBool = AtomicBool::new(false);

/// Makes a call that makes a filter for system calls. `is_made` says by its result whether it did.
fn filtering(call: impl FnOnce() -> c_long, is_made: impl FnOnce(c_long) -> bool) -> c_long {
    // A second filter changes nothing here, and one in a child of vfork is not this process's (rule
    // 4).
    if c::is_filtered() {
        return call();
    }
    if c::in_shared_memory() {
        let result = call();
        if is_made(result) {
            CHILD_HAS_FILTER.store(true, Relaxed);
        }
        return result;
    }
    held(|| {
        errno::preserved(life::keep_files);
        c::set_filtered(true);
        let result = call();
        if !is_made(result) {
            c::set_filtered(false);
            errno::preserved(life::drop_files);
        } else {
            c::forbid_scavenger();
        }
        result
    })
}

extern "C" fn watched_prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    let option_word = option as usize;
    // SAFETY: only `prctl` jumps here, and its caller promises that the arguments are as the option
    // asks.
    let call = || unsafe { call(libc::SYS_prctl, option_word, a, b, c, d, 0) };
    let made = match option {
        libc::PR_SET_SECCOMP => filtering(call, |result| result >= 0),
        _ => held(call),
    };
    made as c_int
}

/// Flags of `seccomp`.
const TSYNC: usize = libc::SECCOMP_FILTER_FLAG_TSYNC as usize;
const TSYNC_ESRCH: usize = libc::SECCOMP_FILTER_FLAG_TSYNC_ESRCH as usize;
const NEW_LISTENER: usize = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as usize;

extern "C" fn watched_syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: only `syscall` jumps here, and its caller promises that the arguments are as the
    // system call asks.
    let call = || unsafe { call(number, a, b, c, d, e, f) };
    match number {
        libc::SYS_exit => {
            // A child of vfork has no scavenger of its own. If it made a filter, it asks nothing.
            if c::has_scavenger() && !CHILD_HAS_FILTER.load(Relaxed) && !c::in_shared_memory() {
                c::end_scavenger();
            }
            call()
        }
        // The operations that make a filter, SECCOMP_SET_MODE_STRICT and SECCOMP_SET_MODE_FILTER.
        libc::SYS_seccomp if a <= 1 => filtering(call, |result| {
            // A thread that has another filter: the call names it, and has made none.
            let names_thread = b & (TSYNC | TSYNC_ESRCH | NEW_LISTENER) == TSYNC && result > 0;
            result >= 0 && !names_thread
        }),
        libc::SYS_seccomp => call(),
        libc::SYS_prctl if a >= 64 || OPTIONS >> a & 1 == 0 => call(),
        libc::SYS_prctl if a == libc::PR_SET_SECCOMP as usize => {
            filtering(call, |result| result >= 0)
        }
        _ => held(call),
    }
}

/// The next function of this name in link order; 0 if there is none.
#[cold]
fn find(next: &AtomicUsize, name: &CStr) -> usize {
    // SAFETY: `name` is a C string, and dlsym only reads it.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) } as usize;
    next.store(found, Relaxed);
    found
}

/// The system call that `__nptl_setxid` makes in each thread. glibc's `struct xid_command`.
#[repr(C)]
struct Change {
    number: c_int,
    arguments: [c_ulong; 3],
    left: c_int,
    error: c_int,
}

/// Makes a system call in all threads, as the C library's functions for these calls do.
#[cold]
fn everywhere(number: c_long, arguments: [usize; 3]) -> c_int {
    let change = processor::setxid();
    let [a, b, c] = arguments;
    if change == 0 {
        // SAFETY: only the functions of the table below call this, with their callers' arguments,
        // which are as the system call asks. There is one thread (rule 3).
        return unsafe { call(number, a, b, c, 0, 0, 0) as c_int };
    }
    let mut what = Change {
        number: number as c_int,
        arguments: arguments.map(|a| a as c_ulong),
        left: 0,
        error: -1,
    };
    // SAFETY: `change` is the address of glibc's `__nptl_setxid` (rule 3), which has this type.
    // `what` is a local variable, which outlives the call.
    unsafe { transmute::<usize, unsafe extern "C" fn(*mut Change) -> c_int>(change)(&raw mut what) }
}

/// Makes a system call in this thread only, as the C library's function does.
#[cold]
fn here(number: c_long, arguments: [usize; 3]) -> c_int {
    let [a, b, c] = arguments;
    // SAFETY: only the functions of the table below call this, with their callers' arguments, which
    // are as the system call asks.
    unsafe { call(number, a, b, c, 0, 0, 0) as c_int }
}

/// Changes the effective number of the three: real, effective, saved.
#[cold]
fn effective(number: c_long, id: u32) -> c_int {
    // Tells the kernel to leave a number as it is.
    const SAME: u32 = u32::MAX;
    if id == SAME {
        errno::set(libc::EINVAL);
        return -1;
    }
    everywhere(number, [SAME, id, SAME].map(|id| id as usize))
}

/// Functions of the C library, each with the call that replaces the next one where there is none.
macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) = $otherwise:expr;)*) => {$(
        /// # Safety
        /// The contract of the C library's function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            const NAME: &CStr =
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!(),
                };
            held(|| {
                let next = match NEXT.load(Relaxed) {
                    0 => find(&NEXT, NAME),
                    next => next,
                };
                if next == 0 {
                    return $otherwise;
                }
                // SAFETY: the next function of this name has this type (rule 1), and the caller
                // keeps the contract that both functions have.
                unsafe { transmute::<usize, unsafe extern "C" fn($($type),*) -> c_int>(next)($($argument),*) }
            })
        }
    )*};
}

functions! {
    setuid(uid: uid_t) = everywhere(libc::SYS_setuid, [uid as usize, 0, 0]);
    setgid(gid: gid_t) = everywhere(libc::SYS_setgid, [gid as usize, 0, 0]);
    seteuid(uid: uid_t) = effective(libc::SYS_setresuid, uid);
    setegid(gid: gid_t) = effective(libc::SYS_setresgid, gid);
    setreuid(real: uid_t, effective: uid_t) =
        everywhere(libc::SYS_setreuid, [real as usize, effective as usize, 0]);
    setregid(real: gid_t, effective: gid_t) =
        everywhere(libc::SYS_setregid, [real as usize, effective as usize, 0]);
    setresuid(real: uid_t, effective: uid_t, saved: uid_t) =
        everywhere(libc::SYS_setresuid, [real as usize, effective as usize, saved as usize]);
    setresgid(real: gid_t, effective: gid_t, saved: gid_t) =
        everywhere(libc::SYS_setresgid, [real as usize, effective as usize, saved as usize]);
    setgroups(count: size_t, list: *const gid_t) =
        everywhere(libc::SYS_setgroups, [count, list as usize, 0]);
    setfsuid(uid: uid_t) = here(libc::SYS_setfsuid, [uid as usize, 0, 0]);
    setfsgid(gid: gid_t) = here(libc::SYS_setfsgid, [gid as usize, 0, 0]);
    capset(header: *mut c_void, data: *const c_void) =
        here(libc::SYS_capset, [header as usize, data as usize, 0]);
    chroot(path: *const c_char) = here(libc::SYS_chroot, [path as usize, 0, 0]);
    unshare(flags: c_int) = here(libc::SYS_unshare, [flags as usize, 0, 0]);
    setns(descriptor: c_int, kind: c_int) =
        here(libc::SYS_setns, [descriptor as usize, kind as usize, 0]);
}
