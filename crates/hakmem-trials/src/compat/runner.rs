//! `hakmem-trials compat-run`: stands between a script and a program, gives the program the
//! library, passes signals on to it, watches it and its children, and writes a line about them when
//! it has ended.

use super::tree::{self, Look};
use hakmem_bench::child::{Usage, ending};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// The variable that names the library.
pub const LIBRARY: &str = "COMPAT_LIBRARY";
/// Further variables of the program, `NAME=VALUE`; those of hakmem must not reach anything else.
pub const VARIABLE: &str = "COMPAT_VARIABLE";
/// The time between two looks, after some that come sooner: short programs are to be seen, too.
const TICK: Duration = Duration::from_millis(25);

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The file that the line is appended to
    #[arg(long, value_name = "FILE")]
    report: PathBuf,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROG")]
    program: Vec<OsString>,
}

/// A program that has ended.
#[derive(Debug, Serialize, Deserialize)]
pub struct Line {
    /// Its name.
    pub program: String,
    /// Its process.
    pub pid: u32,
    /// How it ended.
    pub ending: String,
    /// Processor time of it and the children it waited for.
    pub cpu_micros: u64,
    /// Peak resident KiB of the largest of these, and of all that were seen.
    pub peak_rss_kib: u64,
    /// Most maps of one process that were seen.
    pub maps: usize,
    /// Processes seen at once.
    pub seen: usize,
    /// Whether one of those had the library mapped.
    pub mapped: bool,
}

/// Runs the program; returns its exit code, 128 and more after a signal, as shells have it.
pub fn run(options: &Options) -> io::Result<u8> {
    let library = std::env::var_os(LIBRARY)
        .filter(|l| !l.is_empty())
        .map(PathBuf::from);
    let set = block_signals()?;
    let mut command = command(&options.program, library.as_deref());
    let program = Path::new(&options.program[0]);
    let child = command
        .spawn()
        .map_err(|e| io::Error::other(format!("cannot run {}: {e}", program.display())))?;
    let pid = child.id();
    let (status, usage, look) = watch(pid, &set, library.as_deref())?;
    let line = Line {
        program: program
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        pid,
        ending: ending(status),
        cpu_micros: usage.user_us + usage.system_us,
        peak_rss_kib: usage.max_rss_kib.max(look.peak_rss_kib),
        maps: look.maps,
        seen: look.processes,
        mapped: look.mapped,
    };
    let text = serde_json::to_string(&line)? + "\n";
    // One write: programs of a pipeline end at the same time.
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&options.report)?;
    file.write_all(text.as_bytes())?;
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    Ok(code.and_then(|c| u8::try_from(c).ok()).unwrap_or(255))
}

fn command(program: &[OsString], library: Option<&Path>) -> Command {
    let mut command = Command::new(&program[0]);
    command
        .args(&program[1..])
        .env_remove(LIBRARY)
        .env_remove(VARIABLE);
    if let Some(library) = library {
        command.env("LD_PRELOAD", library);
    }
    let variable = std::env::var(VARIABLE).unwrap_or_default();
    if let Some((name, value)) = variable.split_once('=') {
        command.env(name, value);
    }
    with_fresh_signals(&mut command);
    command
}

/// Has the child start with no signal blocked or ignored, whatever this process does with them. It
/// also makes the standard library fork rather than vfork, without which our own memory would count
/// as the program's.
pub fn with_fresh_signals(command: &mut Command) {
    let fresh = || {
        // SAFETY: between fork and exec these calls are allowed; the set is initialised before it
        // is read.
        let code = unsafe {
            for signal in [
                libc::SIGINT,
                libc::SIGQUIT,
                libc::SIGTERM,
                libc::SIGHUP,
                libc::SIGPIPE,
            ] {
                libc::signal(signal, libc::SIG_DFL);
            }
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut())
        };
        match code {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    };
    // SAFETY: the closure makes system calls alone.
    unsafe { command.pre_exec(fresh) };
}

/// Signals are waited for, not handled.
fn block_signals() -> io::Result<libc::sigset_t> {
    // SAFETY: the set is initialised by sigemptyset before anything reads it; the rest takes
    // numbers.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [
            libc::SIGCHLD,
            libc::SIGTERM,
            libc::SIGINT,
            libc::SIGQUIT,
            libc::SIGHUP,
            libc::SIGUSR1,
        ] {
            libc::sigaddset(&raw mut set, signal);
        }
        match libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) {
            0 => Ok(set),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }
}

fn watch(
    pid: u32,
    set: &libc::sigset_t,
    library: Option<&Path>,
) -> io::Result<(ExitStatus, Usage, Look)> {
    let mut seen = Look::default();
    let mut wait = Duration::from_millis(2);
    let mut next = Instant::now() + wait;
    loop {
        let left = next.saturating_duration_since(Instant::now());
        let timeout = libc::timespec {
            tv_sec: left.as_secs() as libc::time_t,
            tv_nsec: left.subsec_nanos().into(),
        };
        // SAFETY: the set and the time are alive; no information is asked for.
        let signal = unsafe { libc::sigtimedwait(set, std::ptr::null_mut(), &raw const timeout) };
        if signal > 0 && signal != libc::SIGCHLD {
            // SAFETY: takes two numbers; the child has not been waited for, so the id is its own.
            unsafe { libc::kill(pid as libc::pid_t, signal) };
        }
        if let Some((status, usage)) = ended(pid)? {
            return Ok((status, usage, seen));
        }
        if Instant::now() >= next {
            seen.merge(tree::look(library));
            wait = (wait * 2).min(TICK);
            next = Instant::now() + wait;
        }
    }
}

fn ended(pid: u32) -> io::Result<Option<(ExitStatus, Usage)>> {
    let mut status = 0;
    // SAFETY: rusage is plain data, for which zeroes are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live variables.
    let reaped = unsafe {
        libc::wait4(
            pid as libc::pid_t,
            &raw mut status,
            libc::WNOHANG,
            &raw mut usage,
        )
    };
    match reaped {
        0 => Ok(None),
        n if n > 0 => Ok(Some((ExitStatus::from_raw(status), usage.into()))),
        _ => Err(io::Error::last_os_error()),
    }
}
