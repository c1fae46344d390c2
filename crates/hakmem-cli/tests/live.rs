//! `hakmem profile --pid`: programs that were not prepared, which say themselves what they keep.

use crate::common::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

static LIVE: LazyLock<PathBuf> = LazyLock::new(|| {
    let flags = ["-O1", "-g", "-fno-builtin", "-pthread"];
    BUILT.compile("live.c", "live", &flags)
});

/// Bytes of a block that the programs keep, and between samples.
const SIZE: f64 = 1024.0;
const INTERVAL: f64 = 4096.0;
/// Blocks that they keep at a time.
const MANY: u32 = 40_000;

/// A program that does what it is told.
struct Program(Ready);

impl Program {
    fn new(mut command: Command) -> Self {
        command.stdin(Stdio::piped());
        Self(Ready::new(command))
    }

    fn preloaded() -> Self {
        let mut command = Command::new(&*LIVE);
        command.env("LD_PRELOAD", &*HAKMEM);
        let program = Self::new(command);
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", program.0.pid())).unwrap();
        assert!(maps.contains("libhakmem.so"), "hakmem serves it");
        program
    }

    fn tell(&mut self, line: &str) {
        let mut input = self.0.child.stdin.as_ref().unwrap();
        writeln!(input, "{line}").unwrap();
        assert_eq!(self.0.line(), "ready", "{line}");
    }

    fn keep(&mut self) {
        self.tell(&format!("keep {MANY}"));
    }
}

/// The allocations that `hakmem stat --pid` shows.
fn allocations(program: &Program) -> u64 {
    let pid = program.0.pid().to_string();
    let output = hakmem().args(["stat", "--pid", &pid]).output().unwrap();
    let text = stdout(&output);
    let line = text.lines().find(|line| line.contains("  allocations "));
    let number = line.unwrap_or_else(|| panic!("{text}{}", stderr(&output)));
    let number = number.split_whitespace().nth(1).unwrap();
    number.replace(',', "").parse().unwrap()
}

/// A plug-in may carry a hakmem of its own, which made as many heaps as the library that serves the
/// process.
#[test]
fn a_plug_in_is_not_taken_for_the_process() {
    let plug_in = built::released(&[]).of("plugin", ".so");
    let mut program = Program::preloaded();
    program.keep();
    program.tell(&format!("open {}", plug_in.display()));
    let seen = allocations(&program);
    assert!(seen >= u64::from(MANY), "{seen}");
}

/// `hakmem profile --pid` with these options.
fn command(pid: i32, prefix: &Path, options: &[&str]) -> Command {
    let mut command = hakmem();
    command.args(["profile", "--pid", &pid.to_string(), "-o"]);
    command.arg(prefix).args(options).stderr(Stdio::piped());
    command
}

/// The command while the profile is on.
struct Profiling {
    child: Child,
    said: BufReader<std::process::ChildStderr>,
}

impl Profiling {
    fn start(program: &Program, prefix: &Path) -> Self {
        let mut command = command(program.0.pid(), prefix, &["--interval", "4096"]);
        command.stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let mut profiling = Self { child, said };
        let mut line = String::new();
        profiling.said.read_line(&mut line).unwrap();
        assert!(line.contains("is on, until Ctrl-C"), "{line}");
        profiling
    }

    /// Ends it, by a signal if there is one. Returns what it says.
    fn end(mut self, signal: Option<i32>) -> String {
        if let Some(signal) = signal {
            // SAFETY: the child is not reaped, so the pid is its own.
            assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
        }
        let mut text = String::new();
        self.said.read_to_string(&mut text).unwrap();
        let mut list = self.child.stdout.take().unwrap();
        list.read_to_string(&mut text).unwrap();
        assert!(self.child.wait().unwrap().success(), "{text}");
        text
    }
}

/// Bytes of the stacks with a function whose name ends so.
fn bytes(prefix: &Path, which: &str, function: &str) -> f64 {
    let text = std::fs::read_to_string(prefix.with_extension(format!("{which}.folded"))).unwrap();
    let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let of = lines.filter(|(stack, _)| stack.split(';').any(|f| f.ends_with(function)));
    of.map(|(_, bytes)| bytes.parse::<f64>().unwrap()).sum()
}

