//! `hakmem doctor`: what this system, a program or a process means for hakmem.

mod cgroup;
mod finding;
mod kernel;
mod limits;
mod memory;
mod preload;
mod process;
mod root;
mod settings;
mod target;

use crate::checked::{name, say};
use crate::proc::NOT_MOUNTED;
use crate::terminal::Terminal;
use crate::{grammar, library, output, own, program};
use clap::Args;
use finding::{Finding, Verdict};
use root::Root;
use std::cmp::Reverse;
use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::exit;

pub const AFTER_HELP: &str = "\
Each finding has a verdict: \"ok\" works as anywhere, \"note\" is worth knowing, and with \
\"problem\" hakmem does not serve the program, or the program is near a limit. \
Problems come first, then notes. It is a problem, too, if process PID may not be read: then \
nothing tells whether hakmem serves it. hakmem looks at \
PROG and does not run it. It runs itself once, on the library. It obeys NO_COLOR.
Exit status: 0, or
  1    there is a problem, no process PID, or no /proc to see it in
  2    wrong usage
  126, 127  PROG cannot be run, or was not found

Examples:
  hakmem doctor
  hakmem doctor redis-server
  hakmem doctor --pid 1234
  hakmem doctor --json";

#[derive(Args)]
pub struct Options {
    /// Looks at a running process
    #[arg(long, conflicts_with = "command",
          value_parser = grammar::process, allow_negative_numbers = true)]
    pid: Option<u32>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
    /// The library; without it the libhakmem.so beside hakmem, in ../lib or ../lib/hakmem
    #[arg(long, value_name = "PATH")]
    lib: Option<PathBuf>,
    /// Reads a folder in the place of the system: for tests
    #[arg(long, value_name = "DIR", hide = true)]
    root: Option<PathBuf>,
    /// The program; its arguments are ignored
    #[arg(trailing_var_arg = true, num_args = 1.., value_names = ["PROG", "ARGS"])]
    command: Vec<OsString>,
}

pub fn doctor(options: &Options) -> ! {
    let mut findings = findings(options);
    // What is wrong comes first. Findings of one verdict stay in the order of what was looked at.
    findings.sort_by_key(|finding| Reverse(finding.verdict));
    let colours = io::stdout().is_terminal()
        && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    let text = match options.json {
        true => finding::json(&findings),
        false => finding::plain(&findings, colours, Terminal::of_stdout()),
    };
    match output::show(text.as_bytes()) {
        Ok(()) => exit((finding::count(&findings, Verdict::Problem) > 0).into()),
        Err(why) => {
            say(&why);
            exit(1)
        }
    }
}

fn findings(options: &Options) -> Vec<Finding> {
    let root = Root::new(options.root.as_deref());
    let mut all = vec![target::library(options.lib.as_deref())];
    all.extend(kernel::findings(&root));
    if let Some(pid) = options.pid.filter(|_| !root.has_proc()) {
        say(&format!("cannot look into process {pid}: {NOT_MOUNTED}"));
        exit(1)
    }
    let process = options.pid.map_or("self".to_owned(), |pid| pid.to_string());
    all.extend(memory::findings(&root, &process));
    if let Some(pid) = options.pid {
        let Some(found) = process::findings(&root, pid) else {
            say(&format!("there is no process {pid}"));
            exit(1)
        };
        all.extend(found);
        return all;
    }
    let text = |value: OsString| value.to_string_lossy().into_owned();
    let variables = env::vars_os().map(|(name, value)| (text(name), text(value)));
    let variables = variables.collect();
    let library = library::find(options.lib.as_deref()).ok();
    let build = library.and_then(|library| own::build(&library.path));
    all.push(settings::finding(
        &variables,
        build,
        cgroup::may_be_limited(&root, "self"),
    ));
    all.push(process::inherited_filter(&root));
    all.push(preload::of_environment(&root, "self", &variables));
    all.push(preload::of_file(&root, "self"));
    all.extend(limits::findings(&root, "self"));
    all.extend(cgroup::findings(&root, "self"));
    let Some(word) = options.command.first() else {
        return all;
    };
    grammar::meant("doctor", word, &["--pid"]);
    match target::program(word, options.lib.as_deref()) {
        Ok(found) => all.extend(found),
        Err(failure) => {
            let word = name(&word.to_string_lossy());
            let word = program::shown(&word);
            say(&format!("cannot run {word}: {}", failure.why));
            exit(failure.status)
        }
    }
    all
}
