//! `HAKMEM_STATS`: who may ask for a report, when it comes, and what becomes of mistakes.

mod forms;
mod lost;
mod places;

use crate::common;

use common::{Language, Link, Reports, compile, library, preload, run};
use std::ffi::{CString, OsStr};
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
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

#[test]
fn malformed_values_are_named_and_ignored() {
    for value in ["yes", "json:", "JSON", "2", "1 ", "csv:", "xml", ":x"] {
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

/// The signal may come at any time; the report is written then, and the program goes on.
#[test]
fn on_a_signal() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("report");
    let script = "kill -USR2 $$; kill -USR2 $$; echo word";
    for signal in ["USR2", "SIGUSR2", "12"] {
        let mut command = Command::new(SHELL);
        command
            .args(["-c", script])
            .env("LD_PRELOAD", &library().shared)
            .env("HAKMEM_STATS", format!("json:{}", file.display()))
            .env("HAKMEM_STATS_SIGNAL", signal);
        let output = run(&mut command);
        assert_eq!(output.stdout, b"word\n");
        let text = std::fs::read_to_string(&file).expect("the report");
        let events: Vec<_> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
            .map(|line| line["event"].as_str().expect("a word").to_owned())
            .collect();
        assert_eq!(events, ["load", "signal", "signal", "exit"]);
        std::fs::remove_file(&file).expect("the report");
    }
}

#[test]
fn signals_that_will_not_do_are_named_and_ignored() {
    for (stats, signal) in [
        ("1", "KILL"),
        ("1", "9"),
        ("1", "SEGV"),
        ("1", "nonsense"),
        ("1", "99"),
        ("0", "USR2"),
    ] {
        let mut command = Command::new(SHELL);
        command
            .args(["-c", "echo word"])
            .env("LD_PRELOAD", &library().shared)
            .env("HAKMEM_STATS", stats)
            .env("HAKMEM_STATS_SIGNAL", signal);
        let output = run(&mut command);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let named = stderr
            .lines()
            .filter(|line| line.contains("HAKMEM_STATS_SIGNAL") && line.contains("ignored"));
        assert_eq!(
            (named.count(), output.stdout.as_slice()),
            (1, &b"word\n"[..]),
            "{stderr}"
        );
    }
}

/// Whoever starts a program with rights that he does not have chooses nothing, however the library
/// came into it. Only root can make one for the test.
#[test]
fn nothing_acts_in_set_user_id_programs() {
    // SAFETY: no preconditions.
    if unsafe { libc::getuid() } != 0 {
        return common::skipped("a program with another user's rights takes root");
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| directory.path().join(name);
    // The other user finds the program and its library.
    set_mode(directory.path(), 0o755);
    std::fs::copy(&library().shared, at("libhakmem.so.0")).expect("a copy");
    std::os::unix::fs::symlink("libhakmem.so.0", at("libhakmem.so")).expect("a link");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/secure.c");
    let link = |name: &str, arguments: &[&OsStr]| {
        let mut compiler = Command::new("cc");
        compiler.arg("-fno-builtin").arg("-pthread");
        compiler
            .arg("-o")
            .arg(at(name))
            .arg(&source)
            .args(arguments);
        common::finish(&mut compiler).status.success()
    };
    let archive = library().r#static.as_os_str();
    let (by, rpath) = (
        format!("-L{}", at("").display()),
        format!("-Wl,-rpath,{}", at("").display()),
    );
    assert!(link(
        "shared",
        &[by.as_ref(), rpath.as_ref(), "-lhakmem".as_ref()]
    ));
    assert!(link("linked", &[archive]));
    let mut programs = vec!["shared", "linked"];
    if link("static", &["-static".as_ref(), archive]) {
        programs.push("static");
    }
    for name in programs {
        for secure in [false, true] {
            if secure {
                std::os::unix::fs::chown(at(name), Some(65534), None).expect("another owner");
                set_mode(&at(name), 0o4755);
            }
            let mut command = Command::new(at(name));
            command.env_clear().envs([
                ("HAKMEM_STATS", "1"),
                ("HAKMEM_STATS_SIGNAL", "14"),
                ("HAKMEM_PROFILE_SIGNAL", "14"),
                ("HAKMEM_DECAY_MS", "1234"),
                ("HAKMEM_NO_SUCH_OPTION", "1"),
            ]);
            command.env("HAKMEM_PROFILE", at("profile"));
            command.env("HAKMEM_MAP", at("map"));
            let output = common::finish(&mut command);
            let (said, stderr) = (
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr),
            );
            if secure && said.starts_with("0 ") {
                return common::skipped("programs get no rights in the temporary directory");
            }
            let files = ["profile", "map"].map(|file| std::fs::remove_file(at(file)).is_ok());
            if secure {
                assert_eq!((said.as_ref(), stderr.as_ref()), ("1 500\n", ""), "{name}");
                assert_eq!(output.status.signal(), Some(libc::SIGALRM), "{name}");
                assert_eq!(files, [false; 2], "{name}");
            } else {
                assert_eq!(said, "0 1234\n", "{name}");
                assert!(
                    output.status.success() && stderr.contains(" allocations, "),
                    "{stderr}"
                );
                assert_eq!(files, [true; 2], "{name}");
            }
        }
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

fn make_fifo(path: &Path) {
    let name = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
    // SAFETY: a C string.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
}

/// A shell that is asked for a report, a map and a profile in one file, by a signal and at its end.
fn all_to(file: &Path, script: &str) -> Command {
    // Ends what would hang.
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", "env"]);
    command.arg(format!("LD_PRELOAD={}", library().shared.display()));
    command.arg(format!("HAKMEM_STATS=json:{}", file.display()));
    for name in ["HAKMEM_MAP", "HAKMEM_PROFILE"] {
        command.arg(format!("{name}={}", file.display()));
    }
    command.args(["HAKMEM_STATS_SIGNAL=USR2", "HAKMEM_PROFILE_SIGNAL=USR1"]);
    command.args([SHELL, "-c", script]);
    command
}

const SIGNALLED: &str = "kill -USR2 $$; kill -USR1 $$; echo word; exit 0";
