//! `hakmem run`.

use crate::again;
use crate::build::Build;
use crate::checked::{self, say};
use crate::child::{self, End};
use crate::grammar;
use crate::left;
use crate::library::{self, Library};
use crate::outcome::{Before, Outcome};
use crate::own::{self, Own};
use crate::profile::Wish;
use crate::program::{self, NotStarted};
use crate::report::Report;
use crate::reports::Reports;
use crate::stat::{self, Form};
use crate::summary;
use crate::symbols;
use crate::terminal::Terminal;
use clap::Args;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::{env, process};

/// hakmem's own failures, among which a missing library.
pub const OWN_FAILURE: i32 = 125;

pub const AFTER_HELP: &str = "\
hakmem passes the signals that it gets on to the program. The exit status is the program's; if a \
signal killed the program, hakmem dies of the same signal. Otherwise:
  125  the library is missing, --require is not met, or a report has no folder
  126  PROG cannot be executed
  127  PROG is not found
  2    wrong usage
If hakmem did not serve the program, a line on standard error says so. A program with hakmem \
inside (Rust's global allocator, or libhakmem.a) runs without the library: the hakmem inside \
serves it. If a shell starts such a program, the program gets the library too. The hakmem inside \
still serves and reports. If a process goes on when PROG has ended, as a daemon does, hakmem names \
the temporary folder for its reports, and leaves it there.
The temporary folder for reports lies in TMPDIR or /tmp, or else in /dev/shm. If hakmem can write \
to none of these, a line says so, and hakmem starts the program without reports. It starts nothing \
under an option that needs a report, such as --stats and --require.

Examples:
  hakmem run python3 work.py
  hakmem run --stats --require sh -c 'make clean; make'
  HAKMEM_DECAY_MS=1000 hakmem run redis-server --port 7777";

/// What `--guard` means without a number.
const USUAL_GUARD: &str = "5000";

fn guard(text: &str) -> Result<u32, String> {
    grammar::whole(text, 1, 1 << 30)
}

#[derive(Args, Default)]
pub struct Options {
    /// Prints the figures in this form, on standard error, when the program has ended: `hakmem
    /// stat`
    #[arg(skip)]
    pub figures: Option<Form>,
    /// Takes a heap profile: `hakmem profile`
    #[arg(skip)]
    pub profile: Option<Wish>,
    /// Prints what the allocator did on standard error when the program has ended
    #[arg(long)]
    pub stats: bool,
    /// Exits with 125 unless hakmem certainly served the program's allocations
    #[arg(long)]
    pub require: bool,
    /// The library; without it the libhakmem.so beside hakmem, in ../lib or ../lib/hakmem
    #[arg(long, value_name = "PATH")]
    pub lib: Option<PathBuf>,
    /// Takes libhakmem-hardened.so, which finds more errors of the program and takes longer
    #[arg(long, conflicts_with = "lib")]
    pub hardened: bool,
    /// About one in N allocations lies between memory without access, so that errors of its use
    /// fault and are reported with stacks
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = USUAL_GUARD,
        value_parser = guard)]
    pub guard: Option<u32>,
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

fn own_failure(why: String) -> NotStarted {
    NotStarted {
        why,
        status: OWN_FAILURE,
    }
}

fn named(name: &str, e: NotStarted) -> NotStarted {
    NotStarted {
        why: format!("cannot run {}: {}", program::shown(name), e.why),
        ..e
    }
}

/// The program, and how it is to be run.
struct Ready<'a> {
    path: PathBuf,
    before: Before<'a>,
    /// None: it has hakmem inside, or would not start with the library.
    library: Option<Library>,
}

