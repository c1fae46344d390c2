//! Errors that are found while the program rests: by the scavenger, a thread that the C library
//! does not know.

use crate::common;

use common::{Language, Link, assert_aborted, compile, finish, preload, target};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

fn at_rest(mode: &str) -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| compile(Language::C, "at_rest.c", Link::Plain));
    let mut command = target::start(program);
    command
        .arg(mode)
        .envs([("HAKMEM_SCAVENGER", "1"), ("HAKMEM_DECAY_MS", "100")]);
    command
}

/// Without a handler the process ends at once.
#[test]
fn an_error_ends_the_process() {
    let mut command = at_rest("");
    let _reports = preload(&mut command);
    assert_aborted(&finish(&mut command), "");
}

/// The program's handler runs on a thread of the program: it uses what only such a thread has.
#[test]
fn the_programs_handler_runs() {
    let mut command = at_rest("report");
    let _reports = preload(&mut command);
    let output = finish(&mut command);
    assert_eq!(output.status.code(), Some(77), "{output:?}");
    assert_eq!(output.stdout, b"the program's own report 42\n");
}

/// A handler that returns does not save the process, and neither does a signal that is ignored.
#[test]
fn the_process_ends_in_any_case() {
    for mode in ["come_back", "ignore"] {
        let mut command = at_rest(mode);
        let _reports = preload(&mut command);
        let output = finish(&mut command);
        assert_eq!(
            output.status.signal(),
            Some(libc::SIGABRT),
            "{mode}: {output:?}"
        );
    }
}

/// The report goes to the file, too, by system calls of the thread's own.
#[test]
fn the_report_goes_to_a_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = at_rest("");
    let _reports = preload(&mut command);
    let file = folder.path().join("errors.%p");
    let output = finish(command.env("HAKMEM_ERRORS", &file));
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    let errors = std::fs::read_dir(folder.path()).expect("the folder").next();
    let errors = errors.expect("a file").expect("its name").path();
    let text = std::fs::read_to_string(errors).expect("the errors");
    assert!(text.lines().count() > 1, "{text}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr.lines().next(), text.lines().next());
}
