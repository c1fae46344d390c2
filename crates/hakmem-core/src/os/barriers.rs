//! Full memory barriers that another thread passes, and that cost that thread nothing.
//!
//! There are two ways:
//! - *By a call*: membarrier makes all threads of the process pass one.
//! - *By sleep*: the kernel says that the thread does not run. A process that inherited a filter
//!   for its system calls may have none that allows membarrier. It may read files, as the loader
//!   did. So it asks `/proc/self/task/NUMBER/syscall`. This reaches no thread that runs, or waits
//!   for a processor.
//!
//! Rules
//! 1. Why sleep is a barrier: to answer with a call's number, the kernel takes the lock of the
//!    thread's run queue, and finds the thread on no processor (`wait_task_inactive`). The thread
//!    came there by a context switch, and will go on by another one. Both are full barriers under
//!    the same locks. So what the thread did before is seen by who asked, and what it does later
//!    sees what the other thread wrote before it asked.
//! 2. A thread in vfork lends its memory: the child may be in the middle of malloc in its place. So
//!    a thread that is in a call which makes a process or waits for one counts as one that runs.
//! 3. The number is the thread's own in the namespace that /proc shows: `is_own_proc` asks. A
//!    number that no thread of the process has gets no answer.

use super::linux::{succeeded, syscall};
use crate::base::sync::{Ordering::SeqCst, fence};
use core::ffi::CStr;
use core::fmt::Write;

/// Barriers that another thread passes. Whoever has one may make them.
pub enum HeavyBarriers {
    ByCall,
    BySleep,
}

impl HeavyBarriers {
    /// None: there are no such barriers, or the calling thread may have a filter for system calls
    /// that nobody knows. Only the scavenger asks, and who purges all: glibc's malloc makes no such
    /// calls. In a process with several threads the first call takes some milliseconds.
    ///
    /// None under sanitizers, too: ThreadSanitizer does not know these barriers, and would report
    /// races of all that they order.
    pub fn get() -> Option<Self> {
        if cfg!(sanitizer) || super::is_filtered() {
            return None;
        }
        let may_read = super::sees_filters();
        if may_read && super::filter::inherits_filter() == Some(true) {
            return Self::by_sleep();
        }
        if syscall(libc::SYS_prctl, [libc::PR_GET_SECCOMP as usize, 0, 0, 0, 0, 0]) != 0 {
            return None;
        }
        if membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) {
            return Some(Self::ByCall);
        }
        if may_read { Self::by_sleep() } else { None }
    }

    fn by_sleep() -> Option<Self> {
        is_own_proc().then_some(Self::BySleep)
    }

    /// Makes the thread with this number pass a full memory barrier. False: the system has refused,
    /// or the thread runs. By a call all threads pass one, and no number is needed: 0.
    #[must_use]
    pub fn pass(&self, thread: u32) -> bool {
        match self {
            Self::ByCall => membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED),
            Self::BySleep => thread != 0 && is_asleep(thread),
        }
    }
}

fn membarrier(command: libc::c_int) -> bool {
    succeeded(syscall(libc::SYS_membarrier, [command as usize, 0, 0, 0, 0, 0]))
}

/// True if /proc shows the process's own namespace of numbers: then it has one number there, and
/// else one for each namespace from that of /proc on. False without /proc.
fn is_own_proc() -> bool {
    let (mut is_there, mut numbers) = (false, 1);
    super::lines::each_line_of(c"/proc/thread-self/status", &mut |line| {
        is_there = true;
        if let Some(all) = line.strip_prefix(b"NSpid:") {
            numbers =
                all.split(u8::is_ascii_whitespace).filter(|number| !number.is_empty()).count();
        }
    });
    is_there && numbers == 1
}

/// True if the kernel says that the thread with this number does not run (rules 1 and 2).
fn is_asleep(thread: u32) -> bool {
    let mut name = Name { bytes: [0; Name::ROOM], len: 0 };
    if write!(name, "/proc/self/task/{thread}/syscall\0").is_err() {
        return false;
    }
    let Ok(name) = CStr::from_bytes_until_nul(&name.bytes) else { return false };
    let mut answer = [0; 16];
    // What this thread wrote is seen by who takes the kernel's locks after this.
    fence(SeqCst);
    super::own::with_file(name, |read| _ = read(&mut answer));
    fence(SeqCst);
    is_at_rest(&answer)
}

