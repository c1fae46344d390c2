//! `hakmem profile`: which code allocated what.
//!
//! The library samples, and writes addresses; what they are called is found here, when the program
//! has ended.

pub mod confined;
mod live;
mod summary;

use crate::checked::{self, Lines, say};
use crate::child::End;
use crate::named::Named;
use crate::outcome::signal_name;
use crate::terminal::Terminal;
use crate::{grammar, output, run};
use clap::{ArgGroup, Args};
use hakmem_pprof::Bytes;
use hakmem_pprof::tool::module::Look;
use hakmem_pprof::tool::{Profile, encode, flame, raw};
use live::Live;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

/// Bytes of a line of a file.
const LINE: usize = 1 << 20;

pub const AFTER_HELP: &str = "\
Writes PREFIX.pb.gz (for pprof: `go tool pprof -http=: PREFIX.pb.gz`), PREFIX.live.svg and \
PREFIX.allocated.svg (flame graphs, for a browser), and both as folded stacks. There is no \
PREFIX.live.svg if nothing is live; hakmem then removes one of an earlier run, and says so.
hakmem prints what was live at the end, by the code that allocated it. The list goes to standard \
output, and to standard error if hakmem runs PROG.
hakmem runs PROG as `hakmem run` does, and exits with its exit status.
With --pid alone, hakmem switches the profile on in a running process, which needs no preparation, \
and switches it off after --seconds, or at Ctrl-C. It needs the right to trace the process: root \
has it, and the same user where the system allows that. The profile then has what was allocated \
meanwhile, and in earlier such times: a line says how many samples are from these.
FILE holds what a program appends under HAKMEM_PROFILE=FILE; hakmem reads the last profile.
Exit status: 0, or
  1    FILE cannot be read, or has no profile; no such process, it may not be read, or it does not \
  run on hakmem
  2    wrong usage
  125  the files cannot be written, or the program left no profile
  125, 126, 127  PROG was not started, as for `hakmem run`

Examples:
  hakmem profile python3 work.py
  hakmem profile -o /tmp/redis redis-server --port 7777
  hakmem profile --pid 1234 --seconds 30
  hakmem profile --file /tmp/profiles --pid 1234";

#[derive(Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["file", "pid", "command"]))]
pub struct Options {
    /// Reads a file of profiles that the library wrote; - is standard input
    #[arg(long, conflicts_with = "command")]
    file: Option<PathBuf>,
    /// The start of the names of the files [default: hakmem-PROG, FILE, or hakmem-PID]
    #[arg(short, long, value_name = "PREFIX")]
    output: Option<PathBuf>,
    /// Average bytes from one sample to the next; 1 samples almost every allocation
    #[arg(long, value_name = "BYTES", conflicts_with = "file", default_value_t = 512 << 10, value_parser = interval, allow_negative_numbers = true)]
    interval: u32,
    /// The process to profile while it runs; with --file the one whose profile to read, if FILE has
    /// profiles of several
    #[arg(long, conflicts_with = "command", value_parser = grammar::process, allow_negative_numbers = true)]
    pid: Option<u32>,
    /// How long the process is profiled [default: until Ctrl-C]
    #[arg(long, value_name = "N", requires = "pid", conflicts_with_all = ["file", "command"], value_parser = seconds, allow_negative_numbers = true)]
    seconds: Option<Duration>,
    /// Shows also the allocator's functions, and those of the standard libraries around them
    #[arg(long)]
    all_frames: bool,
    /// The library; without it the libhakmem.so beside hakmem, in ../lib or ../lib/hakmem
    #[arg(long, value_name = "PATH", conflicts_with_all = ["file", "pid"])]
    lib: Option<PathBuf>,
    /// The program, with its arguments
    #[arg(trailing_var_arg = true, num_args = 1.., value_names = ["PROG", "ARGS"])]
    command: Vec<OsString>,
}

/// What `hakmem run` is to do besides.
#[derive(Debug, Clone)]
pub struct Wish {
    pub interval: String,
    output: PathBuf,
    all_frames: bool,
}

fn interval(text: &str) -> Result<u32, String> {
    grammar::whole(text, 1, 1 << 30)
}

fn seconds(text: &str) -> Result<Duration, String> {
    crate::grammar::seconds(text, 0.01, 1e6)
}

