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
    /// Of the command; it can be read once the command has ended.
    ended: OwnedFd,
}

/// No test waits longer than that for a screen or an end.
const LIMIT: Duration = Duration::from_secs(300);

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

/// Waits until one of them can be read, for the rest of a time. True for each that can.
fn readable<const N: usize>(fds: [RawFd; N], begin: Instant) -> [bool; N] {
    let mut all = fds.map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    let rest = LIMIT.saturating_sub(begin.elapsed()).as_millis();
    // SAFETY: as many live entries.
    let n = unsafe { libc::poll(all.as_mut_ptr(), N as libc::nfds_t, rest as i32) };
    assert!(n >= 0, "{}", std::io::Error::last_os_error());
    all.map(|one| one.revents != 0)
}

/// A descriptor that can be read once the child has ended.
fn end_of(child: &Child) -> OwnedFd {
    // SAFETY: the child is not reaped, so the pid is its own.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: just opened, and nobody else's.
    unsafe { OwnedFd::from_raw_fd(fd as RawFd) }
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
            .env_remove("COLUMNS")
            .envs(variables.iter().copied());
        let own_terminal = || {
            // SAFETY: system calls on the command's own descriptors, all async-signal-safe.
            unsafe {
                libc::setsid();
                // Ignored by whoever started the tests in the background, it would be by the
                // programs, too.
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
            ended: end_of(&child),
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

    fn read(&mut self) {
        let mut bytes = [0; 4096];
        let n = self.keys.read(&mut bytes).unwrap();
        self.screen.process(&bytes[..n]);
    }

    /// Waits for what comes next, and takes it in. None came: how the command has ended.
    fn next(&mut self, begin: Instant) -> Option<ExitStatus> {
        let fds = [self.keys.as_raw_fd(), self.ended.as_raw_fd()];
        match readable(fds, begin) {
            [true, _] => self.read(),
            [false, true] => return Some(self.child.wait().unwrap()),
            [false, false] => panic!("nothing comes, and it does not end:\n{}", self.contents()),
        }
        None
    }

    fn contents(&self) -> String {
        self.screen.screen().contents()
    }

    /// Takes in all that the command has written, which has ended: a mark behind it comes last.
    fn drain(&mut self) -> String {
        let mark = format!("the end of {}", std::process::id());
        let other = self.other_side.try_clone().unwrap();
        File::from(other).write_all(mark.as_bytes()).unwrap();
        let begin = Instant::now();
        while !self.contents().contains(&mark) {
            let [more] = readable([self.keys.as_raw_fd()], begin);
            assert!(more, "{mark:?} does not come:\n{}", self.contents());
            self.read();
        }
        mark
    }

    /// The terminal goes away, as when its window is closed. How the command ended; the limit is
    /// for one that does not.
    pub fn hang_up(&mut self) -> ExitStatus {
        self.keys = File::open("/dev/null").unwrap();
        let [ended] = readable([self.ended.as_raw_fd()], Instant::now());
        assert!(ended, "it goes on without a terminal");
        self.child.wait().unwrap()
    }

    /// Reads until the screen is as it should be. Fails as soon as the command has ended and it is
    /// not; the limit is for one that goes on without.
    pub fn until(&mut self, what: &str, is: impl Fn(&vt100::Screen) -> bool) {
        let begin = Instant::now();
        while !is(self.screen.screen()) {
            let in_time = begin.elapsed() < LIMIT;
            assert!(in_time, "{what} does not come:\n{}", self.contents());
            let Some(status) = self.next(begin) else {
                continue;
            };
            self.drain();
            let came = is(self.screen.screen());
            let contents = self.contents();
            assert!(came, "{what} does not come, it ended: {status}\n{contents}");
        }
    }

    pub fn until_shows(&mut self, what: &str) {
        self.until(&format!("{what:?}"), |screen| {
            screen.contents().contains(what)
        });
    }

    /// Waits for the command's end; the terminal is as it was, and what was written in the end is
    /// on its plain screen.
    pub fn end(&mut self) -> (ExitStatus, String) {
        let begin = Instant::now();
        // It may have to wait until what it writes is read.
        let status = loop {
            if let Some(status) = self.next(begin) {
                break status;
            }
            assert!(begin.elapsed() < LIMIT, "it does not end");
        };
        let mark = self.drain();
        assert!(!self.screen.screen().alternate_screen());
        assert!(!self.screen.screen().hide_cursor());
        assert_eq!(settings(&self.other_side), self.before);
        (status, self.contents().replace(&mark, ""))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
