//! Processes, files and outputs that cannot be had: each ends at once, in a line, with a status
//! that says so.

use crate::common;

use common::*;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The command failed in one line, which has `part` in it.
fn fails(output: &Output, status: i32, part: &str) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(status), "{text}");
    assert!(
        text.starts_with("hakmem: ") && text.contains(part),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");
}

const OF_PROCESS: [&[&str]; 5] = [
    &["stat", "--pid"],
    &["map", "-o", "-", "--pid"],
    &["top", "--batch", "1", "--pid"],
    &["top", "--batch", "1"],
    &["options", "--pid"],
];

#[test]
fn a_process_that_nobody_has_waited_for() {
    let mut child = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
    let id = child.id();
    // SAFETY: all zeroes is a valid siginfo_t; WNOWAIT leaves the child to be waited for.
    let waited = unsafe {
        let mut info = std::mem::zeroed();
        libc::waitid(libc::P_PID, id, &mut info, libc::WEXITED | libc::WNOWAIT)
    };
    assert_eq!(waited, 0);
    for way in OF_PROCESS {
        let output = hakmem().args(way).arg(id.to_string()).output().unwrap();
        fails(&output, 1, "has ended");
    }
    child.wait().unwrap();
}

/// Where it is seen: a container may hide it.
#[test]
fn a_thread_of_the_kernel() {
    if !std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        return;
    }
    for way in OF_PROCESS {
        let output = hakmem().args(way).arg("2").output().unwrap();
        fails(&output, 1, "is a thread of the kernel");
    }
}

fn pipe(folder: &Path) -> String {
    let path = folder.join("pipe");
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a string that ends in NUL.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    path.to_str().unwrap().to_owned()
}

/// Folders, endless devices, pipes without a writer, and files with nothing in them but a size.
#[test]
fn files_that_are_no_reports() {
    let folder = tempfile::tempdir().unwrap();
    let sparse = folder.path().join("sparse");
    std::fs::File::create(&sparse)
        .unwrap()
        .set_len(5 << 30)
        .unwrap();
    let pipe = pipe(folder.path());
    let none = ["has no ", "there is no heap profile"];
    for (file, parts) in [
        (folder.path().to_str().unwrap(), ["it is a directory"; 2]),
        ("/dev/zero", ["a line is longer"; 2]),
        (sparse.to_str().unwrap(), ["a line is longer"; 2]),
        (&pipe, none),
        ("/dev/null", none),
        ("-", none),
    ] {
        for (way, part) in [("stat", parts[0]), ("map", parts[0]), ("profile", parts[1])] {
            let output = bounded(hakmem().args([way, "--file", file]));
            fails(&output, 1, part);
        }
    }
}

/// The program is left to itself, for a pipe that nobody reads, too.
#[test]
fn pictures_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = pipe(folder.path());
    let map = |path: &str| {
        let mut command = hakmem();
        command.args(["map", "-o", path, "--lib"]).arg(&*HAKMEM);
        command.args(["sort", "/dev/null"]).output().unwrap()
    };
    fails(&map(&pipe), 125, "nobody has the other end of it");
    fails(
        &map("/dev/full"),
        125,
        "cannot write /dev/full: No space left",
    );
    fails(&map(folder.path().to_str().unwrap()), 125, "Is a directory");
    let prefix = format!("{}/", folder.path().display());
    let output = hakmem().args(["profile", "-o", &prefix, "true"]).output();
    fails(&output.unwrap(), 125, "is a folder");
    let file = ["profile", "-o", &prefix, "--file", "/dev/null"];
    fails(&hakmem().args(file).output().unwrap(), 1, "is a folder");
    for time in ["nan", "1e300", "1e19", "inf", "soon"] {
        let output = hakmem().args(["map", "--after", time, "true"]).output();
        assert_eq!(output.unwrap().status.code(), Some(2), "{time}");
    }
}

/// Gives the command this end of nothing in place of its standard output, or of its input.
fn closed(command: &mut Command, fd: i32) -> Output {
    let close = move || {
        // SAFETY: a system call; the descriptor is the command's own.
        unsafe { libc::close(fd) };
        Ok(())
    };
    // SAFETY: the closure makes one system call.
    unsafe { command.pre_exec(close) }.output().unwrap()
}

/// All that these have to say goes there.
#[test]
fn standard_output_that_is_full_or_closed() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    let mut plain = Command::new("sort");
    let mut to = std::ffi::OsString::from("json:");
    to.push(&report);
    plain
        .arg("/dev/null")
        .env("LD_PRELOAD", &*HAKMEM)
        .env("HAKMEM_STATS", to);
    assert!(
        plain
            .stdin(Stdio::null())
            .output()
            .unwrap()
            .status
            .success()
    );
    let mut command = Command::new(&*KNOWN);
    command.env("LD_PRELOAD", &*HAKMEM).stdin(Stdio::piped());
    let known = Ready::new(command);
    let pid = known.pid().to_string();
    for way in [
        &["stat", "--file", report.to_str().unwrap()][..],
        &["stat", "--pid", &pid],
        &["map", "-o", "-", "--pid", &pid],
        &["top", "--batch", "1", &pid],
        &["options"],
        &["options", "--pid", &pid],
        &["generate", "completions", "bash"],
        &["--help"],
        &["--version"],
        &["stat", "--help"],
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = hakmem().args(way).stdout(full.unwrap()).output().unwrap();
        fails(&output, 1, "No space left");
        let output = closed(hakmem().args(way), 1);
        fails(&output, 1, "standard output is closed");
        // Nobody is told, and nothing breaks.
        let mut command = hakmem();
        command.args(way);
        assert_eq!(closed(&mut command, 2).status.code(), Some(0), "{way:?}");
    }
    for way in ["stat", "map", "profile"] {
        let output = closed(hakmem().args([way, "--file", "-"]), 0);
        fails(&output, 1, "standard input is closed");
    }
}

/// Nothing in the environment, and no room on the line.
#[test]
fn an_empty_environment_and_a_narrow_terminal() {
    let program = PROGRAM.to_str().unwrap();
    let mut command = run(&["--stats"], &[program, "name"]);
    let output = command.env_clear().output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), format!("{program}\n"));
    for command in ["--help", "help", "options", "top"] {
        let mut narrow = hakmem();
        narrow.env("COLUMNS", "20").env("LANG", "C").arg(command);
        let output = narrow.output().unwrap();
        let status = if command == "top" { 2 } else { 0 };
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
    }
}
