//! What is known of a program that has ended: whether hakmem served it, and what to say of that.

use crate::child::End;
use crate::own::Own;
use crate::report::{Report, State};

/// What was known before the program ran.
pub struct Before<'a> {
    pub name: &'a str,
    pub own: Option<Own>,
    /// Why the library would not be loaded.
    pub obstacle: Option<String>,
    /// The library has hakmem's note: it was loaded unless something kept it from that.
    pub is_hakmem: bool,
    /// Somebody waits for figures, or for the certainty that there are some.
    pub asked: bool,
}

/// What is known about the program itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Served,
    /// By the hakmem inside the program, which gave no report.
    Inside,
    /// There is a hakmem inside the program that gave no report and may serve nothing.
    Linked,
    /// By an allocator of its own, but for so many allocations.
    Own(&'static str, u64),
    /// Loaded and not called.
    Idle,
    /// Loaded, with no report at the end.
    Unknown,
    /// There is neither a report nor a reason why the library should not have been loaded.
    Unheard,
    NotLoaded,
}

impl Outcome {
    pub fn of(pid: u32, report: &Report, before: &Before) -> Self {
        let image = report.last_of(pid).map(|image| &image.state);
        match (before.own, image) {
            (Some(Own::Other(what)), Some(State::Ended(f))) => Self::Own(what, f.served()),
            (_, Some(State::Ended(figures))) if figures.served() > 0 => Self::Served,
            (_, Some(State::Ended(_))) => Self::Idle,
            (Some(Own::Hakmem { certain: true }), _) => Self::Inside,
            (Some(Own::Hakmem { certain: false }), _) => Self::Linked,
            (_, Some(_)) => Self::Unknown,
            (_, None) if before.is_hakmem && before.obstacle.is_none() => Self::Unheard,
            (_, None) => Self::NotLoaded,
        }
    }

    /// Whether it is certain that hakmem served the program.
    pub fn is_served(self) -> bool {
        matches!(self, Self::Served | Self::Inside)
    }

    /// The line for anything but a program that is known to have been served.
    pub fn message(self, before: &Before, end: End, report: &Report) -> Option<String> {
        let name = before.name;
        let message = match self {
            Self::Served => return None,
            // It was served, as far as anybody wants to know.
            Self::Inside | Self::Linked | Self::Unknown if !before.asked => return None,
            Self::Inside => format!(
                "hakmem inside {name} served it, but gave no report{}; {BEFORE_END}",
                killed(end)
            ),
            Self::Linked => format!(
                "hakmem is inside {name}, but gave no report{}, so that it served the program is \
                 not certain: it calls \
                 malloc, too",
                killed(end)
            ),
            Self::Own(what, n) => {
                format!("{name} uses {what}; hakmem served {n} of its allocations")
            }
            Self::Idle if matches!(before.own, Some(Own::Hakmem { .. })) => {
                format!("served no allocations: {name} has hakmem inside, and never called it")
            }
            Self::Idle => format!(
                "served no allocations: the library was loaded into {name}, which never called it \
                 (it allocates nothing, or has an allocator of its own)"
            ),
            Self::Unknown => unknown(name, end),
            Self::Unheard => format!(
                "whether {name} ran on hakmem is not known: no report came from it (it could not \
                 write to the file for \
                 that, or something removed LD_PRELOAD){}",
                others(report)
            ),
            // That was said before the program ran.
            Self::NotLoaded if before.obstacle.is_some() => format!(
                "{name} did NOT run on hakmem, for the reason above{}",
                others(report)
            ),
            Self::NotLoaded => format!(
                "{name} did NOT run on hakmem: the library was not loaded, or could not write its \
                 report{}",
                others(report)
            ),
        };
        Some(message)
    }
}

fn killed(end: End) -> String {
    match end {
        End::Killed(signal) => format!(" ({} killed it first)", signal_name(signal)),
        End::Exited(_) => String::new(),
    }
}

fn unknown(name: &str, end: End) -> String {
    let why = match end {
        End::Killed(signal) => format!(
            "{} killed the process before it could report",
            signal_name(signal)
        ),
        End::Exited(_) => "the process ended without exit handlers (_exit), it went on, by exec, \
                           as a program that does not load the library, or it could not write its \
                           report"
            .into(),
    };
    format!(
        "the library was loaded into {name}, but what it served is not known: {why}; {BEFORE_END}"
    )
}

/// How to ask a program that will not report.
const BEFORE_END: &str = "hakmem stat --pid PID shows the figures before the end";

fn others(report: &Report) -> String {
    match report.processes() {
        0 => String::new(),
        n => format!("; it was loaded into {n} of the processes started by it"),
    }
}

/// The name of a signal for people.
pub fn signal_name(signal: i32) -> String {
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
