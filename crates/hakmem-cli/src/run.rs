//! `hakmem run`.

use crate::checked::{self, say};
use crate::child::{self, End};
use crate::program::{self, NotStarted};
use crate::report::{Report, State};
use crate::{library, summary};
use clap::Args;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::{env, process};
use tempfile::TempDir;

/// hakmem's own failures, among which a missing library.
pub const OWN_FAILURE: i32 = 125;

pub const AFTER_HELP: &str = "\
Signals sent to hakmem are passed on to the program. The exit status is the program's; if a signal killed the program, \
hakmem dies of the same signal. Otherwise:
  125  the library is missing, or --require is not met
  126  PROG cannot be executed
  127  PROG is not found
  2    wrong usage
Whenever hakmem did not serve the program, or that is not known, a line on standard error says so.";

#[derive(Args)]
pub struct Options {
    /// Prints tables, on standard error, when the program has ended: `hakmem stat`
    #[arg(skip)]
    pub tables: bool,
    /// In them, every size class
    #[arg(skip)]
    pub all_classes: bool,
    /// Takes a heap profile: `hakmem profile`
    #[arg(skip)]
    pub profile: Option<crate::profile::Wish>,
    /// Prints what the allocator did, on standard error, when the program has ended
    #[arg(long)]
    pub stats: bool,
    /// Exits with 125 unless it is certain that hakmem served the program's allocations
    #[arg(long)]
    pub require: bool,
    /// The library, instead of the libhakmem.so in hakmem's own folder or in ../lib
    #[arg(long, value_name = "PATH")]
    pub lib: Option<PathBuf>,
    /// The program, with its arguments
    #[arg(required = true, trailing_var_arg = true, num_args = 1.., value_names = ["PROG", "ARGS"])]
    pub command: Vec<OsString>,
}

pub fn run(options: &Options) -> ! {
    match try_run(options) {
        Ok(End::Exited(status)) => process::exit(status),
        Ok(End::Killed(signal)) => child::die_of(signal),
        Err(failure) => {
            say(&failure.why);
            process::exit(failure.status)
        }
    }
}

fn own(why: String) -> NotStarted {
    NotStarted {
        why,
        status: OWN_FAILURE,
    }
}

fn try_run(options: &Options) -> Result<End, NotStarted> {
    let name = options.command[0].to_string_lossy();
    let named = |e: NotStarted| NotStarted {
        why: format!("cannot run {name}: {}", e.why),
        ..e
    };
    let library = library::find(options.lib.as_deref()).map_err(own)?;
    let path = program::find(&options.command[0]).map_err(named)?;
    let obstacle = program::obstacle(&path, library.machine);
    if let Some(why) = &obstacle {
        say(&format!("{name} cannot run on hakmem: {why}"));
        if options.require {
            return Err(own(format!("{name} was not started, because of --require")));
        }
    }
    if env::var_os("HAKMEM_STATS").is_some_and(|value| !value.is_empty() && value != "0") {
        say("HAKMEM_STATS is set, but `hakmem run` needs it for itself; --stats prints a summary");
    }

    let scratch = Scratch::new().map_err(|e| own(format!("cannot make a temporary file: {e}")))?;
    let existing = env::var_os("LD_PRELOAD");
    let preload =
        library::preload(&library.path, scratch.folder(), existing.as_deref()).map_err(own)?;
    let mut stats = OsString::from("json:");
    stats.push(scratch.report());
    let mut environment = vec![
        ("LD_PRELOAD", preload.as_os_str()),
        ("HAKMEM_STATS", &stats),
    ];
    if options.stats || options.tables {
        environment.push(("HAKMEM_TIMING", "1".as_ref()));
    }

    let profile = scratch.path.join("profile");
    if let Some(wish) = &options.profile {
        environment.push(("HAKMEM_PROFILE", profile.as_os_str()));
        environment.push(("HAKMEM_PROFILE_INTERVAL", wish.interval.as_ref()));
    }

    let child = child::start(&path, &options.command, &environment, None)
        .map_err(|e| named(NotStarted::from_exec(&path, &e)))?;
    let pid = child.pid();
    let end = child.wait();
    let profiled = options
        .profile
        .as_ref()
        .map(|wish| wish.fulfil(&profile, pid, &name));
    let report = Report::read(scratch.report_lines());

    let outcome = Outcome::of(pid, &report);
    if let Some(message) = outcome.message(&name, end, obstacle.as_deref(), &report) {
        say(&message);
    }
    if options.tables {
        match crate::stat::tables(scratch.report_lines(), Some(pid), options.all_classes) {
            Ok((text, failed)) => {
                let _ = io::stderr().write_all((text + &failed).as_bytes());
            }
            Err(e) => say(&format!("cannot read the library's report: {e}")),
        }
    }
    scratch.close();
    if let Some(said) = profiled {
        let _ = io::stderr().write_all(said.as_bytes());
    }
    if options.stats {
        let _ = io::stderr().write_all(summary::of(&checked::name(&name), pid, &report).as_bytes());
    }
    match end {
        End::Exited(_) if options.require && outcome != Outcome::Served => {
            Ok(End::Exited(OWN_FAILURE))
        }
        _ => Ok(end),
    }
}