/// As much as so many blocks, within five standard errors, and a few on lists from before.
#[track_caller]
fn about(bytes: f64, blocks: u32) {
    let want = f64::from(blocks) * SIZE;
    let error = 5.0 * (want * INTERVAL).sqrt() + 64.0 * SIZE;
    assert!((bytes - want).abs() < error, "{bytes} for {want} ± {error}");
}

fn is_profiled(mut program: Program, function: &str) {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    program.keep();
    let profiling = Profiling::start(&program, &first);
    program.keep();
    let said = profiling.end(Some(libc::SIGINT));
    assert!(said.contains("while running") && said.contains("first.pb.gz"));
    assert!(!said.contains("before this run"), "{said}");
    about(bytes(&first, "live", function), MANY);
    about(bytes(&first, "allocated", function), MANY);
    // It is off meanwhile, and goes on where it was.
    program.keep();
    let profiling = Profiling::start(&program, &second);
    program.keep();
    let said = profiling.end(Some(libc::SIGTERM));
    assert!(
        said.contains(" of them were taken before this run\n"),
        "{said}"
    );
    about(bytes(&second, "allocated", function), 2 * MANY);
}

#[test]
fn a_preloaded_program_is_profiled_while_it_runs() {
    is_profiled(Program::preloaded(), "keeps");
}

#[test]
fn a_rust_program_is_profiled_while_it_runs() {
    let program = built::debugged().example("asked");
    is_profiled(Program::new(Command::new(program)), "asked::keeps");
}

/// The tables grow and move while they are read, and the profile is switched on and off.
#[test]
fn a_program_that_makes_stacks_all_the_time_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("out");
    let mut program = Program::preloaded();
    program.tell("churn");
    for _ in 0..3 {
        let options = ["--interval", "4096", "--seconds", "0.02"];
        let output = command(program.0.pid(), &prefix, &options)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    assert!(bytes(&prefix, "allocated", "digs") > 0.0);
    assert!(bytes(&prefix, "allocated", "churns") > 0.0);
    program.tell("keep 10");
}

/// It goes on as it was: what the program keeps later is in its own file, too.
#[test]
fn the_programs_own_profile_is_read_and_stays_on() {
    let folder = tempfile::tempdir().unwrap();
    let [own, prefix] = ["own", "out"].map(|name| folder.path().join(name));
    let mut program = Command::new(&*LIVE);
    program
        .env("LD_PRELOAD", &*HAKMEM)
        .env("HAKMEM_PROFILE", &own)
        .env("HAKMEM_PROFILE_INTERVAL", "4096");
    let mut program = Program::new(program);
    program.keep();
    let output = command(program.0.pid(), &prefix, &[]).output().unwrap();
    assert!(output.status.success());
    assert_says(&output, "has its heap profile on itself");
    about(bytes(&prefix, "live", "keeps"), MANY);
    program.keep();
    drop(program.0.child.stdin.take());
    assert!(program.0.child.wait().unwrap().success());
    let mut read = hakmem();
    read.args(["profile", "--file"])
        .arg(&own)
        .arg("-o")
        .arg(&prefix);
    assert!(read.output().unwrap().status.success());
    about(bytes(&prefix, "live", "keeps"), 2 * MANY);
}

#[test]
fn a_process_that_goes_has_a_profile_up_to_then() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("out");
    let mut program = Program::preloaded();
    let profiling = Profiling::start(&program, &prefix);
    program.0.kill(libc::SIGKILL);
    program.0.child.wait().unwrap();
    let said = profiling.end(None);
    assert!(said.contains("has ended: the profile is the one"), "{said}");
    let mut program = Program::preloaded();
    let profiling = Profiling::start(&program, &prefix);
    program.tell("again");
    let said = profiling.end(Some(libc::SIGINT));
    assert!(said.contains("runs another program than before"), "{said}");
    // In which nothing is on.
    Profiling::start(&program, &prefix).end(Some(libc::SIGINT));
}

/// As in a container: its filters are from before it was executed.
#[test]
fn a_process_that_inherited_its_filter_is_profiled() {
    let mut program = Program::preloaded();
    program.tell("filter");
    program.tell("again");
    let doctor = doctor(program.0.pid());
    assert!(
        doctor.contains("profile and options can read it"),
        "{doctor}"
    );
    is_profiled(program, "keeps");
}

