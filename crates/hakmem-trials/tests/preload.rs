//! One program under preloaded libraries, as its users see it.

use crate::programs::{harmless_library, text};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn trials(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hakmem-trials"))
        .args(arguments)
        .output()
        .expect("the program starts")
}

/// A file name of the test's own, in the folder that cargo gives to tests.
fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn record(path: &Path) -> Value {
    let json = fs::read_to_string(path).expect("the record was written");
    serde_json::from_str(&json).expect("the record is JSON")
}

#[test]
fn a_library_that_does_not_exist_is_an_error() {
    let output = trials(&["preload", "--lib", "a=/nonexistent/liba.so", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("/nonexistent/liba.so"),
        "{}",
        text(&output.stderr)
    );
    assert!(output.stdout.is_empty(), "nothing may look like a result");
}

#[test]
fn a_file_that_is_no_library_is_an_error() {
    let path = scratch("not_a_library.so");
    fs::write(&path, "text").expect("the scratch folder is writable");
    let output = trials(&[
        "preload",
        "--lib",
        &format!("a={}", path.display()),
        "--",
        "true",
    ]);
    assert!(!output.status.success());
    assert!(
        text(&output.stderr).contains("cannot be preloaded"),
        "{}",
        text(&output.stderr)
    );
    assert!(output.stdout.is_empty(), "nothing may look like a result");
}

#[test]
fn a_program_is_compared_and_its_output_checked() {
    let Some(library) = harmless_library() else {
        return;
    };
    let path = scratch("preload.json");
    let json = path.to_str().expect("UTF-8");

    let same = [
        "preload", "--lib", &library, "--rounds", "2", "--json", json, "--", "echo", "hello",
    ];
    let output = trials(&same);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let record = record(&path);
    assert_eq!(
        (&record["kind"], record["samples"].as_array().map(Vec::len)),
        (&"preload".into(), Some(4))
    );
    for sample in record["samples"].as_array().expect("samples") {
        assert_eq!(sample["outcome"]["ending"], "exit 0");
        // The SHA-256 of "hello\n".
        let hash = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        assert_eq!(sample["outcome"]["stdout_sha256"], hash);
    }

    let status = "test -z \"$LD_PRELOAD\"";
    let output = trials(&[
        "preload", "--lib", &library, "--rounds", "1", "--", "sh", "-c", status,
    ]);
    assert_eq!(output.status.code(), Some(1));
    let report = text(&output.stdout);
    assert!(
        report.contains("DIFFERENT on twice: exit status: exit 1 instead of exit 0"),
        "{report}"
    );
}

#[test]
fn a_program_that_does_not_exist_is_an_error() {
    let Some(library) = harmless_library() else {
        return;
    };
    let output = trials(&["preload", "--lib", &library, "--", "no-such-program"]);
    assert!(!output.status.success());
    assert!(
        text(&output.stderr).contains("cannot run no-such-program"),
        "{}",
        text(&output.stderr)
    );
}
