//! `hakmem stat`: the tables of a report.

mod columns;
pub mod figures;
pub mod json;
pub mod table;

use crate::checked::{Lines, refuse, say};
use crate::named::Named;
use crate::terminal::Terminal;
use crate::view::Target;
use crate::{grammar, output, run};
use clap::{ArgGroup, Args};
use figures::{Line, Moment};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process;

/// Bytes of a report; and of the last ones of all processes, which are kept.
pub const LINE: usize = 16 << 20;
const KEPT: usize = 32 << 20;

pub const AFTER_HELP: &str = "\
FILE holds what a program appends under HAKMEM_STATS=json:FILE; hakmem shows the last report of \
each process. hakmem runs PROG as `hakmem run` does, prints the tables on standard error when it \
has ended, and exits with its exit status. With --json hakmem writes an object on a line for each \
process in place of the tables; docs/formats.md describes it.
Exit status: 0, or
  1    FILE cannot be read, or has no report; the process cannot be read
  2    wrong usage
  125, 126, 127  PROG was not started, as for `hakmem run`

Examples:
  hakmem stat python3 work.py
  hakmem stat --pid 1234
  hakmem stat --file /tmp/report
  hakmem stat --json --pid 1234";

#[derive(Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["file", "pid", "command"]))]
pub struct Options {
    /// Reads a file of reports; - is standard input
    #[arg(long, conflicts_with_all = ["pid", "command"])]
    file: Option<PathBuf>,
    /// Shows every size class, not only those with the most memory
    #[arg(long, conflicts_with = "json")]
    all: bool,
    /// Prints JSON of every size class, an object on a line for each process
    #[arg(long)]
    json: bool,
    /// Reads the figures of a running process
    #[arg(long, conflicts_with = "command", value_parser = grammar::process, allow_negative_numbers = true)]
    pid: Option<u32>,
    /// The library; without it the libhakmem.so beside hakmem, in ../lib or ../lib/hakmem
    #[arg(long, value_name = "PATH", conflicts_with_all = ["file", "pid"])]
    lib: Option<PathBuf>,
    /// The program, with its arguments
    #[arg(trailing_var_arg = true, num_args = 1.., value_names = ["PROG", "ARGS"])]
    command: Vec<OsString>,
}

/// What the figures are printed as.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    /// For people; `all`: every size class has a row.
    Tables { all: bool },
    /// For programs.
    Json,
}

impl Form {
    fn of(json: bool, all: bool) -> Self {
        match json {
            true => Self::Json,
            false => Self::Tables { all },
        }
    }
}

pub fn stat(options: Options) -> ! {
    let form = Form::of(options.json, options.all);
    if let Some(pid) = options.pid {
        of_process(pid, form)
    }
    let Some(file) = options.file else {
        grammar::meant("stat", &options.command[0], &["--file", "--pid"]);
        run::run(&run::Options {
            figures: Some(form),
            lib: options.lib,
            command: options.command,
            ..run::Options::default()
        })
    };
    let read = grammar::open(&file).and_then(|text| Last::read(text, None));
    let last = match read {
        Ok(last) => last,
        Err(e) => fail(&format!("cannot read {}: {e}", file.display())),
    };
    let text = last.text(form, Terminal::of_stdout());
    let shown = output::show(text.as_bytes());
    let _ = io::stderr().write_all(last.complaints().as_bytes());
    if text.is_empty() {
        fail(&format!(
            "{} has no report{}",
            file.display(),
            last.silent()
        ));
    }
    ended(shown)
}

/// Prints the figures of a running process, read from outside.
fn of_process(pid: u32, form: Form) -> ! {
    match Target::open(pid).and_then(|mut target| target.reading()) {
        Ok(look) => {
            let text = match form {
                Form::Json => json::line(json::of_reading("stat", &look)),
                Form::Tables { all } => table::of_reading(&look, all, Terminal::of_stdout()),
            };
            ended(output::show(text.as_bytes()))
        }
        Err(trouble) => fail(&trouble.say(pid)),
    }
}

fn ended(shown: Result<(), String>) -> ! {
    match shown {
        Ok(()) => process::exit(0),
        Err(why) => fail(&why),
    }
}

fn fail(why: &str) -> ! {
    say(why);
    process::exit(1)
}

/// The figures of each process's last report, or of one process's alone, and lines about what could
/// not be read.
pub fn figures(
    text: impl BufRead,
    only: Option<u32>,
    form: Form,
    terminal: Option<Terminal>,
) -> io::Result<(String, String)> {
    let last = Last::read(text, only)?;
    Ok((last.text(form, terminal), last.complaints()))
}

/// What a file has.
#[derive(Default)]
struct Last {
    /// The last report of each process, as they come.
    reports: Vec<Moment>,
    /// The processes that the library was loaded into. A process has a line for each program that
    /// it executes.
    loaded: Named,
    unreadable: usize,
}

impl Last {
    /// Of all processes, or of one alone.
    fn read(text: impl BufRead, only: Option<u32>) -> io::Result<Self> {
        // By process: when it came, how long it was, what it says.
        let mut last: HashMap<u32, (usize, usize, Moment)> = HashMap::new();
        let (mut this, mut number, mut kept) = (Self::default(), 0, 0);
        let mut lines = Lines::new(text, LINE);
        while let Some(line) = lines.next()? {
            if line.trim().is_empty() {
                continue;
            }
            number += 1;
            match Line::parse(line) {
                Ok(Line::Report(moment)) if only.is_none_or(|pid| pid == moment.pid) => {
                    kept += line.len();
                    if let Some((_, len, _)) =
                        last.insert(moment.pid, (number, line.len(), *moment))
                    {
                        kept -= len;
                    }
                    if kept > KEPT {
                        return Err(refuse("it has reports of more processes than are shown"));
                    }
                }
                Ok(Line::Load(pid)) => this.loaded.add(pid),
                Ok(Line::Report(_)) => {}
                Err(_) => this.unreadable += 1,
            }
        }
        let mut last: Vec<_> = last.into_values().collect();
        last.sort_by_key(|&(number, ..)| number);
        this.reports = last.into_iter().map(|(.., moment)| moment).collect();
        Ok(this)
    }

    fn text(&self, form: Form, terminal: Option<Terminal>) -> String {
        let reports = self.reports.iter();
        match form {
            Form::Json => reports.map(|m| json::line(json::of(m))).collect(),
            Form::Tables { all } => {
                let tables = reports.map(|m| table::of(m, all, terminal));
                tables.collect::<Vec<_>>().join("\n")
            }
        }
    }

    fn complaints(&self) -> String {
        match self.unreadable {
            0 => String::new(),
            n => format!("hakmem: {n} of the lines cannot be read as reports\n"),
        }
    }

    /// What is said of a file without reports: who was to write one.
    fn silent(&self) -> String {
        match (self.loaded.is_empty(), self.loaded.is_one()) {
            (true, _) => String::new(),
            (_, true) => format!(
                ": {} started, and wrote none: it still runs, or a signal, _exit or exec ended it",
                self.loaded.text()
            ),
            _ => format!(
                ": {} started, and wrote none: each still runs, or a signal, _exit or exec ended \
                 it",
                self.loaded.text()
            ),
        }
    }
}