pub fn profile(options: Options) -> ! {
    if let (Some(pid), None) = (options.pid, &options.file) {
        finish(live(pid, &options))
    }
    let Some(file) = &options.file else {
        grammar::meant("profile", &options.command[0], &["--file", "--pid"]);
        let program = Path::new(&options.command[0])
            .file_name()
            .unwrap_or_default();
        let name = || PathBuf::from(format!("hakmem-{}", program.to_string_lossy()));
        let output = options.output.unwrap_or_else(name);
        let tried =
            is_name(&output).and_then(|()| output::tried(&with_extension(&output, "pb.gz")));
        if let Err(why) = tried {
            say(&why);
            process::exit(run::OWN_FAILURE)
        }
        run::run(&run::Options {
            profile: Some(Wish {
                interval: options.interval.to_string(),
                output,
                all_frames: options.all_frames,
            }),
            lib: options.lib,
            command: options.command,
            ..run::Options::default()
        })
    };
    let is_input = file == Path::new("-");
    let output = options.output.unwrap_or_else(|| match is_input {
        true => "hakmem-profile".into(),
        false => file.clone(),
    });
    let shown = Shown {
        all_frames: options.all_frames,
        terminal: Terminal::of_stdout(),
        ..Shown::default()
    };
    let written = is_name(&output)
        .and_then(|()| of_file(file, options.pid))
        .and_then(|raw| {
            let look = |path: &str, offsets: &[u64]| confined::of_file(Path::new(path), offsets);
            let named = |why| format!("{}: {why}", file.display());
            files(&raw, &look, &shown, &output).map_err(named)
        });
    finish(written)
}

/// The profile of a file that is meant. The error is for the user to read.
fn of_file(file: &Path, pid: Option<u32>) -> Result<raw::Raw, String> {
    let name = file.display();
    let text = grammar::open(file).map_err(|e| format!("cannot read {name}: {e}"))?;
    let found = raw::last(text, pid).map_err(|why| format!("{name}: {why}"))?;
    found.ok_or_else(|| match pid {
        Some(pid) => format!(
            "{name}: there is no heap profile of process {pid}{}",
            others(file, pid)
        ),
        None => format!("{name}: there is no heap profile"),
    })
}

/// Of which other processes a file has profiles; nothing if there are none, or it cannot be read
/// twice.
fn others(file: &Path, asked: u32) -> String {
    let mut found = Named::default();
    if let Ok(file) = checked::open(file) {
        let mut lines = Lines::new(BufReader::new(file), LINE);
        while let Ok(Some(line)) = lines.next() {
            let pid = line.split_once("# hakmem ").and_then(|(_, rest)| {
                let pid = rest.split(' ').find_map(|word| word.strip_prefix("pid="));
                pid?.parse().ok()
            });
            pid.filter(|pid| *pid != asked)
                .into_iter()
                .for_each(|pid| found.add(pid));
        }
    }
    match (found.is_empty(), found.is_one()) {
        (true, _) => String::new(),
        (_, true) => format!("; it has one of {}", found.text()),
        _ => format!("; it has those of {}", found.text()),
    }
}

/// Of a running process.
fn live(pid: u32, options: &Options) -> Result<String, String> {
    let output = match &options.output {
        Some(output) => output.clone(),
        None => format!("hakmem-{pid}").into(),
    };
    is_name(&output).and_then(|()| output::tried(&with_extension(&output, "pb.gz")))?;
    let mut live = Live::start(pid, options.interval.into())?;
    match live.is_on_by_program() {
        true => say(&format!(
            "process {pid} has its heap profile on itself: it is read as it is, and stays on"
        )),
        false => {
            let end = match options.seconds {
                Some(time) => format!("for {} s", time.as_secs_f64()),
                None => "until Ctrl-C".into(),
            };
            say(&format!("the heap profile of process {pid} is on, {end}"));
            live.wait(options.seconds)
        }
    }
    let earlier = live.earlier();
    let (raw, program) = live.end()?;
    let look = |path: &str, offsets: &[u64]| live::look(pid, path, offsets);
    let shown = Shown {
        all_frames: options.all_frames,
        program: Some(&program),
        earlier,
        terminal: Terminal::of_stdout(),
    };
    files(&raw, &look, &shown, &output)
}

/// Says what there is to say, and ends this process.
fn finish(done: Result<String, String>) -> ! {
    match done.and_then(|said| output::show(said.as_bytes())) {
        Ok(()) => process::exit(0),
        Err(why) => {
            say(&why);
            process::exit(1)
        }
    }
}

/// How a profile is shown.
#[derive(Default)]
struct Shown<'a> {
    all_frames: bool,
    /// The name that the program was started by, if that is known.
    program: Option<&'a str>,
    /// Samples that are from before.
    earlier: u64,
    /// That the list is printed on.
    terminal: Option<Terminal>,
}

