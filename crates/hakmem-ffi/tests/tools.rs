//! Programs of users under hakmem and another tool at once. docs/tools.md says what happens with
//! each; the tests here show it for C and C++, `ci/tools` for Rust.

use crate::common;

use common::{
    Language, Link, Reports, compile, find_program, finish, library, path_of_program, preload,
    skipped,
};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What a run came to.
struct Run {
    output: Output,
    /// The allocations that hakmem served, if it was loaded and reported at exit.
    served: Option<u64>,
}

impl Run {
    fn of(command: &mut Command, reports: &Reports) -> Self {
        let output = finish(command);
        let served = reports.served();
        Self { output, served }
    }

    /// All that it wrote.
    fn text(&self) -> String {
        let parts = [&self.output.stdout, &self.output.stderr];
        parts.map(|part| String::from_utf8_lossy(part)).concat()
    }

    /// It succeeded, and hakmem served it: the tool saw none of its blocks.
    fn assert_served(&self) {
        assert!(self.output.status.success(), "{}", self.text());
        assert!(
            self.served > Some(150),
            "{:?}: {}",
            self.served,
            self.text()
        );
    }

    /// The tool's allocator served it, and hakmem, though it was loaded, did not. The tool said
    /// `what`.
    fn assert_found(&self, what: &str) {
        assert!(self.text().contains(what), "no {what}: {}", self.text());
        assert!(!self.output.status.success(), "{}", self.text());
        assert!(self.served.unwrap_or(0) == 0, "{:?}", self.served);
    }

    /// It succeeded, and hakmem, though it was loaded, served none of it.
    fn assert_left_to_the_tool(&self) {
        assert!(self.output.status.success(), "{}", self.text());
        assert_eq!(self.served, Some(0), "{}", self.text());
    }
}

/// tools.c with a sanitizer. None where the compiler has not got it.
fn sanitized(flags: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/tools.c");
    let program = path_of_program(&format!("tools{}", flags.concat()));
    let mut command = Command::new("cc");
    command
        .args(["-g", "-O1", "-fno-builtin", "-w", "-pthread"])
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(&program);
    if !finish(&mut command).status.success() {
        skipped(&format!("cc has no {}", flags.join(" ")));
        return None;
    }
    Some(program)
}

/// A program under preload.
fn under(program: &Path, argument: &str) -> Run {
    let mut command = Command::new(program);
    let reports = preload(&mut command);
    Run::of(command.arg(argument), &reports)
}

/// The program with hakmem preloaded behind a tool's runtime.
fn behind(runtime: &Path, program: &Path, argument: &str) -> Run {
    let mut command = Command::new(program);
    let reports = preload(&mut command);
    let both = format!("{}:{}", runtime.display(), library().shared.display());
    Run::of(command.arg(argument).env("LD_PRELOAD", both), &reports)
}

/// The program under memcheck, which fails it for each error.
fn memcheck(program: &Path, arguments: &[&str], options: &[&str]) -> Run {
    let mut command = Command::new("valgrind");
    command
        .args(["--error-exitcode=9", "--leak-check=full"])
        .args(options)
        .arg(program)
        .args(arguments);
    let reports = preload(&mut command);
    Run::of(&mut command, &reports)
}

/// A runtime that is a shared library, as gcc has it, wants to come first, and says so.
#[test]
fn shared_address_sanitizer_refuses_a_preload() {
    let Some(program) = sanitized(&["-fsanitize=address"]) else {
        return;
    };
    let run = under(&program, "ok");
    if run.output.status.success() {
        return skipped("this cc links the runtime statically");
    }
    assert!(run.text().contains("does not come first"), "{}", run.text());
}

/// Where it does come first, it serves the program and finds its errors. hakmem, behind it, serves
/// nothing.
#[test]
fn address_sanitizer_before_hakmem_finds_errors() {
    let Some(program) = sanitized(&["-fsanitize=address"]) else {
        return;
    };
    let under = |argument: &str| behind(&run_time("libasan.so"), &program, argument);
    under("ok").assert_left_to_the_tool();
    under("after").assert_found("heap-use-after-free");
    under("leak").assert_found("LeakSanitizer: detected memory leaks");
}

