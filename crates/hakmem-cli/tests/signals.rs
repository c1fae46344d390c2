//! `hakmem run` and signals: nothing is lost on the way to the program, nothing comes twice, a
//! shell sees one job.

use crate::common;

use common::*;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything here takes, so that a failure ends.
const LONG: Duration = Duration::from_secs(20);

#[test]
fn signals_are_passed_on_once_each() {
    let mut running = Ready::new(run(&[], &program(&["signals"])));
    let others = [libc::SIGRTMIN(), libc::SIGRTMAX()];
    let usual = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGWINCH,
    ];
    let rare = [
        libc::SIGABRT,
        libc::SIGSEGV,
        libc::SIGPIPE,
        libc::SIGTTIN,
        libc::SIGXCPU,
        libc::SIGURG,
        libc::SIGIO,
    ];
    for signal in usual.into_iter().chain(rare).chain(others) {
        running.kill(signal);
        assert_eq!(running.line(), format!("signal {signal} value 0"));
    }
    running.kill(libc::SIGTERM);
    assert_eq!(running.child.wait().unwrap().code(), Some(5));
    assert_eq!(running.rest(), "");
}

#[test]
fn queued_signals_keep_their_order_and_values() {
    let mut running = Ready::new(run(&[], &program(&["signals"])));
    for value in [3, 1, 2] {
        let value = libc::sigval {
            sival_ptr: std::ptr::without_provenance_mut(value),
        };
        // SAFETY: the child is not reaped, so the pid is its own.
        let queued = unsafe { libc::sigqueue(running.pid(), libc::SIGRTMIN() + 1, value) };
        assert_eq!(queued, 0);
    }
    for value in [3, 1, 2] {
        assert_eq!(
            running.line(),
            format!("signal {} value {value}", libc::SIGRTMIN() + 1)
        );
    }
    running.kill(libc::SIGTERM);
    assert_eq!(running.child.wait().unwrap().code(), Some(5));
}

#[test]
fn a_signal_with_its_default_action_kills_both() {
    let mut running = Ready::new(run(&[], &program(&["hold"])));
    running.kill(libc::SIGTERM);
    assert_eq!(running.child.wait().unwrap().signal(), Some(libc::SIGTERM));
    assert_eq!(running.rest(), "");
}

#[test]
fn the_program_does_not_outlive_a_killed_hakmem() {
    let mut running = Ready::new(run(&[], &program(&["hold"])));
    running.kill(libc::SIGKILL);
    assert_eq!(running.child.wait().unwrap().signal(), Some(libc::SIGKILL));
    // Ends when the program, which holds the pipe, is gone.
    assert_eq!(running.rest(), "");
}

#[test]
fn an_alarm_set_before_reaches_the_program() {
    let mut command = run(
        &[],
        &["perl", "-e", "$SIG{ALRM} = sub { exit 6 }; sleep 20"],
    );
    let set_alarm = || {
        let soon = libc::timeval {
            tv_sec: 0,
            tv_usec: 300_000,
        };
        let once = libc::itimerval {
            it_interval: libc::timeval {
                tv_sec: 0,
                tv_usec: 0,
            },
            it_value: soon,
        };
        // SAFETY: live values; setitimer is async-signal-safe.
        match unsafe { libc::setitimer(libc::ITIMER_REAL, &once, std::ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: makes one system call.
    let status = unsafe { command.pre_exec(set_alarm) }.status().unwrap();
    // Death by it, when the program was not ready for it yet, is right as well.
    assert!(
        status.code() == Some(6) || status.signal() == Some(libc::SIGALRM),
        "{status}"
    );
}

/// Waits until the child stops, and returns by what; fails when that takes implausibly long.
fn stopped_by(pid: i32) -> i32 {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut status = 0;
        // SAFETY: the child is ours, and nothing else waits for it now.
        let waited = unsafe { libc::waitpid(pid, &mut status, libc::WUNTRACED) };
        sender.send((waited, status))
    });
    let (waited, status) = receiver.recv_timeout(LONG).expect("hakmem does not stop");
    assert_eq!(waited, pid);
    assert!(libc::WIFSTOPPED(status), "{status:x}");
    libc::WSTOPSIG(status)
}

/// Spins until something is seen in /proc.
fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONG, "{what}: never");
        thread::yield_now();
    }
}

/// Whether the signal is pending for the process.
fn is_pending(pid: i32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let (_, set) = status.split_once("ShdPnd:").unwrap();
    let set = u64::from_str_radix(set.lines().next().unwrap().trim(), 16).unwrap();
    set & 1 << (signal - 1) != 0
}

