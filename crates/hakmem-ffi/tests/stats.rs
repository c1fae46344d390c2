//! `HAKMEM_STATS`: what is reported, where, and what becomes of mistakes.

mod common;

use common::{Language, Link, Reports, compile, library, preload, run};
use std::process::Command;

/// The shell of these tests. Not sh: dash ends by _exit, without exit handlers.
const SHELL: &str = "bash";

/// `script` run on hakmem, with `HAKMEM_STATS=setting`.
fn shell(setting: &str, script: &str) -> (String, String) {
    let mut command = Command::new(SHELL);
    command
        .args(["-c", script])
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_STATS", setting);
    let output = run(&mut command);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (text(output.stdout), text(output.stderr))
}

#[test]
fn lines_for_people() {
    let (stdout, stderr) = shell("1", "echo word");
    assert_eq!(stdout, "word\n");
    assert!(
        stderr.lines().count() >= 3 && stderr.lines().all(|line| line.starts_with("hakmem")),
        "{stderr}"
    );
}

#[test]
fn json_on_stderr() {
    let (_, stderr) = shell("json", "echo word");
    let line: serde_json::Value = serde_json::from_str(&stderr).expect("one JSON line");
    for key in [
        "schema",
        "pid",
        "allocations",
        "frees",
        "live_bytes",
        "peak_live_bytes",
        "reserved_bytes",
        "committed_bytes",
        "dirty_bytes",
        "purged_bytes",
        "foreign_frees",
        "heaps",
        "peak_resident_kib",
        "minor_faults",
        "major_faults",
    ] {
        assert!(line[key].is_u64(), "{key} in {line}");
    }
    assert_eq!(line["event"], "exit");
    assert!(
        line["peak_resident_kib"].as_u64() > Some(100) && line["minor_faults"].as_u64() > Some(10),
        "{line}"
    );
    for call in line["syscalls"].as_array().expect("an array") {
        assert!(call["name"].is_string() && call["calls"].is_u64(), "{call}");
        assert!(
            call["failures"].is_u64() && call["nanos"].is_u64(),
            "{call}"
        );
    }
}

/// coreutils close stderr before they end.
#[test]
fn stderr_closed_by_the_program() {
    let mut command = Command::new("ls");
    command
        .arg("/")
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_STATS", "json");
    let output = run(&mut command);
    assert!(String::from_utf8_lossy(&output.stderr).contains(r#""event":"exit""#));
}

/// Every process of a tree appends its own lines to one file, under its own number.
#[test]
fn a_file_for_all_processes() {
    let mut command = Command::new(SHELL);
    command.args(["-c", "(exit 0); /bin/ls / >/dev/null; exit 0"]);
    let reports = preload(&mut command);
    run(&mut command);
    reports.assert_served();
    let lines = reports.lines();
    let of = |event: &str| {
        lines
            .iter()
            .filter(|line| line.event == event)
            .map(|line| line.pid)
            .collect::<Vec<_>>()
    };
    let (loads, exits) = (of("load"), of("exit"));
    assert_eq!(loads.len(), 2, "the shell and ls load: {lines:?}");
    assert!(
        loads.iter().all(|pid| exits.contains(pid)),
        "and both report: {lines:?}"
    );
}

/// A program that ends without exit handlers was loaded, and that is all that is known.
#[test]
fn no_exit_handlers() {
    let mut command = Command::new(SHELL);
    let reports = preload(command.args(["-c", "kill -KILL $$"]));
    common::finish(&mut command);
    let events: Vec<_> = reports.lines().into_iter().map(|line| line.event).collect();
    assert_eq!(events, ["load"]);
}

/// The report goes where it was meant to, whatever directory the program ends in.
#[test]
fn a_relative_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(SHELL);
    command.args(["-c", "cd /; exit 0"]).current_dir(&directory);
    run(command
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_STATS", "json:here.jsonl"));
    let text = std::fs::read_to_string(directory.path().join("here.jsonl")).expect("the report");
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn a_file_that_cannot_be_written() {
    let (stdout, stderr) = shell("json:/nowhere/report", "echo word");
    assert_eq!(stdout, "word\n");
    let lines: Vec<_> = stderr.lines().collect();
    assert!(
        !lines.is_empty()
            && lines
                .iter()
                .all(|line| line.contains("cannot write /nowhere/report")),
        "{stderr}"
    );
}

#[test]
fn malformed_values_are_named_and_ignored() {
    for value in ["yes", "json:", "JSON", "2", "1 "] {
        let (stdout, stderr) = shell(value, "echo word");
        assert_eq!(stdout, "word\n");
        assert!(
            stderr.lines().count() == 1
                && stderr.contains(&format!("HAKMEM_STATS={value} ignored")),
            "{stderr}"
        );
    }
}

#[test]
fn nothing_asked_nothing_said() {
    for value in ["", "0"] {
        assert_eq!(
            shell(value, "echo word"),
            ("word\n".to_owned(), String::new())
        );
    }
}

/// A title written over the environment does not reach the file's name.
#[test]
fn overwritten_environment() {
    let program = compile(Language::C, "overwrite_environment.c", Link::Plain);
    let mut command = Command::new(program);
    let reports: Reports = preload(&mut command);
    run(&mut command);
    reports.assert_served();
}
