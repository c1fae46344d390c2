//! `hakmem top`: what the allocator of a running program does, read again and again.

pub mod batch;
#[cfg(test)]
mod drawn;
mod help;
mod json;
mod panels;
pub mod rates;
pub mod screen;
mod session;
mod short;
mod tables;
mod watched;

use crate::checked::say;
use crate::child::{self, End};
use crate::terminal::Terminal;
use crate::view::{self, Target, Trouble};
use crate::{grammar, output};
use clap::{ArgGroup, Args};
use rates::History;
use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process;
use std::time::{Duration, Instant};
use watched::{Started, Turn, Watched};

pub const AFTER_HELP: &str = "\
A process needs no preparation: hakmem reads the figures from its memory, and the process does \
nothing for that. hakmem needs the right to trace it: root has it, and the same user where the \
system allows that. hakmem runs PROG with the library, watches it from the start, passes signals \
on to it, and exits with its exit status. On a terminal, hakmem keeps the output of PROG in \
temporary files and shows it at the end.
With --batch, if TERM is dumb, or if standard output is no terminal, hakmem prints readings one \
below the other; those of PROG go to standard error, beside its own output. With --json each is an \
object on a line; docs/formats.md describes it.
  q       leaves; hakmem waits for a program that it started
  Ctrl-C  leaves, and interrupts that program
  Tab  next table    s  next order    p  pause    + -  slower, faster
  ↑ ↓ PgUp PgDn Home End  scroll
  ?  help: the keys, and what each figure and column means
Exit status: 0, or
  1    no such process, it may not be read, or it does not run on hakmem
  2    wrong usage
  125, 126, 127  PROG was not started, as for `hakmem run`

Examples:
  hakmem top 1234
  hakmem top python3 work.py
  hakmem top --batch 2 --interval 5 --pid 1234
  hakmem top --json 1234

Words that it uses: https://github.com/hakmem/hakmem/blob/main/docs/glossary.md";

#[derive(Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["pid", "command"]))]
pub struct Options {
    /// Watches a running process; short form: `hakmem top PID`
    #[arg(long, conflicts_with = "command",
          value_parser = grammar::process, allow_negative_numbers = true)]
    pid: Option<u32>,
    /// Prints N readings as plain text; 0: until the process ends
    #[arg(long, short, value_name = "N", value_parser = readings, allow_negative_numbers = true)]
    batch: Option<u64>,
    /// Prints readings as JSON, each on a line; without --batch until the process ends
    #[arg(long)]
    json: bool,
    /// Seconds between two readings
    #[arg(long, short, value_name = "SECONDS", default_value = "1", value_parser = seconds, allow_negative_numbers = true)]
    interval: Duration,
    /// The library; without it the libhakmem.so beside hakmem, in ../lib or ../lib/hakmem
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    lib: Option<PathBuf>,
    /// The program, with its arguments
    #[arg(trailing_var_arg = true, num_args = 1.., value_names = ["PROG", "ARGS"])]
    command: Vec<OsString>,
}

fn readings(text: &str) -> Result<u64, String> {
    grammar::whole(text, 0, u64::MAX)
}

fn seconds(text: &str) -> Result<Duration, String> {
    grammar::seconds(text, 0.01, 3600.0)
}

/// How it ended.
pub enum Outcome {
    /// The one who watches has seen enough.
    Left,
    /// The process that was found has ended.
    Gone,
    /// The program that was started has.
    Program(End),
    /// This process was told to end.
    Signal(i32),
    /// There is nothing to see, or nothing to show it on.
    Failed(String),
}

