//! `hakmem run` and the processes that a program leaves running.

use crate::common;

use common::*;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

/// What a daemon leaves: its second process serves, and reports when it ends.
fn daemon(options: &[&str], kind: &str) -> String {
    let program = BUILT.compile("daemon.c", "daemon", &["-fno-builtin"]);
    let mut command = hakmem();
    command.args(["run", "--lib"]).arg(&*HAKMEM).args(options);
    command.arg(program).arg(kind);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let input = child.stdin.take();
    let status = child.wait().unwrap();
    let (mut second, mut said) = (String::new(), String::new());
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut second)
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    errors.read_line(&mut said).unwrap();
    assert_eq!(status.code(), Some(0), "{said}");
    let second = second.trim();
    let folder = said.strip_prefix(&format!("hakmem: process {second} goes on; "));
    let folder = folder
        .and_then(|rest| rest.split_whitespace().next())
        .expect(&said)
        .to_owned();
    drop(input);
    // It has standard error until its end.
    let mut rest = String::new();
    errors.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    let files = fs::read_dir(&folder).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    let report = files.find(|file| file.to_string_lossy().contains("/report-"));
    let report = fs::read_to_string(report.unwrap()).unwrap();
    fs::remove_dir_all(folder).unwrap();
    let last = report.lines().last().unwrap();
    assert!(last.contains(r#""event":"exit""#) && last.contains(&format!(r#""pid":{second},"#)));
    report
}

#[test]
fn a_daemon_is_served_and_has_a_place_for_its_report() {
    // SAFETY: asks for a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    let yama = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or("0\n".into());
    for kind in ["plain", "titled"] {
        daemon(&[], kind);
        // The daemon is no descendant of the command, and so it may not be read everywhere.
        if is_root || yama == "0\n" {
            daemon(&["--require"], kind);
        }
    }
}

/// Neither a process that does not run on hakmem nor one that was there before.
#[test]
fn a_process_without_hakmem_leaves_no_folder() {
    let mut command = hakmem();
    command.args(["run", "--lib"]).arg(&*HAKMEM);
    // The second shell opens the pipe, and so runs without hakmem by then. It waits for its input,
    // which the test holds.
    let folder = tempfile::tempdir().unwrap();
    let script =
        "mkfifo pipe; unset LD_PRELOAD; sh -c 'echo >pipe; read line' <&9 & read ready <pipe";
    command
        .args(["sh", "-c", script])
        .current_dir(folder.path());
    let (input, holder) = std::io::pipe().unwrap();
    let fd = input.as_raw_fd();
    // SAFETY: the closure makes one system call.
    unsafe {
        command.pre_exec(move || match libc::dup2(fd, 9) {
            9 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let mut other = std::process::Command::new("sh");
    other
        .args(["-c", "read line"])
        .env("LD_PRELOAD", &*HAKMEM)
        .stdin(Stdio::piped());
    let mut other = other.spawn().unwrap();
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    assert!(child.wait().unwrap().success());
    drop(holder);
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(said, "");
    drop(other.stdin.take());
    other.wait().unwrap();
}
