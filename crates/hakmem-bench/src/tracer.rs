//! Counts system calls with ptrace, which needs neither privileges nor tools. It slows the traced
//! program down several times over, so that traced runs are never timed.

use crate::child::Capture;
use crate::meter::{MARK, MARK_START, MARK_STOP};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::{fs, io, mem, ptr};

/// System calls by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// `mmap`
    pub mmap: u64,
    /// `munmap`
    pub munmap: u64,
    /// `mprotect`
    pub mprotect: u64,
    /// `madvise`
    pub madvise: u64,
    /// `mremap`
    pub mremap: u64,
    /// `brk`
    pub brk: u64,
    /// All system calls, these included.
    pub total: u64,
}

impl Calls {
    /// Those that get, return or arrange memory.
    pub fn memory(&self) -> u64 {
        self.mmap + self.munmap + self.mprotect + self.madvise + self.mremap + self.brk
    }

    fn count(&mut self, nr: libc::c_long) {
        self.total += 1;
        match nr {
            libc::SYS_mmap => self.mmap += 1,
            libc::SYS_munmap => self.munmap += 1,
            libc::SYS_mprotect => self.mprotect += 1,
            libc::SYS_madvise => self.madvise += 1,
            libc::SYS_mremap => self.mremap += 1,
            libc::SYS_brk => self.brk += 1,
            _ => {}
        }
    }
}

/// Which calls count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// All of them.
    Whole,
    /// Those between the marks of a [`crate::meter::Meter`].
    Marked,
}

/// A traced program that has ended.
#[derive(Debug)]
pub struct Traced {
    /// The calls of all its threads and child processes.
    pub calls: Calls,
    /// How it ended.
    pub status: ExitStatus,
    /// Whether `library` was mapped when the program ended.
    pub library_seen: bool,
}

/// Why there is no trace.
#[derive(Debug)]
pub enum TraceError {
    /// This process may not trace: a sandbox forbids it, or a tracer is attached already.
    Refused,
    /// The program did not start, or tracing broke off.
    Failed(io::Error),
}

/// Passed from the child for "tracing refused"; no other step before exec gives this error.
const REFUSED: i32 = libc::ENOTRECOVERABLE;

/// Runs `command` to its end and counts the system calls of it and of all its descendants. Its
/// standard output should go somewhere that needs no reader, as to a [`Capture`]. Waits for
/// descendants that outlive it, too.
pub fn trace(
    command: &mut Command,
    window: Window,
    library: Option<&Path>,
) -> Result<Traced, TraceError> {
    let trace_me = || {
        // SAFETY: PTRACE_TRACEME takes no pointers. This runs between fork and exec and calls
        // nothing else.
        match unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } {
            -1 => Err(io::Error::from_raw_os_error(REFUSED)),
            _ => Ok(()),
        }
    };
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(trace_me) };
    let child = command
        .spawn()
        .map_err(|error| match error.raw_os_error() {
            Some(REFUSED) => TraceError::Refused,
            _ => TraceError::Failed(error),
        })?;
    let root = child.id() as libc::pid_t;
    let mut tracer = Tracer {
        root,
        library,
        counting: window == Window::Whole,
        known: HashSet::new(),
        calls: Calls::default(),
        library_seen: false,
    };
    let status = tracer.follow().map_err(TraceError::Failed)?;
    Ok(Traced {
        calls: tracer.calls,
        status,
        library_seen: tracer.library_seen,
    })
}

struct Tracer<'a> {
    root: libc::pid_t,
    library: Option<&'a Path>,
    counting: bool,
    /// Tasks past their first stop.
    known: HashSet<libc::pid_t>,
    calls: Calls,
    library_seen: bool,
}

/// The stop signal of system calls under PTRACE_O_TRACESYSGOOD.
const SYSCALL_STOP: i32 = libc::SIGTRAP | 0x80;