pub fn top(options: Options) -> ! {
    // A terminal that is dumb, or that nothing is known of, obeys no sequences.
    let dumb = env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    let plain = options.batch.is_some() || options.json || dumb || !io::stdout().is_terminal();
    let pid = options.pid.or_else(|| grammar::pid(&options.command));
    if pid.is_some() && options.lib.is_some() {
        grammar::wrong("--lib is for a program that is started, not for a running process");
    }
    let (pid, watched) = match pid {
        Some(pid) => (pid, Watched::Found),
        None => match Started::new(&options.command, options.lib.as_deref(), !plain) {
            Ok(started) => (started.pid(), Watched::Started(started)),
            Err(failure) => {
                say(&failure.why);
                process::exit(failure.status)
            }
        },
    };
    let target = match Target::open(pid) {
        Ok(target) => target,
        Err(trouble) => finish(watched, Outcome::Failed(trouble.say(pid))),
    };
    let outcome = match plain {
        true => in_lines(target, &watched, &options),
        false => session::run(target, &watched, options.interval),
    };
    finish(watched, outcome)
}

/// Ends this process; a program that was started is waited for first, whatever became of the view.
fn finish(watched: Watched, outcome: Outcome) -> ! {
    if let Outcome::Failed(why) = &outcome {
        say(why);
    }
    let Watched::Started(started) = watched else {
        match outcome {
            Outcome::Signal(signal) => child::die_of(signal),
            Outcome::Failed(_) => process::exit(1),
            _ => process::exit(0),
        }
    };
    let end = match outcome {
        Outcome::Program(end) => end,
        // Its output is kept: nothing else is on the terminal.
        Outcome::Left if started.keeps_output() => {
            say(&format!(
                "waiting for process {}, which goes on; Ctrl-C interrupts it",
                started.pid()
            ));
            started.wait()
        }
        _ => started.wait(),
    };
    started.pass_output_on();
    drop(started); // Removes the temporary folder.
    match end {
        End::Exited(status) => process::exit(status),
        End::Killed(signal) => child::die_of(signal),
    }
}

/// The terminal that readings are printed on, if they are: on standard output, or on standard error
/// beside a program's own output.
fn terminal(found: bool) -> Option<Terminal> {
    match found {
        true => Terminal::of_stdout(),
        false => Terminal::of_stderr(),
    }
}

/// Prints readings one below the other.
fn in_lines(mut target: Target, watched: &Watched, options: &Options) -> Outcome {
    let found = matches!(watched, Watched::Found);
    let (count, interval) = (options.batch.unwrap_or(0), options.interval);
    let mut history = History::default();
    let mut done = 0;
    // Of a program that was only just started there is nothing to see yet.
    let mut due = Instant::now() + if found { Duration::ZERO } else { interval };
    if found {
        child::block_all();
    }
    loop {
        let wait = due.saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            // A found process is not this one's child: its end is checked now and then.
            match watched.turn(wait.min(Duration::from_millis(100))) {
                Turn::Ended(end) => return Outcome::Program(end),
                Turn::Signal(signal) => return Outcome::Signal(signal),
                _ if found && target.has_ended() => return Outcome::Gone,
                _ => continue,
            }
        }
        due += interval;
        let text = match target.reading() {
            Ok(reading) => {
                history.add(reading, Instant::now());
                match options.json {
                    true => json::text(&history),
                    false => batch::text(&history, view::now(), terminal(found)),
                }
            }
            Err(Trouble::Ended) if found && done > 0 => return Outcome::Gone,
            Err(Trouble::Ended) if !found => continue, // The signal of its end is on the way.
            Err(trouble) if found && done == 0 => {
                return Outcome::Failed(trouble.say(target.pid()));
            }
            // Each line of JSON is a reading.
            Err(trouble) if options.json => {
                say(&trouble.say(target.pid()));
                String::new()
            }
            Err(trouble) => format!("hakmem: {}\n", trouble.say(target.pid())),
        };
        let text = match done > 0 && !options.json {
            true => format!("\n{text}"),
            false => text,
        };
        let written = match found {
            true => output::print(text.as_bytes()),
            false => io::stderr().write_all(text.as_bytes()),
        };
        match written {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Outcome::Left,
            Err(e) => return Outcome::Failed(format!("cannot write what was seen: {e}")),
        }
        done += 1;
        if done == count {
            return Outcome::Left;
        }
    }
}
