//! The program as a child process: started with what we were given, sent the signals that we are
//! sent, waited for.
//!
//! Every signal is blocked from before the fork, so that none is lost, and taken one at a time by
//! sigwaitinfo. The child gets back the mask and the dispositions that this process was started
//! with, and stays in its process group, so that a terminal treats the two as one job. For each
//! signal that arrives here:
//! - sent by a process (kill and its like): passed on, unless the child itself or this process sent
//!   it;
//! - made by a terminal: dropped, for the child, in the same group, has had it from the terminal;
//! - made by the kernel for this process alone, where the program would have had it in our place:
//!   passed on.
//!
//! A signal that a process sends to the whole group reaches the child twice: nothing tells that
//! apart from one sent to this process alone, and a signal too many is better than one too few.

use crate::inherited;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{io, mem, ptr};

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    Killed(i32),
}

pub struct Child {
    pid: libc::pid_t,
}

/// What happened to a child in a short time.
pub enum Step {
    Nothing,
    Ended(End),
    /// This process got a signal that is not for the child, or that the child has had.
    Signal(libc::c_int),
}

/// Starts the program; `output` are files for its standard output and error. From here on, all
/// signals are blocked in this process.
pub fn start(
    path: &Path,
    arguments: &[OsString],
    environment: &[(&str, &OsStr)],
    output: Option<&[File; 2]>,
) -> io::Result<Child> {
    let given_mask = block(&all());
    let child_exit_ignored = inherited::is_ignored(libc::SIGCHLD);
    if child_exit_ignored {
        // Ignored, the kernel would reap the child for us and its status would be lost.
        set_action(libc::SIGCHLD, libc::SIG_DFL);
    }
    // SAFETY: getpid always succeeds.
    let parent = unsafe { libc::getpid() };
    let mut command = Command::new(path);
    command
        .arg0(&arguments[0])
        .args(&arguments[1..])
        .envs(environment.iter().copied());
    if let Some([stdout, stderr]) = output {
        // Its input is the keyboard, by which this process is told what to show.
        command
            .stdin(Stdio::null())
            .stdout(stdout.try_clone()?)
            .stderr(stderr.try_clone()?);
    }
    let prepare = move || {
        inherited::give_back();
        if child_exit_ignored {
            set_action(libc::SIGCHLD, libc::SIG_IGN);
        }
        // SAFETY: both are system calls with valid arguments; the second covers a parent that died
        // before the first.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() != parent {
                libc::_exit(libc::EXIT_FAILURE);
            }
        }
        set_mask(&given_mask);
        Ok(())
    };
    // SAFETY: the closure makes system calls alone, all async-signal-safe; it does not allocate.
    let child = unsafe { command.pre_exec(prepare) }.spawn()?;
    Ok(Child {
        pid: child.id() as libc::pid_t,
    })
}

impl Child {
    pub fn pid(&self) -> u32 {
        self.pid as u32
    }

    /// Waits until the program ends, passing signals on. Stops when it stops, so that a shell's job
    /// control works.
    pub fn wait(&self) -> End {
        let signals = all();
        loop {
            // SAFETY: all zeroes is a valid siginfo_t; both pointers are to live values.
            let (signal, info) = unsafe {
                let mut info: libc::siginfo_t = mem::zeroed();
                (libc::sigwaitinfo(&signals, &mut info), info)
            };
            match signal {
                // Interrupted: this process was stopped and continued.
                -1 => {}
                libc::SIGCHLD => {
                    if let Some(end) = self.reap(libc::WUNTRACED) {
                        return end;
                    }
                }
                _ if self.is_for_child(signal, &info) => self.send(signal, &info),
                _ => {}
            }
        }
    }

    /// Waits up to `time` for a signal, and passes it on if it is for the child. If the child
    /// stops, this process goes on.
    pub fn step(&self, time: Duration) -> Step {
        match next_signal(time) {
            Some((libc::SIGCHLD, _)) => self.reap(0).map_or(Step::Nothing, Step::Ended),
            Some((signal, info)) if self.is_for_child(signal, &info) => {
                self.send(signal, &info);
                Step::Nothing
            }
            Some((signal, _)) => Step::Signal(signal),
            None => Step::Nothing,
        }
    }

    pub fn kill(&self, signal: libc::c_int) {
        // SAFETY: the child is not reaped, so the pid is its own.
        unsafe { libc::kill(self.pid, signal) };
    }

    /// Takes the child's changes of state, its stops if `flags` say so. Signals of one kind are
    /// merged, so one SIGCHLD can stand for several.
    fn reap(&self, flags: libc::c_int) -> Option<End> {
        loop {
            let mut status = 0;
            // SAFETY: the pointer is to a live value, the child is ours and not reaped yet.
            match unsafe { libc::waitpid(self.pid, &mut status, libc::WNOHANG | flags) } {
                0 => return None,
                -1 => {
                    let error = io::Error::last_os_error();
                    assert_eq!(error.kind(), io::ErrorKind::Interrupted, "waitpid: {error}");
                }
                _ if libc::WIFEXITED(status) => {
                    return Some(End::Exited(libc::WEXITSTATUS(status)));
                }
                _ if libc::WIFSIGNALED(status) => return Some(End::Killed(libc::WTERMSIG(status))),
                _ => stop_like(libc::WSTOPSIG(status)),
            }
        }
    }