/// A private folder with the file that the library reports to; removed when dropped.
struct Scratch {
    folder: TempDir,
    path: PathBuf,
}

impl Scratch {
    fn new() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("hakmem-").tempdir()?;
        // TMPDIR may be relative, and the program may change its working directory.
        let path = folder.path().canonicalize()?;
        let scratch = Self { folder, path };
        File::create_new(scratch.report())?;
        Ok(scratch)
    }

    fn folder(&self) -> &Path {
        &self.path
    }

    fn report(&self) -> PathBuf {
        self.path.join("report")
    }

    /// What the library has reported. The program, which knows where, may have put something else there.
    fn report_lines(&self) -> Box<dyn BufRead> {
        match checked::open(&self.report()) {
            Ok(file) => Box::new(BufReader::new(file)),
            Err(e) => {
                say(&format!("cannot read the library's report: {e}"));
                Box::new(io::empty())
            }
        }
    }

    fn close(self) {
        if let Err(e) = self.folder.close() {
            say(&format!("cannot remove {}: {e}", self.path.display()));
        }
    }
}

/// What is known about the program itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Served,
    /// Loaded and not called.
    Idle,
    /// Loaded, with no report at the end.
    Unknown,
    NotLoaded,
}

impl Outcome {
    fn of(pid: u32, report: &Report) -> Self {
        match report.last_of(pid).map(|image| &image.state) {
            None => Self::NotLoaded,
            Some(State::Ended(figures)) if figures.allocations > 0 => Self::Served,
            Some(State::Ended(_)) => Self::Idle,
            Some(_) => Self::Unknown,
        }
    }

    /// The line for anything but a program that is known to have been served.
    fn message(
        self,
        name: &str,
        end: End,
        obstacle: Option<&str>,
        report: &Report,
    ) -> Option<String> {
        let message = match (self, end) {
            (Self::Served, _) => return None,
            (Self::Idle, _) => format!(
                "served no allocations: the library was loaded into {name}, which never called it \
                 (it allocates nothing, or has an allocator of its own)"
            ),
            (Self::Unknown, End::Killed(signal)) => format!(
                "the library was loaded into {name}, but what it served is not known: {} killed the process before \
                 it could report",
                signal_name(signal)
            ),
            (Self::Unknown, End::Exited(_)) => format!(
                "the library was loaded into {name}, but what it served is not known: the process ended without exit \
                 handlers (_exit), or went on, by exec, as a program that does not load the library"
            ),
            (Self::NotLoaded, _) => {
                let why =
                    obstacle.unwrap_or("the library was not loaded, or could not write its report");
                let others = match report.processes() {
                    0 => String::new(),
                    n => format!("; it was loaded into {n} of the processes started by it"),
                };
                format!("{name} did NOT run on hakmem: {why}{others}")
            }
        };
        Some(message)
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        _ => return format!("signal {signal}"),
    };
    name.into()
}
