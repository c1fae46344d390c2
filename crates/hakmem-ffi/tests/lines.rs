//! Lines on standard error of a program that goes on: they do no harm.

use crate::common;

use common::{Language, Link, compile, library};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

fn program() -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    Command::new(PROGRAM.get_or_init(|| compile(Language::C, "lines.c", Link::Plain)))
}

/// What makes hakmem write a line: the program's part, the library and a variable.
type Case = (&'static str, PathBuf, [(&'static str, &'static str); 1]);

fn cases() -> Vec<Case> {
    let ordinary = || library().shared.clone();
    vec![
        ("foreign", ordinary(), [("HAKMEM_DECAY_MS", "soon")]),
        ("none", ordinary(), [("HAKMEM_NOTHING", "1")]),
        ("none", ordinary(), [("HAKMEM_STATS", "1:/dev/full")]),
        (
            "over",
            crate::errors::hardened(),
            [("HAKMEM_ON_ERROR", "report")],
        ),
    ]
}

fn assert_goes_on(output: &Output, what: &str) {
    assert!(output.status.success(), "{what}: {output:?}");
    assert_eq!(output.stdout, b"goes on\n", "{what}");
}

/// As programs find the signals, not as Rust's do.
fn with_usual_signals(command: &mut Command) -> &mut Command {
    // SAFETY: sets the dispositions of signals in the child.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
            Ok(())
        })
    }
}

#[test]
fn a_line_that_nobody_reads_ends_no_program() {
    for (part, library, variables) in cases() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = program();
        command.arg(part).env("LD_PRELOAD", library);
        command.envs(variables.iter().copied()).stderr(writer);
        let output = with_usual_signals(&mut command).output().expect("it runs");
        assert_goes_on(&output, &format!("{part} {variables:?}"));
    }
}

#[test]
fn a_line_beyond_the_limit_of_a_file_ends_no_program() {
    for (part, library, variables) in cases() {
        let mut command = program();
        command.arg(part).env("LD_PRELOAD", library);
        command
            .envs(variables.iter().copied())
            .stderr(tempfile::tempfile().expect("a file"));
        with_usual_signals(&mut command);
        // SAFETY: sets a limit in the child.
        unsafe {
            command.pre_exec(|| {
                let none = libc::rlimit {
                    rlim_cur: 0,
                    rlim_max: 0,
                };
                assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &none), 0);
                Ok(())
            });
        }
        let output = command.output().expect("it runs");
        assert_goes_on(&output, &format!("{part} {variables:?}"));
    }
}

/// The program's file has the number of its standard error.
#[test]
fn no_line_comes_into_the_programs_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("data");
    let run = |part: &str, library: &Path, variables: &[(&str, &str)]| {
        let mut command = program();
        command.arg(part).arg(&file).env("LD_PRELOAD", library);
        command
            .envs(variables.iter().copied())
            .stderr(Stdio::piped());
        let output = command.output().expect("it runs");
        let what = format!("{part} {variables:?}");
        assert_goes_on(&output, &what);
        assert_eq!(std::fs::read(&file).expect(&what), b"data\n", "{what}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (part, library, variables) in cases() {
        run(part, &library, &variables);
    }
    run("foreign", &library().shared, &[]);
}

/// Without such a file, the lines come.
#[test]
fn the_lines_come() {
    for (part, library, variables) in cases() {
        let mut command = program();
        command.arg(part).env("LD_PRELOAD", library);
        let output = command
            .envs(variables.iter().copied())
            .output()
            .expect("it runs");
        assert_goes_on(&output, part);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.starts_with("hakmem: "), "{part} {variables:?}: {said}");
        if part == "foreign" {
            assert!(said.contains("1000 pointers from another"), "{said}");
        }
    }
}