    fn is_for_child(&self, signal: libc::c_int, info: &libc::siginfo_t) -> bool {
        let made_by_kernel = info.si_code > 0;
        if !made_by_kernel {
            // SAFETY: for signals from processes si_pid is set; getpid always succeeds.
            let (sender, own) = unsafe { (info.si_pid(), libc::getpid()) };
            return sender != self.pid && sender != own;
        }
        match signal {
            // An alarm set before exec goes off here; a leader of a session is the only one told
            // that its terminal hung up.
            libc::SIGALRM | libc::SIGCONT => true,
            // SAFETY: both always succeed for the calling process.
            libc::SIGHUP => unsafe { libc::getsid(0) == libc::getpid() },
            _ => false,
        }
    }

    fn send(&self, signal: libc::c_int, info: &libc::siginfo_t) {
        // The child may be a zombie by now, or have taken other rights on; the program would see no
        // signal either. SAFETY: si_value is set for SI_QUEUE; the child is not reaped, so the pid
        // is still its own.
        unsafe {
            match info.si_code {
                libc::SI_QUEUE => libc::sigqueue(self.pid, signal, info.si_value()),
                _ => libc::kill(self.pid, signal),
            }
        };
    }
}

/// The next signal that is sent to this process, which has blocked them all; None: none came in
/// time.
fn next_signal(time: Duration) -> Option<(libc::c_int, libc::siginfo_t)> {
    let time = libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(time.subsec_nanos()),
    };
    let signals = all();
    // SAFETY: all zeroes is a valid siginfo_t; the pointers are to live values.
    let (signal, info) = unsafe {
        let mut info: libc::siginfo_t = mem::zeroed();
        (libc::sigtimedwait(&signals, &mut info, &time), info)
    };
    (signal > 0).then_some((signal, info))
}

/// See [`next_signal`].
pub fn take_signal(time: Duration) -> Option<libc::c_int> {
    next_signal(time).map(|(signal, _)| signal)
}

/// Blocks all signals in this process, for [`take_signal`].
pub fn block_all() {
    block(&all());
}

/// Lets all signals through again, once there is nothing more that they must not end: those that
/// wait have their effect now.
pub fn unblock_all() {
    // SAFETY: an empty set is a valid one.
    let none = unsafe {
        let mut none: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut none);
        none
    };
    set_mask(&none);
}

/// Stops this process as the signal would have, if it were not blocked.
pub fn stop_by(signal: libc::c_int) {
    raise_by_default(signal);
    block_all();
}

/// Ends this process by the signal that ended the child; the child has left the core dump, if any.
pub fn die_of(signal: libc::c_int) -> ! {
    // SAFETY: plain system calls with valid arguments.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::setrlimit(
            libc::RLIMIT_CORE,
            &libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            },
        );
    }
    raise_by_default(signal);
    // Still here: the first process of a pid namespace does not die of its own signals.
    std::process::exit(128 + signal)
}

fn stop_like(signal: libc::c_int) {
    // A SIGSTOP from elsewhere may be followed by a SIGCONT to the child alone, which nobody would
    // tell us. It matters to a shell when we are its foreground job: some programs suspend
    // themselves so.
    if signal == libc::SIGSTOP && !in_foreground() {
        return;
    }
    raise_by_default(signal);
    block(&all());
}

/// Sends this process the signal with its default action. Restoring that is harmless: the child is
/// started already.
fn raise_by_default(signal: libc::c_int) {
    set_action(signal, libc::SIG_DFL);
    // SAFETY: plain system calls; the set is initialised by sigemptyset. Raised while blocked, the
    // signal merges with one that is pending from the terminal, and acts once.
    unsafe {
        libc::kill(libc::getpid(), signal);
        let mut set = mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, ptr::null_mut());
    }
}

fn in_foreground() -> bool {
    // SAFETY: a NUL-terminated path; the descriptor is closed once, here.
    unsafe {
        let terminal = libc::open(
            c"/dev/tty".as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOCTTY,
        );
        if terminal == -1 {
            return false;
        }
        let foreground = libc::tcgetpgrp(terminal) == libc::getpgrp();
        libc::close(terminal);
        foreground
    }
}

fn all() -> libc::sigset_t {
    // SAFETY: sigfillset initialises the whole set.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigfillset(&mut set);
        set
    }
}

/// Blocks the signals and returns the mask from before.
fn block(set: &libc::sigset_t) -> libc::sigset_t {
    // SAFETY: both pointers are to live sets.
    unsafe {
        let mut before = mem::zeroed();
        libc::sigprocmask(libc::SIG_BLOCK, set, &mut before);
        before
    }
}

fn set_mask(set: &libc::sigset_t) {
    // SAFETY: a live set.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, set, ptr::null_mut()) };
}

fn set_action(signal: libc::c_int, action: libc::sighandler_t) {
    // SAFETY: SIG_DFL and SIG_IGN are valid for every signal; those that cannot be changed give an
    // error.
    unsafe { libc::signal(signal, action) };
}
