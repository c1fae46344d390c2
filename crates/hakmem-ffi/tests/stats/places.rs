//! Where reports are written to.

use super::{SHELL, SIGNALLED, all_to, make_fifo, shell};
use crate::common::{self, library, run};
use std::ffi::CStr;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

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
fn a_file_for_each_form() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for form in ["1", "json", "csv"] {
        let file = directory.path().join(form);
        let (stdout, stderr) = shell(&format!("{form}:{}", file.display()), "echo word");
        assert_eq!((stdout.as_str(), stderr.as_str()), ("word\n", ""));
        let text = std::fs::read_to_string(file).expect("the report");
        assert!(text.len() > 500, "{text}");
    }
}

/// Much more than a pipe holds comes through whole, in order.
#[test]
fn a_pipe_by_name_with_a_reader_gets_everything() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("fifo");
    make_fifo(&file);
    // For writing too, so that it never ends.
    let mut pipe = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&file)
        .expect("the pipe");
    let mut end = pipe.try_clone().expect("another descriptor");
    let reader = std::thread::spawn(move || {
        let (mut text, mut piece) = (Vec::new(), [0; 1000]);
        while !text.ends_with(b"\nthe end\n") {
            let n = pipe.read(&mut piece).expect("something");
            text.extend_from_slice(&piece[..n]);
        }
        String::from_utf8(text).expect("UTF-8")
    });
    let mut command = Command::new("perl");
    command
        .args(["-e", "my @a = map { 'x' x 50000 } 1..2000"])
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_STATS", format!("json:{}", file.display()))
        .env("HAKMEM_MAP", &file);
    let stderr = run(&mut command).stderr;
    end.write_all(b"\nthe end\n").expect("the pipe takes it");
    let text = reader.join().expect("the reader's text");
    assert_eq!(stderr, b"");
    let lines: Vec<serde_json::Value> = text
        .trim_end_matches("\nthe end\n")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str()).collect();
    assert_eq!(events, [Some("load"), Some("exit"), Some("exit")]);
    assert!(text.len() > 80_000, "{}", text.len());
}

/// Links that stand for a descriptor lead to what is open there.
#[test]
fn links_that_stand_for_descriptors_are_followed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("file");
    for (link, redirection) in [
        ("/dev/stdout", ">"),
        ("/dev/stderr", "2>"),
        ("/dev/fd/7", "7>"),
        ("/proc/self/fd/7", "7>"),
    ] {
        // What is asked has it from its start.
        let mut outer = Command::new(SHELL);
        outer.arg("-c");
        outer.arg(format!(
            "LD_PRELOAD={} HAKMEM_STATS=json:{link} perl -e 1 {redirection}{}",
            library().shared.display(),
            file.display()
        ));
        let output = run(&mut outer);
        assert_eq!(output.stderr, b"", "{link}");
        let text = std::fs::read_to_string(&file).expect("the report");
        assert!(text.contains(r#""event":"exit""#), "{link}: {text}");
    }
    // A pipe.
    let (stdout, stderr) = shell("json:/dev/stdout", "exit 0");
    assert!(
        stdout.contains(r#""event":"exit""#) && stderr.is_empty(),
        "{stderr}"
    );
    // What only looks like one of them.
    for name in ["/dev/fd/x", "/dev/fd/", "/proc/self/fd/99", "/dev/fd/1/2"] {
        let (stdout, stderr) = shell(&format!("json:{name}"), "echo word; exit 0");
        assert_eq!(stdout, "word\n");
        assert!(stderr.lines().all(|line| line.contains("cannot write")) && !stderr.is_empty());
    }
}

/// Nobody else reads addresses.
#[test]
fn files_are_their_owners_alone() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("%p");
    let open = format!("umask 0; exec {SHELL} -c '{SIGNALLED}'");
    for script in [SIGNALLED, &open] {
        run(&mut all_to(&file, script));
        for entry in std::fs::read_dir(directory.path()).expect("the directory") {
            let path = entry.expect("an entry").path();
            let mode = path.metadata().expect("a file").permissions().mode();
            assert_eq!(mode & 0o7777, 0o600);
            std::fs::remove_file(path).expect("the file");
        }
    }
}

/// A daemon that reports to a terminal does not become that terminal's.
#[test]
fn a_terminal_does_not_become_the_processs_own() {
    let (mut master, mut slave, mut name) = (-1, -1, [0 as libc::c_char; 100]);
    // SAFETY: all are valid for the writes; the name has room.
    let made = unsafe {
        libc::openpty(
            &mut master,
            &mut slave,
            name.as_mut_ptr(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
    if made != 0 {
        return common::skipped("there are no terminals");
    }
    // SAFETY: openpty filled it in.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }
        .to_str()
        .expect("a name")
        .to_owned();
    let script = "kill -USR2 $$; read -r line </proc/$$/stat; set -- ${line##*) }; echo $5";
    let mut command = Command::new(SHELL);
    command
        .args(["-c", script])
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_STATS", format!("csv:{name}"))
        .env("HAKMEM_STATS_SIGNAL", "USR2");
    // SAFETY: one system call.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        });
    }
    // Somebody reads what comes.
    let mut screen = std::fs::File::from(
        // SAFETY: the descriptor is this test's own.
        unsafe { std::os::fd::OwnedFd::from_raw_fd(master) },
    );
    let reader = std::thread::spawn(move || {
        let (mut text, mut piece) = (Vec::new(), [0; 1000]);
        while let Ok(n @ 1..) = screen.read(&mut piece) {
            text.extend_from_slice(&piece[..n]);
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    let output = run(&mut command);
    // SAFETY: the descriptor is this test's, which does not use it any more. The reader ends when
    // the last one is closed.
    unsafe { libc::close(slave) };
    assert_eq!(output.stdout, b"0\n", "{output:?}");
    let text = reader.join().expect("the reader's text");
    assert!(
        text.contains(",signal,") && text.contains(",exit,"),
        "{text}"
    );
}