/// Where the runtime is in the program itself, as clang has it, its malloc comes before a preloaded
/// one.
#[test]
fn static_address_sanitizer_finds_errors() {
    let Some(program) = sanitized(&["-fsanitize=address", "-static-libasan"]) else {
        return;
    };
    under(&program, "ok").assert_left_to_the_tool();
    under(&program, "after").assert_found("heap-use-after-free");
    under(&program, "leak").assert_found("LeakSanitizer: detected memory leaks");
}

/// hakmem serves the program. So the sanitizer does not see that a block was freed.
///
/// Nor does it see the atomics through which memory of an ended thread passes to another one: now
/// and then it reports a race that is none. A report does not change the exit status here.
#[test]
fn thread_sanitizer_beside_hakmem() {
    let Some(program) = sanitized(&["-fsanitize=thread"]) else {
        return;
    };
    for argument in ["ok", "after"] {
        let mut command = Command::new(&program);
        let reports = preload(&mut command);
        command.arg(argument).env("TSAN_OPTIONS", "exitcode=0");
        Run::of(&mut command, &reports).assert_served();
    }
}

/// Where it does come first, it serves the program, and finds a read after a free. The program is
/// right in how its threads hand blocks on.
#[test]
fn thread_sanitizer_before_hakmem_finds_errors() {
    let Some(program) = sanitized(&["-fsanitize=thread"]) else {
        return;
    };
    let under = |argument: &str| behind(&run_time("libtsan.so"), &program, argument);
    under("ok").assert_left_to_the_tool();
    under("after").assert_found("heap-use-after-free");
}

/// It looks at the program's own code alone.
#[test]
fn undefined_behaviour_sanitizer_beside_hakmem() {
    let Some(program) = sanitized(&["-fsanitize=undefined"]) else {
        return;
    };
    under(&program, "ok").assert_served();
}

/// memcheck puts its malloc in place of hakmem's.
#[test]
fn memcheck_finds_errors() {
    if find_program("valgrind").is_none() {
        return;
    }
    let program = compile(Language::C, "tools.c", Link::Plain);
    memcheck(&program, &["ok"], &[]).assert_left_to_the_tool();
    memcheck(&program, &["after"], &[]).assert_found("Invalid read of size 1");
    memcheck(&program, &["leak"], &[]).assert_found("definitely lost");
}

/// Told to replace no malloc, memcheck lets hakmem serve, as other tools of valgrind do.
#[test]
fn memcheck_leaves_the_heap_alone() {
    if find_program("valgrind").is_none() {
        return;
    }
    let program = compile(Language::C, "tools.c", Link::Plain);
    let options = ["--soname-synonyms=somalloc=nouserintercepts"];
    memcheck(&program, &["ok"], &options).assert_served();
}

/// Each of hakmem's operators is a function of its own, so memcheck tells them apart.
#[test]
fn memcheck_of_a_program_in_cpp() {
    if find_program("valgrind").is_none() {
        return;
    }
    let program = compile(Language::Cpp, "tools.cpp", Link::Plain);
    memcheck(&program, &[], &[]).assert_left_to_the_tool();
}

/// heaptrack counts the calls, and hakmem serves them.
#[test]
fn heaptrack_counts_what_hakmem_serves() {
    if find_program("heaptrack").is_none() {
        return;
    }
    let program = compile(Language::C, "tools.c", Link::Plain);
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new("heaptrack");
    command.arg("-o").arg(folder.path().join("out"));
    let reports = preload(command.arg(&program).arg("ok"));
    let run = Run::of(&mut command, &reports);
    run.assert_served();
    let text = run.text();
    let counted = text
        .lines()
        .filter_map(|line| line.split_once("allocations:"));
    let counted: Vec<u64> = counted.filter_map(|(_, n)| n.trim().parse().ok()).collect();
    assert!(counted.iter().any(|n| *n > 150), "{text}");
}

/// A library that the compiler brings.
fn run_time(name: &str) -> PathBuf {
    let output = common::run(Command::new("cc").arg(format!("-print-file-name={name}")));
    let path = String::from_utf8(output.stdout).expect("UTF-8");
    PathBuf::from(path.trim_end())
}
