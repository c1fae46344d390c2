//! A run with a deadline: a program that hangs is a failure, with the stacks of all its processes.

use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// So long that only a hang takes it, on a busy machine too. The long form does 50 times as much.
fn patience() -> Duration {
    Duration::from_secs(600 + 60 * super::times())
}

/// Runs to the end and returns what was written to standard output and to standard error. Files,
/// not pipes: what the program leaves behind may hold a pipe open.
pub fn watched(command: &mut Command) -> (ExitStatus, String, String) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let paths = ["out", "err"].map(|name| directory.path().join(name));
    let [out, err] = paths.each_ref().map(|p| File::create(p).expect("a file"));
    command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .process_group(0);
    let mut child = command
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let ended = ends_in_time(&child);
    let stacks = if ended {
        String::new()
    } else {
        stacks_of_group(child.id())
    };
    // Also those that it left behind, if it failed.
    let status = end(&mut child, ended);
    let [out, err] = paths
        .each_ref()
        .map(|p| fs::read_to_string(p).unwrap_or_default());
    assert!(
        ended,
        "{command:?} did not end in {:?}\n{out}\n{err}\n{stacks}",
        patience()
    );
    (status, out, err)
}

fn ends_in_time(child: &Child) -> bool {
    // SAFETY: opens a descriptor for a process of ours that was not waited for yet.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id() as libc::c_long, 0) } as i32;
    assert!(fd >= 0, "pidfd_open: {}", std::io::Error::last_os_error());
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one valid entry; the descriptor is closed once.
    let ready = unsafe {
        let ready = libc::poll(&mut poll, 1, patience().as_millis() as i32);
        libc::close(fd);
        ready
    };
    ready == 1
}

fn end(child: &mut Child, ended: bool) -> ExitStatus {
    if !ended {
        // SAFETY: the group that was made for the child, which was not waited for yet.
        unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    }
    let status = child.wait().expect("the child can be waited for");
    if !ended {
        assert_eq!(status.signal(), Some(libc::SIGKILL));
    }
    status
}

/// The stacks of all threads of all processes in a group, by gdb.
fn stacks_of_group(group: u32) -> String {
    let mut text = String::new();
    for entry in fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
    {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|s| s.parse::<u32>().ok())
        else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // After the name, which may hold anything, in parentheses: state, parent, group.
        let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
        if fields.clone().nth(2) != Some(&group.to_string()) {
            continue;
        }
        let gdb = Command::new("gdb")
            .args(["-batch", "-nx", "-ex", "thread apply all bt 20", "-p"])
            .arg(pid.to_string())
            .output();
        text += &format!("== process {pid}\n");
        text += &match gdb {
            Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
            Err(e) => format!("no stacks: gdb: {e}"),
        };
    }
    text
}
