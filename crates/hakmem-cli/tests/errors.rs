//! `hakmem errors`: names in a file of reports that a service wrote.

use crate::common;

use common::*;
use std::fs::{self, File};
use std::process::Command;

/// A file that two processes appended to becomes what `hakmem run` prints, of each.
#[test]
fn a_file_gets_functions_and_lines() {
    gets_functions_and_lines("wrong", &[]);
}

/// Code that lies elsewhere in the program's memory than in its file: the default with some
/// linkers.
#[test]
fn code_may_lie_elsewhere_than_in_its_file() {
    gets_functions_and_lines("elsewhere", &["-Wl,--section-start=.text=0x80000"]);
    gets_functions_and_lines("placed", &["-no-pie"]);
}

fn gets_functions_and_lines(name: &str, flags: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("errors");
    let flags = [&["-g", "-fno-builtin"], flags].concat();
    let program = BUILT.compile("wrong.c", name, &flags);
    for _ in 0..2 {
        let mut command = Command::new(&program);
        command
            .env("LD_PRELOAD", &*HAKMEM)
            .env("HAKMEM_ERRORS", &file);
        assert!(!command.output().unwrap().status.success());
    }
    let raw = fs::read_to_string(&file).unwrap();
    assert!(!raw.contains("frees_it"), "{raw}");
    let named = hakmem().arg("errors").arg(&file).output().unwrap();
    assert!(named.status.success(), "{}", stderr(&named));
    let text = stdout(&named);
    for part in [
        "hakmem: double free of 0x",
        &format!(" ({name}):\n"),
        // The call of free, not what comes after it.
        "#0 frees_it (",
        "/wrong.c:5)\n",
        "/wrong.c:13)\n",
        " main (",
    ] {
        assert_eq!(text.matches(part).count(), 2, "{part}: {text}");
    }
    // Standard input, as of a file.
    let mut command = hakmem();
    command.args(["errors", "-"]);
    let piped = command.stdin(File::open(&file).unwrap()).output().unwrap();
    assert_eq!(stdout(&piped), text);
}

/// The process writes the first line of each report itself. So of the lines that begin as an error
/// does, `hakmem run` adds none.
#[test]
fn an_error_is_counted_once() {
    let program = BUILT.compile("wrong.c", "wrong-once", &["-g", "-fno-builtin"]);
    let mut command = hakmem();
    command.args(["run", "--lib"]).arg(&*HAKMEM).arg(&program);
    let text = stderr(&command.output().unwrap());
    for part in [
        "hakmem: double free",
        "hakmem: the program's errors, with functions and lines:\n  double free",
        " (wrong-once):\n",
        "#0 frees_it (",
    ] {
        assert_eq!(text.matches(part).count(), 1, "{part}: {text}");
    }
}

#[test]
fn a_file_without_a_report_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let shown = || hakmem().arg("errors").arg(&file).output().unwrap();
    let missing = shown();
    assert_eq!(missing.status.code(), Some(1));
    assert_says(&missing, "cannot read ");
    fs::write(&file, "something else\n").unwrap();
    let other = shown();
    assert_eq!(
        (other.status.code(), stdout(&other)),
        (Some(1), String::new())
    );
    assert_says(&other, " has no report");
}

/// Of a file that is too long the beginning is shown, and a line says so.
#[test]
fn a_long_file_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "hakmem: double free of 0x10\n".repeat(700_000)).unwrap();
    let output = hakmem().arg("errors").arg(&file).output().unwrap();
    assert!(output.status.success());
    assert!(output.stdout.len() <= 16 << 20);
    assert!(stdout(&output).ends_with("0x10\n"));
    assert_says(&output, "only its first 16 MiB");
}
