//! What all commands take in the same way, and what is said of a line that is nearly right.

use crate::common;

use common::*;
use std::process::Command;

const RUNNING: [&[&str]; 5] = [
    &["run"],
    &["stat"],
    &["top"],
    &["map", "-o", "/dev/null"],
    &["profile", "-o"],
];

/// A program and its arguments, without dashes between.
#[test]
fn a_program_needs_no_dashes() {
    let folder = tempfile::tempdir().unwrap();
    for way in RUNNING {
        let mut command = hakmem();
        command.args(way);
        if way[0] == "profile" {
            command.arg(folder.path().join("out"));
        }
        command.arg("--lib").arg(&*HAKMEM);
        command.args(["bash", "-c", "echo $0 $@; exit 3", "--stats", "--", "-x"]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{way:?}");
        assert_eq!(stdout(&output), "--stats -- -x\n", "{}", stderr(&output));
    }
}

/// A running process, by the same option everywhere.
#[test]
fn a_process_is_named_in_one_way() {
    let mut command = Command::new(&*KNOWN);
    command
        .env("LD_PRELOAD", &*HAKMEM)
        .stdin(std::process::Stdio::piped());
    let known = Ready::new(command);
    let pid = known.pid().to_string();
    for (words, part) in [
        (&["stat", "--pid", &pid][..], "size classes"),
        (&["map", "-o", "-", "--pid", &pid], "The heap of known"),
        (&["top", "--batch", "1", "--pid", &pid], &pid),
        (&["top", "--batch", "1", &pid], &pid),
    ] {
        let output = hakmem().args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        assert!(stdout(&output).contains(part), "{words:?}");
    }
}

#[test]
fn a_line_that_is_nearly_right_is_put_right() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report");
    std::fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    let with_file = |command: &str| format!("hakmem {command} --file {file}");
    for (words, right) in [
        (&["stat", file][..], with_file("stat")),
        (&["map", file], with_file("map")),
        (&["profile", file], with_file("profile")),
        (&["stat", "-"], "hakmem stat --file -".into()),
        (&["stat", "4711"], "hakmem stat --pid 4711".into()),
        (&["map", "4711"], "hakmem map --pid 4711".into()),
        (
            &["top", "47", "--batch", "2"],
            "hakmem top --batch 2 47".into(),
        ),
        (&["stats", "ls"], "'stat'".into()),
        (&["map", "--ouptut", "x", "ls"], "'--output'".into()),
    ] {
        let output = hakmem().args(words).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
        assert!(text.contains(&right), "{words:?}: {text}");
        assert_eq!(stdout(&output), "");
    }
    for way in ["stat", "top", "map", "profile"] {
        let output = hakmem().args([way, "no-such-program"]).output().unwrap();
        assert_eq!(output.status.code(), Some(127), "{}", stderr(&output));
        assert!(stderr(&output).contains("cannot run no-such-program: not found on PATH"));
    }
}

/// What is said of a number that is none, or is out of its range.
#[test]
fn numbers_that_are_wrong() {
    const PIDS: &str = "not from 1 to 2147483647";
    for (words, why) in [
        (&["stat", "--pid", "-1"][..], PIDS),
        (&["map", "--pid", "0"], PIDS),
        (&["doctor", "--pid", "abc"], "not a whole number"),
        (&["options", "--pid", "1.5"], "not a whole number"),
        (
            &["map", "--after", "-1", "true"],
            "not from 0 to 1000000000",
        ),
        (&["top", "--batch", "-1", "true"], "not from 0 to"),
        (
            &["profile", "--interval", "x", "true"],
            "not a whole number",
        ),
        (
            &["run", "--guard", "5", "true"],
            "5 is a number, not a program: hakmem run --guard=5",
        ),
    ] {
        let output = hakmem().args(words).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
        assert!(
            text.contains(why) && !text.contains("tip:"),
            "{words:?}: {text}"
        );
    }
}

/// Without a word it is what `hakmem help` prints, in a pipe, too.
#[test]
fn help_without_a_word_keeps_its_columns() {
    let [bare, asked] = [&[][..], &["help"]].map(|words: &[&str]| {
        let mut command = hakmem();
        command.args(words).output().unwrap()
    });
    assert_eq!(bare.status.code(), Some(2));
    assert_eq!(stderr(&bare), stdout(&asked));
}