impl<'a> Ready<'a> {
    fn new(options: &Options, name: &'a str) -> Result<Self, NotStarted> {
        let path = program::find(&options.command[0]).map_err(|e| named(name, e))?;
        let own = program::own(&path);
        let library = match own {
            Some(Own::Hakmem { .. }) => None,
            _ if options.hardened => Some(library::find_hardened().map_err(own_failure)?),
            _ => Some(library::find(options.lib.as_deref()).map_err(own_failure)?),
        };
        let obstacle = library
            .as_ref()
            .and_then(|library| program::obstacle(&path, library.machine));
        let before = Before {
            name,
            own,
            obstacle,
            is_hakmem: library.as_ref().is_some_and(|l| own::is_hakmem(&l.path)),
            asked: options.stats
                || options.figures.is_some()
                || options.require
                // What is missing otherwise, the missing profile says.
                || options.profile.is_some() && matches!(own, Some(Own::Hakmem { .. })),
        };
        Ok(Self {
            before,
            library: library.filter(|_| program::musl(&path).is_none()),
            path,
        })
    }

    /// The build of the hakmem that is to serve the program, if that is known.
    fn build(&self) -> Option<Build> {
        match (&self.library, self.before.own) {
            (Some(library), _) => own::build(&library.path),
            (None, Some(Own::Hakmem { .. })) => own::build(&program::executed(&self.path)),
            _ => None,
        }
    }
}

/// Why `--guard` goes with the default build alone.
const NO_GUARDS: &str = "the hardened build has no sampled guards: leave out --guard, or take the \
                         default build";

/// The line for an option of the environment that only the other build obeys.
fn without_effect(build: Build) -> Option<String> {
    let name = build.ignored(|name| env::var(name).ok())?;
    let advice = match build {
        Build::Default => "hakmem run --hardened takes the hardened one",
        Build::Hardened => "it has no sampled guards",
    };
    let build = build.name();
    Some(format!("{name} has no effect on the {build}; {advice}"))
}

fn try_run(options: &Options) -> Result<End, NotStarted> {
    if options.hardened && options.guard.is_some() {
        grammar::wrong(NO_GUARDS);
    }
    if options
        .guard
        .is_some_and(|guard| guard.to_string() == USUAL_GUARD)
    {
        grammar::guard_meant(&options.command[0]);
    }
    let name = options.command[0].to_string_lossy();
    let ready = Ready::new(options, &name)?;
    if options.guard.is_some() && ready.build() == Some(Build::Hardened) {
        grammar::wrong(NO_GUARDS);
    }
    if let Some(line) = ready.build().and_then(without_effect) {
        say(&line);
    }
    if let Some(why) = &ready.before.obstacle {
        say(&format!("{name} cannot run on hakmem: {why}"));
        if options.require {
            let why = format!("{name} was not started, because of --require");
            return Err(own_failure(why));
        }
    }
    let reports = reports(options, &name)?;
    let is_set = |value: OsString| !value.is_empty() && value != "0";
    if reports.is_some() && env::var_os("HAKMEM_STATS").is_some_and(is_set) {
        say("HAKMEM_STATS is set, but `hakmem run` needs it for itself; --stats prints a summary");
    }
    let environment = environment(options, &ready, reports.as_ref())?;
    let environment: Vec<_> = environment
        .iter()
        .map(|(n, v)| (*n, v.as_os_str()))
        .collect();
    let child = child::start(&ready.path, &options.command, &environment, None)
        .map_err(|e| named(&name, NotStarted::from_exec(&ready.path, &e)))?;
    let pid = child.pid();
    let end = child.wait();
    let Some(reports) = reports else {
        return Ok(end);
    };
    match (end, tell(options, &ready, reports, pid, end)) {
        (End::Exited(_), Told { served: false, .. }) if options.require => {
            Ok(End::Exited(OWN_FAILURE))
        }
        (
            End::Exited(0),
            Told {
                profiled: false, ..
            },
        ) if options.profile.is_some() => Ok(End::Exited(OWN_FAILURE)),
        _ => Ok(end),
    }
}

/// The files for the program's reports. None: no folder can be written, and nothing that was asked
/// for needs one.
fn reports(options: &Options, name: &str) -> Result<Option<Reports>, NotStarted> {
    let why = match Reports::new() {
        Ok(reports) => return Ok(Some(reports)),
        Err(why) => why,
    };
    let needs = [
        (options.figures.is_some(), "hakmem stat"),
        (options.profile.is_some(), "hakmem profile"),
        (options.stats, "--stats"),
        (options.require, "--require"),
    ];
    if let Some((_, asked)) = needs.iter().find(|(is_asked, _)| *is_asked) {
        return Err(own_failure(format!("{why}; {asked} needs one")));
    }
    let why = format!("{why}; hakmem starts {name}, and cannot tell whether it serves it");
    say(&why);
    Ok(None)
}