/// True for the answer `CALL ARGUMENTS…` with a call that lends no memory, or -1: in no call. A
/// thread that runs has the answer `running`.
fn is_at_rest(answer: &[u8]) -> bool {
    #[cfg(target_arch = "x86_64")]
    const OLD: [libc::c_long; 2] = [libc::SYS_vfork, libc::SYS_fork];
    #[cfg(not(target_arch = "x86_64"))]
    const OLD: [libc::c_long; 0] = [];
    const LENDING: [libc::c_long; 4] =
        [libc::SYS_clone, libc::SYS_clone3, libc::SYS_wait4, libc::SYS_waitid];
    let call = answer.split(|&byte| byte == b' ').next();
    let call = call.and_then(|call| core::str::from_utf8(call).ok()?.parse().ok());
    call.is_some_and(|call| !LENDING.contains(&call) && !OLD.contains(&call))
}

/// The name of a file of /proc.
struct Name {
    bytes: [u8; Self::ROOM],
    len: usize,
}

impl Name {
    const ROOM: usize = 40;
}

impl Write for Name {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let to = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(core::fmt::Error)?;
        to.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

#[cfg(all(test, not(any(loom, shuttle, sanitizer, feature = "fault-injection"))))]
mod tests {
    extern crate std;
    use super::*;
    use crate::os;
    use core::sync::atomic::AtomicBool;
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn a_thread_at_rest_is_told_from_one_that_runs() {
        for (answer, is) in [
            ("202 0x1 0x2\n", true),
            ("-1 0x7ffe 0x7f12\n", true),
            ("running\n", false),
            ("", false),
            ("\0\0", false),
        ] {
            assert_eq!(is_at_rest(answer.as_bytes()), is, "{answer}");
        }
        for lends in [libc::SYS_clone, libc::SYS_clone3, libc::SYS_wait4, libc::SYS_waitid] {
            assert!(!is_at_rest(std::format!("{lends} 0x0 0x0\n").as_bytes()));
        }
    }

    /// The thread waits for a message, and gets it.
    #[test]
    fn a_barrier_by_sleep_reaches_a_thread_that_waits() {
        assert!(is_own_proc(), "the tests' /proc");
        let barriers = HeavyBarriers::BySleep;
        let ((tell, told), (send, receive)) = (channel(), channel::<()>());
        thread::scope(|scope| {
            scope.spawn(move || {
                tell.send(os::libc_number()).expect("it waits");
                receive.recv().expect("a message");
            });
            let number = told.recv().expect("a number");
            while !barriers.pass(number) {
                thread::yield_now();
            }
            send.send(()).expect("it waits");
        });
        let me = os::libc_number();
        assert_eq!(me, os::numbers().1);
        assert!(!barriers.pass(0) && !barriers.pass(u32::MAX), "no thread has these");
    }

    /// A thread that runs has passed no barrier.
    #[test]
    fn a_barrier_by_sleep_reaches_no_thread_that_runs() {
        let (tell, told) = channel();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                tell.send(os::libc_number()).expect("it waits");
                while !over.load(SeqCst) {
                    core::hint::spin_loop();
                }
            });
            let number = told.recv().expect("a number");
            assert!((0..1000).all(|_| !HeavyBarriers::BySleep.pass(number)));
            over.store(true, SeqCst);
        });
    }

    /// A thread that waits for a child of vfork has lent its memory. An emulator makes a fork.
    #[test]
    fn a_barrier_by_sleep_reaches_no_thread_that_lends_its_memory() {
        if std::env::var_os("TEST_HAKMEM_EMULATOR").is_some() {
            return;
        }
        static STARTED: AtomicBool = AtomicBool::new(false);
        static OVER: AtomicBool = AtomicBool::new(false);
        extern "C" fn child(_: *mut core::ffi::c_void) -> core::ffi::c_int {
            STARTED.store(true, SeqCst);
            while !OVER.load(SeqCst) {
                core::hint::spin_loop();
            }
            0
        }
        let (tell, told) = channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut stack = std::vec![0_u128; 4096];
                tell.send(os::libc_number()).expect("it waits");
                let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
                let top = stack.as_mut_ptr_range().end.cast();
                // SAFETY: the child has a stack of its own while this thread waits for its end.
                // It calls nothing.
                let process = unsafe { libc::clone(child, top, flags, core::ptr::null_mut()) };
                assert!(process > 0);
                // SAFETY: waits for that child.
                unsafe { libc::waitpid(process, core::ptr::null_mut(), 0) };
            });
            let number = told.recv().expect("a number");
            while !STARTED.load(SeqCst) {
                core::hint::spin_loop();
            }
            assert!((0..1000).all(|_| !HeavyBarriers::BySleep.pass(number)));
            OVER.store(true, SeqCst);
        });
    }
}
