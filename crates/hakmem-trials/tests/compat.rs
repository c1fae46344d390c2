//! The matrix of programs, as its users see it, and the program that stands between script and
//! program.

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

fn trials() -> Command {
    Command::new(env!("CARGO_BIN_EXE_hakmem-trials"))
}

fn runner(report: &Path, script: &str) -> Command {
    let mut command = trials();
    command.arg("compat-run").arg("--report").arg(report);
    command.args(["--", "sh", "-c", script]);
    command
}

fn lines(report: &Path) -> Vec<Value> {
    let text = fs::read_to_string(report).expect("a report");
    let parsed = text.lines().map(|l| serde_json::from_str(l).expect("JSON"));
    parsed.collect()
}

#[test]
fn how_a_program_ended_is_passed_on_and_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report");
    for (script, code, ending) in [
        ("exit 0", 0, "exit 0"),
        ("exit 7", 7, "exit 7"),
        ("kill -SEGV $$", 128 + 11, "signal 11"),
    ] {
        let status = runner(&report, script).status().expect("it starts");
        assert_eq!(status.code(), Some(code), "{script}");
        let lines = lines(&report);
        let last = lines.last().expect("a line");
        assert_eq!(
            (&last["ending"], &last["program"]),
            (&ending.into(), &"sh".into())
        );
        assert!(last["peak_rss_kib"].as_u64().is_some_and(|kib| kib > 0));
    }
}

#[test]
fn a_signal_goes_to_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report");
    let script = "trap 'exit 5' TERM; echo ready; while :; do read x; done";
    let mut child = runner(&report, script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    // The other end stays open, so that the program waits in `read` until the signal.
    let held = child.stdin.take();
    let mut ready = String::new();
    let output = child.stdout.take().expect("piped");
    BufReader::new(output)
        .read_line(&mut ready)
        .expect("readable");
    // SAFETY: takes two numbers; the child has not been waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
    let status = child.wait().expect("it ends");
    drop(held);
    assert_eq!((status.code(), status.signal()), (Some(5), None));
    assert_eq!(lines(&report)[0]["ending"], "exit 5");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = trials()
        .arg("compat-run")
        .arg("--report")
        .arg(folder.path().join("report"))
        .args(["--", "no-such-program"])
        .output()
        .expect("it starts");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("no-such-program"));
}

#[test]
fn a_damaged_record_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("page.tsv");
    fs::write(&record, "{ half").expect("writable");
    let output = trials()
        .args(["compat", "--page-only", "--page"])
        .arg(folder.path().join("page.md"))
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("page.tsv"));
    assert_eq!(fs::read_to_string(&record).expect("still there"), "{ half");
}
