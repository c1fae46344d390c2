//! What the tests share: the built library, C and C++ programs, and runs under preload.
#![allow(dead_code, reason = "each test uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

pub mod built;
pub mod filter;
pub mod report;
pub mod target;

pub use report::Reports;

/// The library as users get it.
pub struct Library {
    pub shared: PathBuf,
    pub r#static: PathBuf,
}

/// Built once per test program; cargo makes that a formality for all but the first.
pub fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| Library {
        shared: released().of("hakmem", ".so"),
        r#static: released().of("hakmem", ".a"),
    })
}

/// The library and Rust programs, as users get them.
pub fn released() -> &'static built::Artifacts {
    built::released(
        match (cfg!(feature = "bench-fast"), cfg!(feature = "hardened")) {
            (true, _) => &["--features", "hakmem-ffi/bench-fast"],
            (_, true) => &["--features", "hakmem-ffi/hardened"],
            _ => &[],
        },
    )
}

/// Compares with a committed file, or writes it when `BLESS` is set.
pub fn same_as_committed(path: &Path, made: &str) {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, made).expect("the committed file can be written");
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == made,
        "{} is out of date; look at the difference, then run again with BLESS=1.\nIt should \
         be:\n{made}",
        path.display()
    );
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    C,
    Cpp,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// With the C library alone.
    Plain,
    /// The same, for a fixed address.
    Fixed,
    /// With libhakmem.a; the C library stays shared.
    Static,
    /// As a shared library.
    Shared,
}

/// The path of a program to compile. No other call gets the same path: a test that wrote a program
/// while another test runs it would fail that test with "Text file busy".
pub fn path_of_program(name: &str) -> PathBuf {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
    std::fs::create_dir_all(&directory).expect("a directory for programs");
    directory.join(format!("{name}-{}-{number}", std::process::id()))
}

/// Compiles tests/programs/`source` and returns the program.
pub fn compile(language: Language, source: &str, link: Link) -> PathBuf {
    let stem = Path::new(source)
        .file_stem()
        .expect("a file name")
        .to_string_lossy();
    let program = path_of_program(&format!("{stem}-{language:?}-{link:?}"));
    let (compiler, standard, kind) = match language {
        Language::C => ("cc", "-std=gnu11", "c"),
        Language::Cpp => ("c++", "-std=c++17", "c++"),
    };
    let mut command = target::compiler(compiler);
    // No builtins: calls of malloc and free are the subject, not to be reasoned away.
    command.args([
        standard,
        "-O1",
        "-g",
        "-fno-builtin",
        "-pthread",
        "-Wall",
        "-Wno-deprecated-declarations",
    ]);
    command
        .args(["-Wno-alloc-size-larger-than", "-Wno-use-after-free", "-o"])
        .arg(&program);
    command.args(["-x", kind]);
    command.arg(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/programs")
            .join(source),
    );
    command.args(["-x", "none"]);
    match link {
        Link::Plain => {}
        Link::Fixed => {
            command.args(["-no-pie", "-fno-pie"]);
        }
        Link::Static => {
            // Exported, so that dlsym finds the functions here as it does in a shared library.
            command.arg("-rdynamic").arg(&library().r#static);
        }
        Link::Shared => {
            command.args(["-shared", "-fPIC"]);
        }
    }
    run(&mut command);
    program
}

/// Runs to a successful end.
pub fn run(command: &mut Command) -> Output {
    let output = finish(command);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Runs to any end.
pub fn finish(command: &mut Command) -> Output {
    command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

/// Makes a command run on hakmem and report; the directory holds the report until the caller has
/// read it.
pub fn preload(command: &mut Command) -> Reports {
    let reports = Reports::new();
    command.env("LD_PRELOAD", &library().shared);
    command.env("HAKMEM_STATS", reports.setting());
    reports
}

/// True if only the first line says what was seen. The others say where: the place of the pointer,
/// an earlier write, the thread and its frames.
fn is_one_report(lines: &[&str]) -> bool {
    lines.iter().skip(1).all(|line| {
        let line = line.trim_start_matches("hakmem: ");
        ["0x", "the write was earlier", "thread ", "process ", "    "]
            .iter()
            .any(|start| line.starts_with(start))
    })
}

/// Ended by SIGABRT, after a report of ours on stderr whose first line contains `what`.
pub fn assert_aborted(output: &Output, what: &str) {
    use std::os::unix::process::ExitStatusExt;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = stderr
        .lines()
        .filter(|line| line.starts_with("hakmem:"))
        .collect();
    assert_eq!(
        output.status.signal(),
        Some(libc::SIGABRT),
        "{}: {stderr}",
        output.status
    );
    assert!(
        lines.first().is_some_and(|line| line.contains(what)) && is_one_report(&lines),
        "not one report about {what}: {stderr}"
    );
}

/// A checking program that succeeds: each of its lines is "ok NAME" or "skip NAME", and there are
/// some.
pub fn assert_checks_pass(command: &mut Command) {
    let output = finish(command);
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = text.lines().filter(|line| line.starts_with("ok ")).count();
    let skipped: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("skip "))
        .collect();
    let other: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with("ok ") && !line.starts_with("skip "))
        .collect();
    for line in skipped {
        eprintln!("{line}");
    }
    assert!(other.is_empty(), "{}", other.join("\n"));
    assert!(passed > 0, "the program checked nothing");
    assert!(
        output.status.success(),
        "{}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The program's path, or None and a visible line.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|file| file.is_file());
    if found.is_none() {
        skipped(&format!("{name} is not installed"));
    }
    found
}

/// Says that something was not tested, past the test harness's capture.
pub fn skipped(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}
