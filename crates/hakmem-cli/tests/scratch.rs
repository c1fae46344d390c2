//! Where no temporary folder can be written, as in a container with a root that is read only.

use crate::common;

use common::*;
use std::process::{Command, Output};

/// The command with a temporary folder that is not there.
fn without_usual(words: &[&str]) -> Output {
    let mut command = hakmem();
    command.args(words).env("TMPDIR", "/no/such/folder");
    command.output().unwrap()
}

/// The same, where memory has no folder either. None: that takes rights.
fn without_any(words: &[&str]) -> Option<Output> {
    let script = "mount -t tmpfs -o ro none /dev/shm && echo made >&2 && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]);
    command.arg(env!("CARGO_BIN_EXE_hakmem")).args(words);
    command
        .env_remove("LD_PRELOAD")
        .env_remove("HAKMEM_STATS")
        .env("TMPDIR", "/no/such/folder");
    // `hakmem profile` looks whether it can write there.
    let folder = tempfile::tempdir().unwrap();
    let mut output = command.current_dir(folder.path()).output().ok()?;
    output.stderr = output.stderr.strip_prefix(b"made\n")?.to_vec();
    Some(output)
}

const SKIPPED: &str = "skipped: only root can mount";

/// What is said of the folders.
const TRIED: &str = "cannot make a temporary folder in /no/such/folder (entity not found) or in \
                     /dev/shm (read-only filesystem or storage medium)";

#[test]
fn memory_takes_the_place_of_the_usual_folder() {
    let library = HAKMEM.to_str().unwrap();
    let words = ["run", "--lib", library, "--stats", "--require"];
    let output = without_usual(&[&words[..], &["echo", "hello"]].concat());
    assert_ended(&output, 0, "hello\n");
    assert_says(&output, "allocations");
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("heap.svg");
    let words = ["map", "--lib", library, "-o", picture.to_str().unwrap()];
    assert_ended(&without_usual(&[&words[..], &["true"]].concat()), 0, "");
    assert!(picture.exists());
}

#[test]
fn a_program_that_reports_nothing_needs_no_folder() {
    let library = HAKMEM.to_str().unwrap();
    let script = "echo ${HAKMEM_STATS-none} ${HAKMEM_ERRORS-none} ${HAKMEM_GUARD_SAMPLE-none} \
                  $LD_PRELOAD; exit 3";
    let words = ["run", "--lib", library, "--guard=7", "sh", "-c", script];
    let Some(output) = without_any(&words) else {
        return println!("{SKIPPED}");
    };
    assert_ended(&output, 3, &format!("none none 7 {library}\n"));
    let said = format!("hakmem: {TRIED}; hakmem starts sh, and cannot tell whether it serves it\n");
    assert_eq!(stderr(&output), said);
}

#[test]
fn what_needs_a_report_names_the_folders() {
    let library = HAKMEM.to_str().unwrap();
    for (words, asked) in [
        (&["run", "--stats"][..], "; --stats needs one"),
        (&["run", "--require"], "; --require needs one"),
        (&["stat"], "; hakmem stat needs one"),
        (&["profile"], "; hakmem profile needs one"),
        (&["map", "-o", "-"], ""),
        (&["top", "--batch", "1"], ""),
    ] {
        let words = [words, &["--lib", library, "echo", "started"]].concat();
        let Some(output) = without_any(&words) else {
            return println!("{SKIPPED}");
        };
        assert_ended(&output, 125, "");
        assert_eq!(stderr(&output), format!("hakmem: {TRIED}{asked}\n"));
    }
}

#[test]
fn the_doctor_says_that_the_library_was_not_tried() {
    let Some(output) = without_any(&["doctor", "--lib", HAKMEM.to_str().unwrap()]) else {
        return println!("{SKIPPED}");
    };
    let text = stdout(&output);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let tried = format!("Whether it serves a program was not tried: hakmem {TRIED}.");
    assert!(words.contains(&tried), "{text}");
    assert!(text.contains("note     library: "), "{text}");
    assert!(!words.contains("It did not serve a program"), "{text}");
}
