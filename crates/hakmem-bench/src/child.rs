//! Child processes and what the system says they used.

use crate::host;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A child that has ended.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// From before its start until it was reaped.
    pub wall: Duration,
    /// What it used, with the children it waited for.
    pub usage: Usage,
}

/// Resources, as `wait4` reports them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Peak resident KiB.
    pub max_rss_kib: u64,
    /// Faults served without I/O.
    pub minor_faults: u64,
    /// Faults that waited for I/O.
    pub major_faults: u64,
    /// Processor time in user mode, in microseconds.
    pub user_us: u64,
    /// Processor time in the kernel, in microseconds.
    pub system_us: u64,
}

/// A file without a name that takes a child's output: the child never waits for a reader, as it
/// would with a pipe.
#[derive(Debug)]
pub struct Capture(File);

impl Capture {
    /// An empty one.
    pub fn new() -> io::Result<Self> {
        // SAFETY: the name is a NUL-terminated string.
        let fd = unsafe { libc::memfd_create(c"output".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is fresh and nobody else's.
        Ok(Self(File::from(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// What to hand to `Command::stdout` or `Command::stderr`.
    pub fn stdio(&self) -> io::Result<Stdio> {
        Ok(Stdio::from(self.0.try_clone()?))
    }

    /// Everything that was written.
    pub fn reader(mut self) -> io::Result<impl Read> {
        self.0.rewind()?;
        Ok(self.0)
    }

    /// Everything that was written, as text.
    pub fn text(self) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.reader()?.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A child at work.
#[derive(Debug)]
pub struct Running<'a> {
    /// The process, for its pipes and its id. It is reaped by [`end`](Self::end) alone.
    pub child: Child,
    begun: Instant,
    command: &'a Command,
}

/// Starts a command, with the memory of the host ready for it.
///
/// The child is made by fork, not by vfork or `posix_spawn`: those lend it the memory of this
/// process until it calls exec, and then the kernel would count *our* peak as the least peak of the
/// child.
pub fn start(command: &mut Command) -> io::Result<Running<'_>> {
    host::touch_for(command)?;
    // SAFETY: the closure does nothing; that there is one makes the standard library fork.
    unsafe { command.pre_exec(|| Ok(())) };
    let begun = Instant::now();
    let child = command.spawn()?;
    Ok(Running {
        child,
        begun,
        command,
    })
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> io::Result<Finished> {
    start(command)?.end()
}

impl Running<'_> {
    /// Waits for its end, and notes its peak memory for the next run of the command.
    pub fn end(self) -> io::Result<Finished> {
        let mut status = 0;
        // SAFETY: rusage is plain data, for which zeroes are a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        loop {
            // SAFETY: both pointers are to live variables. `child` is not waited for elsewhere, so
            // the id is still its own.
            let reaped = unsafe {
                libc::wait4(
                    self.child.id() as libc::pid_t,
                    &raw mut status,
                    0,
                    &raw mut usage,
                )
            };
            if reaped >= 0 {
                break;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        let wall = self.begun.elapsed();
        let usage = Usage::from(usage);
        host::note_peak(self.command, usage.max_rss_kib);
        Ok(Finished {
            status: ExitStatus::from_raw(status),
            wall,
            usage,
        })
    }
}

impl From<libc::rusage> for Usage {
    fn from(r: libc::rusage) -> Self {
        let micros = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
        Self {
            max_rss_kib: r.ru_maxrss as u64,
            minor_faults: r.ru_minflt as u64,
            major_faults: r.ru_majflt as u64,
            user_us: micros(r.ru_utime),
            system_us: micros(r.ru_stime),
        }
    }
}

/// How a process ended, in words: `exit 0`, `signal 11`.
pub fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => format!("{status}"),
    }
}
