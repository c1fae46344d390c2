//! `hakmem stat`: the tables of a report.

pub mod figures;
pub mod table;

use crate::run;
use clap::Args;
use figures::Moment;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process;

pub const AFTER_HELP: &str = "\
FILE holds what HAKMEM_STATS=json:FILE makes a program append; the last report of each process is shown. With a program, \
it is run as `hakmem run` runs it, and shown on standard error when it has ended; then the exit status is the program's.
  1    FILE cannot be read, or has no report
  2    wrong usage";

#[derive(Args)]
pub struct Options {
    /// A file of reports; - is standard input
    #[arg(required_unless_present = "command", conflicts_with = "command")]
    file: Option<PathBuf>,
    /// The library, instead of the libhakmem.so in hakmem's own folder or in ../lib
    #[arg(long, value_name = "PATH", conflicts_with = "file")]
    lib: Option<PathBuf>,
    /// The program, with its arguments
    #[arg(last = true, num_args = 1.., value_names = ["PROG", "ARGS"])]
    command: Vec<OsString>,
}

pub fn stat(options: Options) -> ! {
    let Some(file) = options.file else {
        run::run(&run::Options {
            tables: true,
            profile: None,
            stats: false,
            require: false,
            lib: options.lib,
            command: options.command,
        })
    };
    let text = match read(&file) {
        Ok(text) => text,
        Err(e) => fail(&format!("cannot read {}: {e}", file.display())),
    };
    let (tables, complaints) = tables(&text, None);
    // A reader that has seen enough is no failure.
    let _ = io::stdout().write_all(tables.as_bytes());
    let _ = io::stderr().write_all(complaints.as_bytes());
    if tables.is_empty() {
        fail(&format!("{} has no report", file.display()));
    }
    process::exit(0)
}

fn fail(why: &str) -> ! {
    let _ = io::stderr().write_all(format!("hakmem: {why}\n").as_bytes());
    process::exit(1)
}

fn read(file: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        io::stdin().read_to_end(&mut bytes)?;
    } else {
        bytes = std::fs::read(file)?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The tables of each process's last report, or of one process's alone, and lines about what could not be read.
pub fn tables(text: &str, only: Option<u32>) -> (String, String) {
    let mut last: Vec<Moment> = Vec::new();
    let mut unreadable = 0;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match figures::parse(line) {
            Ok(Some(moment)) => {
                last.retain(|m| m.pid != moment.pid);
                last.push(moment);
            }
            Ok(None) => {}
            Err(_) => unreadable += 1,
        }
    }
    let shown = last.iter().filter(|m| only.is_none_or(|pid| pid == m.pid));
    let tables = shown.map(table::of).collect::<Vec<_>>().join("\n");
    let complaints = match unreadable {
        0 => String::new(),
        n => format!("hakmem: {n} of the lines cannot be read as reports\n"),
    };
    (tables, complaints)
}
