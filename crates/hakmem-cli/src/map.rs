//! `hakmem map`: a picture of the heap, a row for each segment.

pub mod draw;
pub mod model;
mod rows;
mod totals;

use crate::checked::say;
use crate::child::{self, End, Step};
use crate::prepared::Prepared;
use crate::program::NotStarted;
use crate::view::{Target, Trouble};
use crate::{grammar, output, run};
use clap::{ArgGroup, Args};
use model::Map;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, Instant};

pub const AFTER_HELP: &str = "\
FILE holds what a program appends under HAKMEM_MAP=FILE when it ends, or at HAKMEM_STATS_SIGNAL; \
hakmem draws the last map. With --pid hakmem reads the memory of a running process, which needs no \
preparation. hakmem runs PROG as `hakmem run` does, draws its heap as it was at the end, and exits \
with its exit status.
Exit status: 0, or
  1    there is nothing to draw, or the file cannot be written
  2    wrong usage
  125  PROG left no map, or the file cannot be written
  125, 126, 127  PROG was not started, as for `hakmem run`

Examples:
  hakmem map -o heap.svg python3 work.py
  hakmem map -o heap.svg --pid 1234
  hakmem map -o heap.svg --file /tmp/maps";

#[derive(Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["file", "pid", "command"]))]
pub struct Options {
    /// Reads a file of maps; - is standard input
    #[arg(long, conflicts_with_all = ["pid", "command"])]
    file: Option<PathBuf>,
    /// Reads the map of a running process
    #[arg(long, conflicts_with = "command", value_parser = grammar::process, allow_negative_numbers = true)]
    pid: Option<u32>,
    /// Where the picture or the JSON goes; - is standard output [default: hakmem-map.svg, with
    /// --json hakmem-map.json]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Writes the map itself as JSON, without a picture
    #[arg(long)]
    json: bool,
    /// Takes the map once the program has run for so long, not at its end
    #[arg(long, value_name = "SECONDS", requires = "command", conflicts_with_all = ["file", "pid"], value_parser = seconds, allow_negative_numbers = true)]
    after: Option<Duration>,
    /// The library; without it the libhakmem.so beside hakmem, in ../lib or ../lib/hakmem
    #[arg(long, value_name = "PATH", requires = "command", conflicts_with_all = ["file", "pid"])]
    lib: Option<PathBuf>,
    /// The program, with its arguments
    #[arg(trailing_var_arg = true, num_args = 1.., value_names = ["PROG", "ARGS"])]
    command: Vec<OsString>,
}

/// Said of a program under `--after`.
const ENDED: &str = "the program ended before its map was taken";

impl Options {
    fn output(&self) -> &Path {
        match &self.output {
            Some(output) => output,
            None if self.json => Path::new("hakmem-map.json"),
            None => Path::new("hakmem-map.svg"),
        }
    }

    /// What is written.
    fn what(&self) -> &'static str {
        if self.json { "map" } else { "picture" }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    grammar::seconds(text, 0.0, 1e9)
}

pub fn map(options: Options) -> ! {
    if let Some(word) = options.command.first() {
        grammar::meant("map", word, &["--file", "--pid"]);
        of_program(&options)
    }
    let found = match (&options.file, options.pid) {
        (Some(file), _) => from_file(file),
        (_, Some(pid)) => Target::open(pid)
            .and_then(|mut target| Map::of(&mut target))
            .map_err(|trouble| trouble.say(pid)),
        _ => Err("nothing to draw".into()),
    };
    match found.and_then(|map| write(&map, &options)) {
        Ok(()) => process::exit(0),
        Err(why) => {
            say(&why);
            process::exit(1)
        }
    }
}

fn from_file(file: &Path) -> Result<Map, String> {
    let read = grammar::open(file).and_then(|text| Map::last(text, None));
    let (map, unreadable) = read.map_err(|e| format!("cannot read {}: {e}", file.display()))?;
    if unreadable > 0 {
        say(&format!("{unreadable} of the lines cannot be read as maps"));
    }
    map.ok_or_else(|| format!("{} has no map", file.display()))
}