/// The lock goes with the command, and what it left on is taken over.
#[test]
fn one_command_at_a_time_and_a_killed_one_leaves_no_lock() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("out");
    let mut program = Program::preloaded();
    let mut first = Profiling::start(&program, &prefix);
    let second = command(program.0.pid(), &prefix, &[]).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert_says(&second, "another hakmem takes the profile");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let third = Profiling::start(&program, &prefix);
    program.keep();
    third.end(Some(libc::SIGINT));
    about(bytes(&prefix, "live", "keeps"), MANY);
    program.keep();
    Profiling::start(&program, &prefix).end(Some(libc::SIGINT));
    about(bytes(&prefix, "live", "keeps"), MANY);
}

#[track_caller]
fn refused(mut command: Command, why: &str) {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_says(&output, why);
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
}

/// What `hakmem doctor` says of a process, in one line.
fn doctor(pid: i32) -> String {
    let mut command = hakmem();
    let output = command.args(["doctor", "--lib"]).arg(&*HAKMEM);
    let output = output.args(["--pid", &pid.to_string()]).output().unwrap();
    let text = stdout(&output);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn what_cannot_be_profiled_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("out");
    let of = |pid| command(pid, &prefix, &[]);
    let mut sleeps = Command::new("sleep").arg("1000").spawn().unwrap();
    refused(of(sleeps.id() as i32), "does not run on hakmem");
    sleeps.kill().unwrap();
    // Until it has ended; it is not reaped yet.
    // SAFETY: all zeroes are a valid siginfo_t, and the child is this process's.
    let waited = unsafe {
        let mut info = std::mem::zeroed();
        let how = libc::WEXITED | libc::WNOWAIT;
        libc::waitid(libc::P_PID, sleeps.id(), &mut info, how)
    };
    assert_eq!(waited, 0);
    refused(of(sleeps.id() as i32), "has ended");
    sleeps.wait().unwrap();
    refused(of(i32::MAX), "there is no process");
    let mut program = Program::preloaded();
    let nowhere = command(program.0.pid(), Path::new("/nowhere/out"), &[]);
    refused(nowhere, "cannot write /nowhere/out.pb.gz");
    program.tell("filter");
    refused(of(program.0.pid()), "has a filter for system calls");
    refused(
        of(program.0.pid()),
        "set HAKMEM_PROFILE and HAKMEM_PROFILE_SIGNAL",
    );
    let doctor = doctor(program.0.pid());
    assert!(doctor.contains("profile --pid refuses it"), "{doctor}");
    for wrong in [
        &["--seconds", "0"][..],
        &["--lib", "/x"],
        &["--file", "/x", "--seconds", "1"],
    ] {
        let output = command(program.0.pid(), &prefix, wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

/// By the rights that the system gives, as for another user's process.
#[test]
fn what_may_not_be_profiled_is_said() {
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("skipped: this needs root, to be another user");
    }
    let (command, place) = for_nobody();
    let profile = |pid: i32| {
        let mut profile = Command::new(&command);
        let output = place.join("out");
        profile
            .args(["profile", "--pid", &pid.to_string(), "-o"])
            .arg(output);
        profile.uid(65534).gid(65534);
        profile
    };
    let roots = Program::preloaded();
    refused(profile(roots.0.pid()), "it is root's, and you are nobody");
    // Its own, which keeps others out.
    let mut hidden = Command::new(copied(&LIVE, &place));
    hidden.env("LD_PRELOAD", copied(&HAKMEM, &place));
    hidden.uid(65534).gid(65534);
    let mut hidden = Program::new(hidden);
    hidden.tell("hide");
    refused(
        profile(hidden.0.pid()),
        "it keeps others out (prctl PR_SET_DUMPABLE",
    );
    std::fs::remove_dir_all(place).unwrap();
}

#[test]
fn a_process_that_allocates_nothing_has_no_table() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::preloaded();
    program.keep(); // It has what it needs to read a line, and waits for the next.
    let profiling = Profiling::start(&program, &folder.path().join("out"));
    let said = profiling.end(Some(libc::SIGINT));
    let line = "  It allocated nothing in this time, or too little for a sample.\n";
    assert!(said.contains(line), "{said}");
    assert!(!said.contains("live "), "{said}");
    assert!(said.contains("  wrote "), "{said}");
}