/// What the program gets in its environment.
fn environment(
    options: &Options,
    ready: &Ready,
    reports: Option<&Reports>,
) -> Result<Vec<(&'static str, OsString)>, NotStarted> {
    let mut environment = Vec::new();
    if let Some(library) = &ready.library {
        let existing = env::var_os("LD_PRELOAD");
        let folder = reports.map(Reports::folder);
        let preload = library::preload(&library.path, folder, existing.as_deref());
        environment.push(("LD_PRELOAD", preload.map_err(own_failure)?));
    }
    if let Some(every) = options.guard {
        environment.push(("HAKMEM_GUARD_SAMPLE", every.to_string().into()));
    }
    let Some(reports) = reports else {
        return Ok(environment);
    };
    let mut stats = OsString::from("json:");
    stats.push(&reports.figures);
    environment.push(("HAKMEM_STATS", stats));
    if options.stats || options.figures.is_some() {
        environment.push(("HAKMEM_TIMING", "1".into()));
    }
    if env::var_os("HAKMEM_ERRORS").is_none() {
        environment.push(("HAKMEM_ERRORS", reports.errors.clone().into()));
    }
    if let Some(wish) = &options.profile {
        environment.push(("HAKMEM_PROFILE", reports.profile.clone().into()));
        environment.push(("HAKMEM_PROFILE_INTERVAL", wish.interval.clone().into()));
    }
    Ok(environment)
}

/// What there is of what may have been asked for.
struct Told {
    /// It is certain that hakmem served the program.
    served: bool,
    /// If a profile was asked for: it was written, and of the allocator that served the program.
    profiled: bool,
}

/// Says what is to be said of the program that has ended, and removes the temporary files.
fn tell(options: &Options, ready: &Ready, reports: Reports, pid: u32, end: End) -> Told {
    let before = &ready.before;
    let executed = program::executed(&ready.path);
    let executed = executed.canonicalize().unwrap_or(executed);
    let library = ready.library.as_ref().map(|library| library.path.as_path());
    let left = left::by(reports.folder(), library.unwrap_or(&executed));
    let report = Report::read(reports.lines());
    let outcome = Outcome::of(pid, &report, before);
    // A daemon's first process tells nothing of itself.
    let goes_on = outcome == Outcome::Unknown
        && matches!(end, End::Exited(_))
        && left.iter().any(|&pid| left::is_served(pid, &executed));
    let message = match goes_on {
        true => None,
        false => outcome.message(before, end, &report),
    };
    if let Some(message) = &message {
        say(message);
    }
    let terminal = Terminal::of_stderr();
    if let Some(form) = options.figures {
        match stat::figures(reports.lines(), Some(pid), form, terminal) {
            Ok((text, failed)) => {
                let _ = io::stderr().write_all((text + &failed).as_bytes());
            }
            Err(e) => say(&format!("cannot read the library's report: {e}")),
        }
    }
    if let Some(errors) = reports.stacks() {
        let _ = io::stderr().write_all(again::of(&symbols::named(&errors)).as_bytes());
    }
    let fulfil = |wish: &Wish| wish.fulfil(&reports.profile, pid, before.name, end);
    let profiled = options.profile.as_ref().map(fulfil);
    if left.is_empty() {
        reports.close();
    } else {
        say(&left::message(&left, reports.folder()));
        reports.keep();
    }
    if options.stats {
        let name = checked::name(before.name);
        let _ = io::stderr().write_all(summary::of(&name, pid, &report, terminal).as_bytes());
    }
    if let Some(Ok(said)) = &profiled {
        let _ = io::stderr().write_all(said.as_bytes());
    }
    match &profiled {
        // The reason was said.
        Some(Err(why)) if message.is_none() => say(why),
        _ => {}
    }
    Told {
        served: outcome.is_served() || goes_on,
        profiled: !matches!(profiled, Some(Err(_))) && !matches!(outcome, Outcome::Own(..)),
    }
}