/// An option without an effect is refused.
#[test]
fn what_does_not_go_together_is_refused() {
    for (words, option, other) in [
        (
            &["profile", "--seconds", "1", "true"][..],
            "--seconds",
            "PROG",
        ),
        (
            &["profile", "--seconds", "1", "--file", "/dev/null"],
            "--seconds",
            "--file",
        ),
        (
            &["profile", "--interval", "1", "--file", "/dev/null"],
            "--interval",
            "--file",
        ),
        (&["top", "--lib", "/dev/null", "4711"], "--lib", "process"),
    ] {
        let output = hakmem().args(words).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
        let first = text.lines().next().unwrap();
        assert!(first.contains(option) && text.contains(other), "{text}");
    }
    let output = hakmem().args(["profile", "--seconds", "1"]).output();
    assert_eq!(output.unwrap().status.code(), Some(2));
}

#[test]
fn what_is_missing_is_named() {
    for words in [
        &["stat"][..],
        &["stat", "--all"],
        &["top"],
        &["top", "--interval", "2"],
        &["map"],
        &["map", "-o", "x"],
        &["profile"],
        &["profile", "--all-frames"],
    ] {
        let way = words[0];
        let output = hakmem().args(words).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{way}: {text}");
        let asked = text.split("Usage").next().unwrap();
        assert!(
            asked.contains("--pid <PID>") && asked.contains("PROG"),
            "{text}"
        );
        assert_eq!(asked.contains("--file <FILE>"), way != "top", "{text}");
    }
}

#[test]
fn an_empty_name_leaves_no_gap() {
    for way in ["run", "stat", "top", "map", "profile"] {
        let mut command = hakmem();
        let output = command.args([way, "--lib"]).arg(&*HAKMEM).arg("").output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(127), "{way}");
        assert_says(&output, "cannot run \"\": the program's name is empty");
    }
}

/// What cannot be written is said before the program runs, and what was tried leaves nothing.
#[test]
fn outputs_are_tried_first() {
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("begun");
    for way in [["map", "/nowhere/x"], ["profile", "/nowhere/x"]] {
        let mut command = hakmem();
        command.args([way[0], "-o", way[1], "--lib"]).arg(&*HAKMEM);
        let output = command.arg("touch").arg(&marker).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{text}");
        assert!(text.contains("cannot write /nowhere/x"), "{text}");
        assert!(!marker.exists(), "{way:?} ran the program");
    }
    let mut command = hakmem();
    command.args(["map", "--lib"]).arg(&*HAKMEM).arg("-o");
    command.arg(folder.path().join("left"));
    let output = command
        .args(["sh", "-c", "kill -KILL $$"])
        .output()
        .unwrap();
    assert_says(
        &output,
        "sh left no map: SIGKILL killed the process before it could report",
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn it_is_called_hakmem() {
    let output = hakmem().arg("--version").output().unwrap();
    assert!(
        stdout(&output).starts_with("hakmem 0"),
        "{}",
        stdout(&output)
    );
}

/// Each page of help fits, and has examples.
#[test]
fn help_is_wrapped_and_has_examples() {
    for command in [
        "run", "stat", "options", "map", "top", "profile", "errors", "doctor",
    ] {
        let output = hakmem()
            .args([command, "--help"])
            .env("COLUMNS", "80")
            .output()
            .unwrap();
        let text = stdout(&output);
        assert!(
            text.contains(&format!("Examples:\n  hakmem {command}")),
            "{text}"
        );
        let long = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!(long, None, "{command}");
    }
}

/// It is a file of the repository.
#[test]
fn help_names_the_glossary() {
    let page = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/glossary.md");
    for words in [&["--help"][..], &["top", "--help"]] {
        let text = stdout(&hakmem().args(words).output().unwrap());
        assert_eq!(text.matches(page).count(), 1, "{text}");
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/glossary.md");
    assert!(std::path::Path::new(file).is_file());
}

#[test]
fn completions_and_pages() {
    for shell in ["bash", "zsh", "fish"] {
        let output = hakmem()
            .args(["generate", "completions", shell])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stdout(&output).contains("profile"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    let output = hakmem()
        .args(["generate", "man"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    for page in [
        "hakmem.1",
        "hakmem-run.1",
        "hakmem-profile.1",
        "hakmem-doctor.1",
    ] {
        let text = std::fs::read_to_string(folder.path().join(page)).unwrap();
        assert!(text.contains("Examples"), "{page}");
        assert!(
            text.contains(".SH NOTES\n") && !text.contains(".SH EXTRA"),
            "{page}"
        );
    }
    assert!(!folder.path().join("hakmem-generate.1").exists());
    // A line of a list ends where the next one begins.
    let run = std::fs::read_to_string(folder.path().join("hakmem-run.1")).unwrap();
    assert!(
        run.contains("  2    wrong usage\n.fi\nIf hakmem did not serve"),
        "{run}"
    );
    assert!(
        run.contains(".SH SYNOPSIS\n.nf\nhakmem run [OPTIONS] <PROG> [ARGS]...\n.fi\n"),
        "{run}"
    );
}
