//! A terminal for tests, and a command that has it for its own.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A terminal, with a command that has it for its own, and what is on its screen.
pub struct Terminal {
    keys: File,
    /// This side's, so that the terminal stays when the command has gone.
    pub other_side: OwnedFd,
    pub before: Settings,
    pub screen: vt100::Parser,
    pub child: Child,
}

/// What tells a terminal in raw mode from one that is not.
pub type Settings = [libc::tcflag_t; 4];

pub fn settings(terminal: &OwnedFd) -> Settings {
    // SAFETY: all zeroes is a valid termios, which the call fills in.
    unsafe {
        let mut termios: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), &mut termios), 0);
        [
            termios.c_iflag,
            termios.c_oflag,
            termios.c_cflag,
            termios.c_lflag,
        ]
    }
}

fn size(rows: u16, columns: u16) -> libc::winsize {
    libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

fn nonzero(n: u16) -> std::num::NonZero<u16> {
    std::num::NonZero::new(n).unwrap()
}

/// Whether there is something to be read of it within a time.
fn is_ready(fd: RawFd, milliseconds: i32) -> bool {
    let mut ready = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one live pollfd.
    unsafe { libc::poll(&mut ready, 1, milliseconds) == 1 }
}

impl Terminal {
    pub fn new(command: Command) -> Self {
        Self::of_kind(command, &[])
    }

    /// With variables that say what the terminal can do.
    pub fn of_kind(command: Command, variables: &[(&str, &str)]) -> Self {
        Self::of_size(command, variables, 40, 120)
    }

    pub fn of_size(
        mut command: Command,
        variables: &[(&str, &str)],
        rows: u16,
        columns: u16,
    ) -> Self {
        let (mut this, mut other) = (-1, -1);
        let size = size(rows, columns);
        // SAFETY: the pointers are to live values; the descriptors it makes are owned once, here.
        let (keys, other_side) = unsafe {
            let null = std::ptr::null_mut();
            let made = libc::openpty(&mut this, &mut other, null, std::ptr::null_mut(), &size);
            assert_eq!(made, 0);
            (File::from_raw_fd(this), OwnedFd::from_raw_fd(other))
        };
        let before = settings(&other_side);
        for side in [keys.as_raw_fd(), other] {
            // SAFETY: the descriptors are open.
            unsafe { libc::fcntl(side, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
        let side = || Stdio::from(other_side.try_clone().unwrap());
        command
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .envs(variables.iter().copied());
        let own_terminal = || {
            // SAFETY: system calls on the command's own descriptors, all async-signal-safe.
            unsafe {
                libc::setsid();
                // Ignored by whoever started the tests in the background, it would be by the programs, too.
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                libc::ioctl(0, libc::TIOCSCTTY, 0);
            }
            Ok(())
        };
        // SAFETY: the closure makes system calls alone.
        let child = unsafe { command.pre_exec(own_terminal) }.spawn().unwrap();
        Self {
            keys,
            other_side,
            before,
            screen: vt100::Parser::new(nonzero(rows), nonzero(columns), 0),
            child,
        }
    }

    pub fn resize(&mut self, rows: u16, columns: u16) {
        let size = size(rows, columns);
        self.screen
            .screen_mut()
            .set_size(nonzero(rows), nonzero(columns));
        // SAFETY: a live winsize.
        unsafe { libc::ioctl(self.keys.as_raw_fd(), libc::TIOCSWINSZ, &size) };
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Takes in what comes within a time; false: nothing did.
    fn read(&mut self, milliseconds: i32) -> bool {
        if !is_ready(self.keys.as_raw_fd(), milliseconds) {
            return false;
        }
        let mut bytes = [0; 4096];
        let n = self.keys.read(&mut bytes).unwrap();
        self.screen.process(&bytes[..n]);
        true
    }

    /// The terminal goes away, as when its window is closed. How the command ended; the limit is for one that does not.
    pub fn hang_up(&mut self) -> ExitStatus {
        self.keys = File::open("/dev/null").unwrap();
        // SAFETY: the child is not reaped, so the pid is its own.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, self.child.id(), 0) };
        assert!(fd >= 0, "no pidfd");
        // SAFETY: just opened, and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        assert!(
            is_ready(fd.as_raw_fd(), 300_000),
            "it goes on without a terminal"
        );
        self.child.wait().unwrap()
    }

    /// Reads until the screen is as it should be. The limit is for one that never gets so.
    pub fn until(&mut self, what: &str, is: impl Fn(&vt100::Screen) -> bool) {
        let begin = Instant::now();
        while !is(self.screen.screen()) {
            let some = self.read(300_000) && begin.elapsed() < Duration::from_secs(300);
            let contents = self.screen.screen().contents();
            assert!(some, "{what} does not come:\n{contents}");
        }
    }

    pub fn until_shows(&mut self, what: &str) {
        self.until(what, |screen| screen.contents().contains(what));
    }

    /// Waits for the command's end; the terminal is as it was, and what was written in the end is on its plain screen.
    pub fn end(&mut self) -> (ExitStatus, String) {
        // It may have to wait until what it writes is read.
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            self.read(20);
        };
        let mark = format!("the end of {}", std::process::id());
        let other = self.other_side.try_clone().unwrap();
        File::from(other).write_all(mark.as_bytes()).unwrap();
        self.until_shows(&mark);
        assert!(!self.screen.screen().alternate_screen());
        assert!(!self.screen.screen().hide_cursor());
        assert_eq!(settings(&self.other_side), self.before);
        let text = self.screen.screen().contents();
        (status, text.replace(&mark, ""))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