fn last_of(file: &Path, pid: Option<u32>) -> io::Result<(Option<Map>, usize)> {
    Map::last(BufReader::new(File::open(file)?), pid)
}

/// Writes the picture or the JSON, and names the file on standard error.
fn write(map: &Map, options: &Options) -> Result<(), String> {
    let to = |file: &mut dyn Write| {
        let mut file = BufWriter::new(file);
        match options.json {
            true => {
                serde_json::to_writer(&mut file, map)?;
                file.write_all(b"\n")?;
            }
            false => file.write_all(draw::svg(map).as_bytes())?,
        }
        file.flush()
    };
    let path = options.output();
    if path == OsStr::new("-") {
        return match output::stdout().and_then(|mut stdout| to(&mut stdout)) {
            // A reader that has seen enough is no failure.
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
                Err(format!("cannot write the {}: {e}", options.what()))
            }
            _ => Ok(()),
        };
    }
    let written = output::create(path).and_then(|mut file| to(&mut file));
    written.map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    let (program, pid, when) = (&map.program, map.pid, map.when());
    let head = format!("hakmem: heap of {program}, process {pid}, {when}");
    let said = format!("{head}\n  wrote {}\n", path.display());
    let _ = io::stderr().write_all(said.as_bytes());
    Ok(())
}

/// Runs the program and draws it. Whatever becomes of the picture, the program goes on to its end.
fn of_program(options: &Options) -> ! {
    match try_program(options) {
        Ok(End::Exited(status)) => process::exit(status),
        Ok(End::Killed(signal)) => child::die_of(signal),
        Err(failure) => {
            say(&failure.why);
            process::exit(failure.status)
        }
    }
}

fn try_program(options: &Options) -> Result<End, NotStarted> {
    let prepared = Prepared::new(&options.command, options.lib.as_deref())?;
    if options.output() != OsStr::new("-") {
        output::tried(options.output()).map_err(own_failure)?;
    }
    let file = prepared.scratch().file("map").map_err(own_failure)?;
    let mut environment = prepared.environment();
    if options.after.is_none() {
        environment.push(("HAKMEM_MAP", file.as_os_str()));
    }
    let child = prepared.start(&environment, None)?;
    let pid = child.pid();
    let (mut map, mut end) = (None, None);
    if let Some(time) = options.after {
        let until = Instant::now() + time;
        while end.is_none() && Instant::now() < until {
            if let Step::Ended(ended) = child.step(until - Instant::now()) {
                end = Some(ended);
            }
        }
        if end.is_some() {
            say(ENDED);
        } else {
            let found = Target::open(pid).and_then(|mut target| Map::of(&mut target));
            map = found
                .map_err(|trouble| say(&too_early(&trouble, pid, time)))
                .ok();
        }
    }
    let end = end.unwrap_or_else(|| child.wait());
    if options.after.is_none() {
        map = last_of(&file, Some(pid)).ok().and_then(|(map, _)| map);
        if map.is_none() {
            say(&prepared.without("map", "hakmem map --pid PID draws it", end));
        }
    }
    let written = map.map(|map| write(&map, options));
    if let Some(Err(why)) = &written {
        say(why);
    }
    match end {
        End::Exited(0) if !matches!(written, Some(Ok(()))) => Ok(End::Exited(run::OWN_FAILURE)),
        _ => Ok(end),
    }
}

/// Why there is no map of a program that this command started, after so long.
fn too_early(trouble: &Trouble, pid: u32, after: Duration) -> String {
    match trouble {
        Trouble::Without { .. } => format!(
            "hakmem was not in the program after {} s: it had not begun, had ended, or runs \
             without hakmem; a larger --after takes the map later",
            after.as_secs_f64()
        ),
        Trouble::Ended => ENDED.into(),
        other => other.say(pid),
    }
}

fn own_failure(why: String) -> NotStarted {
    NotStarted {
        why,
        status: run::OWN_FAILURE,
    }
}
