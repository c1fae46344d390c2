//! `hakmem run` with the library of this workspace.

use crate::common;

use common::*;
use std::process::Output;

fn run_hakmem(options: &[&str], program: &[&str]) -> Output {
    let mut command = hakmem();
    command
        .arg("run")
        .arg("--lib")
        .arg(&*HAKMEM)
        .args(options)
        .arg("--")
        .args(program);
    command.output().unwrap()
}

/// The number behind "allocations served" in the first section.
fn served(output: &Output) -> u64 {
    let text = stderr(output);
    let (_, rest) = text
        .split_once("allocations served")
        .unwrap_or_else(|| panic!("no summary: {text}"));
    let (number, _) = rest.split_once(", ").unwrap();
    number.trim().replace(',', "").parse().unwrap()
}

#[test]
fn serves_a_program() {
    let output = run_hakmem(
        &["--stats", "--require"],
        &[
            "perl",
            "-e",
            "my @a = map { \"x$_\" } 1..10000; print $#a; exit 7",
        ],
    );
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(7), "9999"),
        "{}",
        stderr(&output)
    );
    assert!(served(&output) > 10_000, "{}", stderr(&output));
    for name in [
        "peak live",
        "peak resident",
        "page faults",
        "its system calls",
    ] {
        assert_says(&output, name);
    }
}

#[test]
fn counts_the_processes_it_serves() {
    let output = run_hakmem(
        &["--stats"],
        &["bash", "-c", "perl -e 1; perl -e 1; exit 0"],
    );
    assert_says(&output, "all together (3 processes");
}

#[test]
fn is_silent_without_stats() {
    let output = run_hakmem(&["--require"], &["perl", "-e", "print 1"]);
    assert_eq!(
        (
            output.status.code(),
            stdout(&output).as_str(),
            stderr(&output).as_str()
        ),
        (Some(0), "1", "")
    );
}