/// Writes the files of one profile. Returns what is to be said of it; the error is for the user to
/// read.
fn files(raw: &raw::Raw, look: Look, shown: &Shown, output: &Path) -> Result<String, String> {
    let program = shown.program.map(checked::name);
    let profile = Profile::of(raw, shown.all_frames, look)?;
    let mut gone = String::new();
    let mut files = vec![save(output, "pb.gz", &encode::encode(&profile, true))?];
    for bytes in [Bytes::Live, Bytes::Allocated] {
        let lines = flame::folded(&profile, bytes)?;
        let mut folded = lines.join("\n");
        folded.push('\n');
        files.push(save(
            output,
            &format!("{}.folded", bytes.name()),
            folded.as_bytes(),
        )?);
        let graph = format!("{}.svg", bytes.name());
        if lines.is_empty() {
            gone += &without(&with_extension(output, &graph), bytes)?;
            continue;
        }
        let svg = flame::graph(&lines, &profile, bytes, program.as_deref())?;
        files.push(save(output, &graph, svg.as_bytes())?);
    }
    let said = match raw.samples.is_empty() && raw.event != "exit" {
        true => empty(raw.pid, &files),
        false => summary::of(&profile, raw, shown.earlier, &files, shown.terminal),
    };
    Ok(said + &gone)
}

/// What is said of a running process's profile without samples.
fn empty(pid: u32, files: &[PathBuf]) -> String {
    let mut text = format!(
        "hakmem: heap profile of process {pid}, while running\n  \
         It allocated nothing in this time, or too little for a sample.\n"
    );
    for file in files {
        text += &format!("  wrote {}\n", file.display());
    }
    text
}

impl Wish {
    /// For a program that has ended so: `file` is what the library wrote, if it did. The error is
    /// for the user to read.
    pub fn fulfil(&self, file: &Path, pid: u32, program: &str, end: End) -> Result<String, String> {
        let text: Box<dyn BufRead> = match checked::open(file) {
            Ok(file) => Box::new(BufReader::new(file)),
            Err(_) => Box::new(io::empty()),
        };
        let raw = raw::last(text, Some(pid))?.ok_or_else(|| none(program, end))?;
        let look = |path: &str, offsets: &[u64]| confined::of_file(Path::new(path), offsets);
        let shown = Shown {
            all_frames: self.all_frames,
            program: Some(program),
            terminal: Terminal::of_stderr(),
            ..Shown::default()
        };
        files(&raw, &look, &shown, &self.output)
    }
}

/// What is said of a program that ended so and left no profile.
fn none(program: &str, end: End) -> String {
    let why = match end {
        End::Killed(signal) => format!(
            "{} killed the process before it could report",
            signal_name(signal)
        ),
        End::Exited(_) => {
            "it ended without exit handlers (_exit, exec), or could not write".to_owned()
        }
    };
    format!(
        "{program} left no heap profile: {why}; hakmem profile --pid PID takes one before the end, \
         and with HAKMEM_PROFILE_SIGNAL=USR2 the program writes one at each SIGUSR2"
    )
}

fn save(prefix: &Path, extension: &str, bytes: &[u8]) -> Result<PathBuf, String> {
    let path = with_extension(prefix, extension);
    let written = output::create(&path).and_then(|mut file| file.write_all(bytes));
    written.map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    Ok(path)
}

/// Removes the graph of a profile before, if there is one. Returns what is said of that.
fn without(graph: &Path, bytes: Bytes) -> Result<String, String> {
    let name = graph.display();
    let nothing = match bytes {
        Bytes::Live => "nothing is live",
        Bytes::Allocated => "nothing was allocated",
    };
    match fs::remove_file(graph) {
        Ok(()) => Ok(format!("  removed {name} of an earlier run: {nothing}\n")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(format!("  no {name}: {nothing}\n")),
        Err(e) => Err(format!("cannot remove {name}: {e}")),
    }
}

/// Whether files can be named so; the error is for the user to read.
fn is_name(prefix: &Path) -> Result<(), String> {
    match prefix.as_os_str().as_bytes().ends_with(b"/") {
        true => Err(format!(
            "{} is a folder: the names of the files begin with PREFIX, as in {0}heap",
            prefix.display()
        )),
        false => Ok(()),
    }
}

fn with_extension(prefix: &Path, extension: &str) -> PathBuf {
    let mut path = prefix.as_os_str().to_owned();
    path.push(".");
    path.push(extension);
    path.into()
}