fn is_stopped(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.contains("State:\tT")
}

#[test]
fn hakmem_stops_and_continues_with_the_program() {
    let mut command = run(&[], &program(&["signals"]));
    // A group of its own, with a parent outside: in an orphaned group the kernel ignores SIGTSTP.
    command.process_group(0);
    let mut running = Ready::new(command);
    for _ in 0..3 {
        running.kill(libc::SIGTSTP);
        assert_eq!(stopped_by(running.pid()), libc::SIGTSTP);
        assert!(is_stopped(running.program()));
        running.kill(libc::SIGCONT);
        running.kill(libc::SIGUSR1);
        assert_eq!(running.line(), format!("signal {} value 0", libc::SIGUSR1));
    }
    running.kill(libc::SIGTERM);
    assert_eq!(running.child.wait().unwrap().code(), Some(5));
}

#[test]
fn hakmem_survives_a_program_that_someone_stops_and_continues() {
    let mut running = Ready::new(run(&[], &program(&["signals"])));
    let program = running.program();
    let send = |signal| {
        // SAFETY: hakmem has not reaped its child: that does not end before the last of these
        // signals.
        assert_eq!(unsafe { libc::kill(program, signal) }, 0);
    };
    send(libc::SIGSTOP);
    until("the program stops", || is_stopped(program));
    // Taken by hakmem after SIGCHLD, which has the lower number; so hakmem knows of the stop when
    // it passes this on.
    running.kill(libc::SIGURG);
    until("hakmem passes on", || is_pending(program, libc::SIGURG));
    send(libc::SIGCONT);
    assert_eq!(running.line(), format!("signal {} value 0", libc::SIGURG));
    send(libc::SIGTERM);
    assert_eq!(running.child.wait().unwrap().code(), Some(5));
    assert_eq!(running.rest(), "");
}

#[test]
fn a_terminal_sees_one_job() {
    let job = |hakmem: bool| {
        let mut command = Command::new(&*TERMINAL);
        if hakmem {
            command
                .arg(env!("CARGO_BIN_EXE_hakmem"))
                .args(["run", "--lib"])
                .arg(&*LIBRARY)
                .arg("--");
        }
        let output = command
            .arg(&*PROGRAM)
            .arg("signals")
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        // Without the echo of the keys, which depends on what runs when.
        let text = stdout(&output)
            .replace("^C", "")
            .replace("^Z", "")
            .replace("^\\", "");
        text.trim_end().to_owned()
    };
    // Several interrupts, as a signal that wrongly came twice may merge with the first.
    let interrupts = "signal 2 value 0\n".repeat(8);
    let expected = format!("ready\n{interrupts}stopped by 20\nsignal 3 value 0\nexited with 5");
    assert_eq!(job(false), expected);
    assert_eq!(job(true), expected);
}

#[test]
fn the_program_inherits_what_it_would_without_hakmem() {
    for case in 0..3 {
        let state = |mut command: Command| {
            let unusual = move || {
                // SAFETY: system calls with valid arguments, all async-signal-safe.
                unsafe {
                    libc::setsid();
                    let mut set = std::mem::zeroed();
                    libc::sigemptyset(&mut set);
                    libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                    if case > 0 {
                        for signal in [libc::SIGHUP, libc::SIGPIPE, libc::SIGCHLD, libc::SIGTSTP] {
                            libc::signal(signal, libc::SIG_IGN);
                        }
                        libc::sigaddset(&mut set, libc::SIGUSR1);
                        libc::sigaddset(&mut set, libc::SIGTERM);
                        libc::sigaddset(&mut set, libc::SIGCHLD);
                    }
                    if case > 1 {
                        libc::close(0);
                        libc::close(2);
                    }
                    libc::sigprocmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
                }
                Ok(())
            };
            // SAFETY: the closure makes async-signal-safe calls alone.
            let output = unsafe { command.pre_exec(unusual) }
                .stdin(Stdio::null())
                .output()
                .unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            assert_eq!(stderr(&output), "");
            let text = stdout(&output);
            let (text, group) = text.rsplit_once("group").unwrap();
            // hakmem leads the session and the group, the program is a member of both.
            let mut ids = group
                .split_whitespace()
                .filter(|w| w.parse::<i32>().is_ok());
            assert_eq!(ids.next(), ids.next());
            text.to_owned()
        };
        let mut plain = Command::new(&*PROGRAM);
        plain.arg("state");
        assert_eq!(
            state(run(&[], &program(&["state"]))),
            state(plain),
            "case {case}"
        );
    }
}
