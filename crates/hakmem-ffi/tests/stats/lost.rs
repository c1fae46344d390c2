//! Reports that cannot be written: the program ends as it would have, and one line says why.

use super::{SHELL, SIGNALLED, all_to, make_fifo, shell};
use crate::common::{library, run};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// What is said of a file.
fn lost(file: &Path, why: &str) -> String {
    format!(
        "hakmem: report lost: cannot write {}: {why}\n",
        file.display()
    )
}

/// The program goes on, and says once that texts are lost, however many there are.
fn all_are_lost(file: &Path, why: &str) {
    let output = run(&mut all_to(file, SIGNALLED));
    assert_eq!(output.stdout, b"word\n");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr, lost(file, why));
}

#[test]
fn a_file_that_cannot_be_written() {
    let (stdout, stderr) = shell("json:/nowhere/report", "echo word");
    assert_eq!(stdout, "word\n");
    let why = "No such file or directory";
    assert_eq!(stderr, lost(Path::new("/nowhere/report"), why));
}

/// A full disk, a pipe that nobody reads, a limit on files: the report is lost, the program ends as
/// it would have.
#[test]
fn a_report_that_cannot_be_written_is_lost_alone() {
    let (stdout, stderr) = shell("json:/dev/full", "echo word; exit 0");
    assert_eq!(stdout, "word\n");
    let why = "No space left on device";
    assert_eq!(stderr, lost(Path::new("/dev/full"), why));

    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("report");
    let limited = format!(
        "HAKMEM_STATS=json:{} LD_PRELOAD=$LIB perl -e 'exit 7'; echo $?",
        file.display()
    );
    let mut command = Command::new(SHELL);
    command
        .args(["-c", &format!("ulimit -f 1; {limited}")])
        .env("LIB", &library().shared);
    let output = run(&mut command);
    assert_eq!(
        output.stdout,
        b"7\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );

    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new("perl");
    command
        .args(["-e", "exit 7"])
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_STATS", "json")
        .stdin(std::process::Stdio::null())
        .stderr(writer);
    let status = command.status().expect("perl runs");
    assert_eq!(status.code(), Some(7), "{status}");
}

#[test]
fn a_pipe_by_name_without_a_reader_is_not_waited_for() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("fifo");
    make_fifo(&file);
    all_are_lost(&file, "No such device or address");
}

/// hakmem waits for a process that holds it open and does not read, but not for ever.
#[test]
fn a_pipe_by_name_that_is_full_loses_the_report() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("fifo");
    make_fifo(&file);
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK);
    let mut pipe = options.open(&file).expect("the pipe");
    while pipe.write(&[b'x'; 4096]).is_ok() {}
    let (stdout, stderr) = shell(&format!("json:{}", file.display()), "echo word; exit 0");
    assert_eq!(stdout, "word\n");
    assert_eq!(stderr, lost(&file, "nobody reads it"));
}

#[test]
fn symbolic_links_are_not_followed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (link, file) = (directory.path().join("link"), directory.path().join("file"));
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    all_are_lost(&link, "Too many levels of symbolic links");
    assert!(!file.exists(), "nothing is made behind it");
    std::fs::write(&file, "text").expect("a file");
    all_are_lost(&link, "Too many levels of symbolic links");
    assert_eq!(std::fs::read(&file).expect("the file"), b"text");
    // On the way there they are.
    let (to, here) = (
        directory.path().join("to"),
        directory.path().join("to/file"),
    );
    std::os::unix::fs::symlink(directory.path(), &to).expect("a link");
    run(&mut all_to(&here, SIGNALLED));
    assert!(std::fs::read(&file).expect("the file").len() > 1000);
}

#[test]
fn a_directory_is_no_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    all_are_lost(directory.path(), "Is a directory");
}

/// Whoever read a pipe that was opened before a filter is gone by the end.
#[test]
fn a_pipe_that_breaks_is_named() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("fifo");
    make_fifo(&file);
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let pipe = options.open(&file).expect("the pipe");
    // The file is kept open when the process makes a filter, here one that allows all calls.
    let script = format!(
        "my $code = pack('SCCL', 6, 0, 0, 0x7fff0000); my $all = pack('Sx6P', 1, $code);\
         syscall({prctl}, 38, 1, 0, 0, 0) == 0 && syscall({prctl}, 22, 2, $all) == 0 or exit 8;\
         $| = 1; print \"word\\n\"; <STDIN>; exit 7",
        prctl = libc::SYS_prctl
    );
    let mut command = Command::new("/usr/bin/perl");
    command
        .args(["-e", &script])
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_STATS", format!("json:{}", file.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut perl = command.spawn().expect("perl runs");
    let mut line = String::new();
    let mut said = BufReader::new(perl.stdout.take().expect("a pipe"));
    said.read_line(&mut line).expect("a word");
    drop(pipe);
    // Ends what it waits for.
    let output = perl.wait_with_output().expect("perl ends");
    assert_eq!((line.as_str(), output.status.code()), ("word\n", Some(7)));
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(stderr, lost(&file, "Broken pipe"));
}

/// The child of a fork is a process of its own.
#[test]
fn each_process_says_it_once() {
    let (stdout, stderr) = shell("json:/dev/full", "(exit 0); echo word; exit 0");
    assert_eq!(stdout, "word\n");
    let line = lost(Path::new("/dev/full"), "No space left on device");
    assert_eq!(stderr, line.repeat(2));
}

/// The end of a long path is shown, and the reason is not cut off.
#[test]
fn of_a_long_path_the_end_is_named() {
    let path = format!("/nowhere/{}/report", "x/".repeat(700));
    let (_, stderr) = shell(&format!("json:{path}"), "exit 0");
    let end = &path[path.len() - 400..];
    let file = format!("...{end}");
    let why = "No such file or directory";
    assert_eq!(stderr, lost(Path::new(&file), why));
}