impl Tracer<'_> {
    fn follow(&mut self) -> io::Result<ExitStatus> {
        // The first stop is the exec of the program itself.
        let (_, status) = wait(self.root)?
            .ok_or_else(|| io::Error::other("the program was lost at its start"))?;
        if !libc::WIFSTOPPED(status) {
            return Ok(ExitStatus::from_raw(status));
        }
        self.known.insert(self.root);
        let options = libc::PTRACE_O_TRACESYSGOOD
            | libc::PTRACE_O_TRACECLONE
            | libc::PTRACE_O_TRACEFORK
            | libc::PTRACE_O_TRACEVFORK
            | libc::PTRACE_O_TRACEEXEC
            | libc::PTRACE_O_TRACEEXIT
            | libc::PTRACE_O_EXITKILL;
        // SAFETY: the task is stopped and ours; the options are passed by value.
        if unsafe {
            libc::ptrace(
                libc::PTRACE_SETOPTIONS,
                self.root,
                0,
                libc::c_long::from(options),
            )
        } < 0
        {
            return Err(io::Error::last_os_error());
        }
        resume(self.root, 0);

        let mut ending = None;
        while let Some((task, status)) = wait(-1)? {
            if libc::WIFSTOPPED(status) {
                let signal = self.stopped(task, status);
                resume(task, signal);
            } else {
                self.known.remove(&task);
                if task == self.root {
                    ending = Some(ExitStatus::from_raw(status));
                }
            }
        }
        ending.ok_or_else(|| io::Error::other("the program ended unseen"))
    }

    /// Takes note of a stop; returns the signal to deliver to the task when it goes on.
    fn stopped(&mut self, task: libc::pid_t, status: i32) -> i32 {
        let signal = libc::WSTOPSIG(status);
        let event = status >> 16;
        let new = self.known.insert(task);
        if signal == SYSCALL_STOP {
            self.system_call(task);
            0
        } else if event != 0 {
            if event == libc::PTRACE_EVENT_EXIT && task == self.root {
                self.look_for_library();
            }
            0
        } else if new && signal == libc::SIGSTOP {
            // The kernel's own stop of a task that has just become ours.
            0
        } else {
            signal
        }
    }

    fn system_call(&mut self, task: libc::pid_t) {
        let Some((nr, args)) = entry(task) else {
            return;
        };
        if nr == libc::SYS_getppid && args[0] == MARK {
            match args[1] {
                MARK_START => self.counting = true,
                MARK_STOP => self.counting = false,
                _ => {}
            }
            return;
        }
        if self.counting {
            self.calls.count(nr);
        }
        if nr == libc::SYS_exit_group {
            self.look_for_library();
        }
    }

    fn look_for_library(&mut self) {
        let Some(library) = self.library.filter(|_| !self.library_seen) else {
            return;
        };
        self.library_seen = is_mapped(&self.root.to_string(), library);
    }
}

/// Whether the process (`self` or an id) has `library` mapped; the path must be canonical.
pub fn is_mapped(process: &str, library: &Path) -> bool {
    let Ok(maps) = fs::read(format!("/proc/{process}/maps")) else {
        return false;
    };
    let path = library.as_os_str().as_encoded_bytes();
    // A line ends in the path, after a column of blanks.
    maps.split(|&b| b == b'\n').any(|line| {
        line.strip_suffix(path)
            .is_some_and(|rest| rest.ends_with(b" "))
    })
}

/// Waits for a task among those that this thread made or traces. `None` when there are no more.
fn wait(task: libc::pid_t) -> io::Result<Option<(libc::pid_t, i32)>> {
    loop {
        let mut status = 0;
        // SAFETY: the status is a live variable; the usage is not wanted. __WNOTHREAD leaves other
        // threads' children be.
        let got = unsafe {
            libc::wait4(
                task,
                &raw mut status,
                libc::__WALL | libc::__WNOTHREAD,
                ptr::null_mut(),
            )
        };
        if got >= 0 {
            return Ok(Some((got, status)));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ECHILD) => return Ok(None),
            _ => return Err(error),
        }
    }
}

/// Lets a stopped task run to its next system call. If it was killed meanwhile, `wait` will say so.
fn resume(task: libc::pid_t, signal: i32) {
    // SAFETY: the signal is passed by value; for a task that is not stopped the call fails without
    // effect.
    unsafe { libc::ptrace(libc::PTRACE_SYSCALL, task, 0, libc::c_long::from(signal)) };
}

/// The crate libc has no such request for musl: nothing is counted.
#[cfg(not(target_env = "gnu"))]
fn entry(_: libc::pid_t) -> Option<(libc::c_long, [u64; 6])> {
    None
}

/// The number and arguments of the system call that `task` is about to make; `None` if it is on its
/// way out of one.
#[cfg(target_env = "gnu")]
fn entry(task: libc::pid_t) -> Option<(libc::c_long, [u64; 6])> {
    // SAFETY: the structure is plain data, for which zeroes are a value.
    let mut info: libc::ptrace_syscall_info = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes at most as many bytes as it is told there are.
    let got = unsafe {
        libc::ptrace(
            libc::PTRACE_GET_SYSCALL_INFO,
            task,
            size_of::<libc::ptrace_syscall_info>(),
            &raw mut info,
        )
    };
    if got < 0 || info.op != libc::PTRACE_SYSCALL_INFO_ENTRY {
        return None;
    }
    // SAFETY: `op` says that this is the member in use.
    let entry = unsafe { info.u.entry };
    Some((entry.nr as libc::c_long, entry.args))
}

/// Says whether tracing works here, by tracing this executable as it prints its version.
pub fn works() -> io::Result<bool> {
    let output = Capture::new()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--version").stdout(output.stdio()?);
    match trace(&mut command, Window::Whole, None) {
        Ok(traced) => Ok(traced.status.success() && traced.calls.total > 0),
        Err(TraceError::Refused) => Ok(false),
        Err(TraceError::Failed(error)) => Err(error),
    }
}
