//! `hakmem top` on a terminal: what it shows, the keys, and that the terminal is put back as it was.

use crate::common;

use common::*;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A terminal, with a command that has it for its own, and what is on its screen.
struct Terminal {
    keys: File,
    /// This side's, so that the terminal stays when the command has gone.
    other_side: OwnedFd,
    before: Settings,
    screen: vt100::Parser,
    child: Child,
}

/// What tells a terminal in raw mode from one that is not.
type Settings = [libc::tcflag_t; 4];

fn settings(terminal: &OwnedFd) -> Settings {
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
    fn new(command: Command) -> Self {
        Self::of_kind(command, &[])
    }

    /// With variables that say what the terminal can do.
    fn of_kind(command: Command, variables: &[(&str, &str)]) -> Self {
        Self::of_size(command, variables, 40, 120)
    }

    fn of_size(mut command: Command, variables: &[(&str, &str)], rows: u16, columns: u16) -> Self {
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

    fn resize(&mut self, rows: u16, columns: u16) {
        let size = size(rows, columns);
        self.screen
            .screen_mut()
            .set_size(nonzero(rows), nonzero(columns));
        // SAFETY: a live winsize.
        unsafe { libc::ioctl(self.keys.as_raw_fd(), libc::TIOCSWINSZ, &size) };
    }

    fn press(&mut self, keys: &str) {
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
    fn hang_up(&mut self) -> ExitStatus {
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
    fn until(&mut self, what: &str, is: impl Fn(&vt100::Screen) -> bool) {
        let begin = Instant::now();
        while !is(self.screen.screen()) {
            let some = self.read(300_000) && begin.elapsed() < Duration::from_secs(300);
            let contents = self.screen.screen().contents();
            assert!(some, "{what} does not come:\n{contents}");
        }
    }

    fn until_shows(&mut self, what: &str) {
        self.until(what, |screen| screen.contents().contains(what));
    }

    /// Waits for the command's end; the terminal is as it was, and what was written in the end is on its plain screen.
    fn end(&mut self) -> (ExitStatus, String) {
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

fn known() -> Ready {
    let mut command = Command::new(&*KNOWN);
    command.env("LD_PRELOAD", &*HAKMEM).stdin(Stdio::piped());
    Ready::new(command)
}

fn top_of(pid: i32) -> Terminal {
    let mut command = hakmem();
    command.args(["top", "-i", "0.1"]).arg(pid.to_string());
    Terminal::new(command)
}

/// The cells of the screen's line that has `name` in its first cell.
fn shows_row(screen: &vt100::Screen, cells: &[&str]) -> bool {
    screen.contents().lines().any(|line| {
        let words = line.split("  ").map(|w| w.trim_matches(['│', ' ']));
        let words: Vec<_> = words.filter(|w| !w.is_empty()).collect();
        words.starts_with(cells)
    })
}

#[test]
fn it_shows_is_resized_and_left() {
    let known = known();
    let mut terminal = top_of(known.pid());
    terminal.until("the table", |s| {
        s.alternate_screen() && shows_row(s, &["3072", "1.5 MiB"])
    });
    assert_ne!(settings(&terminal.other_side), terminal.before, "raw mode");
    terminal.until_shows("every 0.1 s");

    terminal.resize(24, 80);
    terminal.until("the new width", |s| {
        let rows: Vec<_> = s.rows(0, 80).collect();
        rows[23].contains("leave") && rows[22].ends_with('┘') && rows[13].ends_with('┐')
    });
    terminal.resize(3, 9);
    terminal.until("something", |s| !s.contents().is_empty());
    terminal.resize(40, 120);
    terminal.until("all of it", |s| shows_row(s, &["3072", "1.5 MiB"]));

    for (key, what) in [
        ("\t", "in batches"),
        ("\t", "of its time"),
        ("\t", "none so far"),
        ("\t", "list hits"),
        ("s", "by allocations a second"),
        ("s", "by unused bytes"),
        ("s", "by size"),
        ("p", "paused"),
        ("+", "every 0.2 s"),
        ("-", "every 0.1 s"),
    ] {
        terminal.press(key);
        terminal.until_shows(what);
    }
    // By size, the largest comes last.
    terminal.press("p\x1b[F");
    terminal.until("the last row alone", |s| {
        shows_row(s, &["3072"]) && !shows_row(s, &["320"])
    });
    terminal.press("\x1b[H");
    terminal.until("all of them", |s| {
        shows_row(s, &["3072"]) && shows_row(s, &["320"])
    });
    terminal.press("q");
    let (status, text) = terminal.end();
    assert!(status.success());
    assert_eq!(text.trim(), "", "nothing is left behind");
}

/// Of `top --batch`, whose counts have all digits: rows of the table of classes.
fn exact_rows(pid: i32) -> Vec<Vec<String>> {
    let mut command = hakmem();
    command.args(["top", "--batch", "1"]).arg(pid.to_string());
    let text = stdout(&command.output().unwrap());
    let lines = text.lines().skip_while(|l| !l.contains("list hits"));
    lines.take_while(|l| !l.is_empty()).map(cells).collect()
}

fn cells(line: &str) -> Vec<String> {
    let cells = line.split("  ").map(|cell| cell.trim_matches(['│', ' ']));
    let cells = cells.filter(|cell| !cell.is_empty());
    cells.map(str::to_owned).collect()
}

/// A number as it is shown, and half of its last digit.
fn number(text: &str) -> (f64, f64) {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || ",.".contains(c));
    let number = &text[..text.len() - unit.len()];
    let scale = match unit.trim() {
        "" | "B" | "%" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "KiB" => 1024.0,
        "MiB" => 1048576.0,
        other => panic!("the unit {other:?} of {text:?}"),
    };
    let value: f64 = number.replace(',', "").parse().unwrap();
    let decimals = number.split_once('.').map_or(0, |(_, d)| d.len() as i32);
    (value * scale, 0.5001 * scale / 10f64.powi(decimals))
}

/// Of a program at rest: what the columns show, at each size, is what the look in lines has.
#[test]
fn numbers_are_not_cut_at_any_size() {
    let known = known();
    let exact = exact_rows(known.pid());
    let mut terminal = top_of(known.pid());
    for (rows, columns) in [(24, 80), (15, 60), (50, 200), (10, 40), (8, 30)] {
        // What was drawn at the size before is not to be taken for what comes.
        terminal.screen.process(b"\x1b[2J");
        terminal.resize(rows, columns);
        let keys = |line: &str| line.starts_with(" q  leave") && line.trim_end().len() > 15;
        terminal.until("the new size", |s| {
            let lines: Vec<_> = s.rows(0, columns).collect();
            keys(&lines[usize::from(rows) - 1]) && shows_row(s, &["3072", "1.5 MiB"])
        });
        let contents = terminal.screen.screen().contents();
        let mut lines = contents.lines().map(cells);
        let heads = lines
            .find(|l| l.first().is_some_and(|c| c == "size"))
            .unwrap();
        let is_row = |row: &Vec<String>| row.first().is_some_and(|c| c.parse::<u64>().is_ok());
        let shown: Vec<_> = lines.take_while(is_row).collect();
        assert!(shown.len() >= 3.min(exact.len() - 1), "{contents}");
        for row in shown {
            let truth = exact.iter().find(|r| r[0] == row[0]).unwrap();
            assert_eq!(row.len(), heads.len(), "{contents}");
            for (head, cell) in heads.iter().zip(&row).filter(|(_, cell)| *cell != "-") {
                let long = match head.as_str() {
                    "allocs" => "allocations",
                    "remote" => "by others",
                    "hits" => "list hits",
                    "a second" | "per s" => continue, // One look has none.
                    other => other,
                };
                let at = exact[0].iter().position(|h| h == long);
                let at = at.unwrap_or_else(|| panic!("{long:?} of {:?}: {contents}", exact[0]));
                let ((seen, half), (is, of)) = (number(cell), number(&truth[at]));
                assert!(
                    (seen - is).abs() <= half + of,
                    "{cell} of {head}: {contents}"
                );
            }
        }
    }
    terminal.resize(24, 80);
    terminal.press("?");
    terminal.until_shows("closes this help");
    terminal.press("\x1b[F");
    terminal.until_shows("processor time");
    terminal.press("?");
    terminal.until("the table", |s| shows_row(s, &["3072", "1.5 MiB"]));
    terminal.press("q");
    assert!(terminal.end().0.success());
}

/// A dumb terminal gets lines; one without colours gets none.
#[test]
fn terminals_that_are_dumb_or_without_colours() {
    let known = known();
    for (name, value) in [("TERM", "dumb"), ("TERM", "")] {
        let mut command = hakmem();
        command
            .args(["top", "-i", "0.1"])
            .arg(known.pid().to_string());
        let mut terminal = Terminal::of_kind(command, &[(name, value)]);
        terminal.until_shows("list hits");
        assert!(!terminal.screen.screen().alternate_screen());
        assert_eq!(settings(&terminal.other_side), terminal.before);
    }
    for (value, colours) in [("", true), ("1", false)] {
        let mut command = hakmem();
        command
            .args(["top", "-i", "0.1"])
            .arg(known.pid().to_string());
        let mut terminal = Terminal::of_kind(command, &[("NO_COLOR", value)]);
        terminal.until_shows("3072");
        let screen = terminal.screen.screen();
        let all = (0..40).flat_map(|y| (0..120).map(move |x| (y, x)));
        let plain = |(y, x)| screen.cell(y, x).unwrap().fgcolor() == vt100::Color::Default;
        assert_eq!(!all.into_iter().all(plain), colours, "NO_COLOR={value}");
    }
}

/// What is printed is as wide as the terminal, at most: of the table of classes the same columns as on a screen of that size.
#[test]
fn a_dumb_terminal_that_is_narrow() {
    let known = known();
    for (columns, last, missing) in [(60, "remote", "hits"), (30, "per s", "pages")] {
        let mut command = hakmem();
        command.args(["top", "--batch", "1"]);
        command.arg(known.pid().to_string());
        let mut terminal = Terminal::of_size(command, &[("TERM", "dumb")], 200, columns);
        assert!(terminal.end().0.success());
        let screen = terminal.screen.screen();
        let text = screen.contents();
        let wrapped = (0..200).find(|&row| screen.row_wrapped(row));
        assert_eq!(wrapped, None, "{text}");
        let mut lines = text.lines();
        let heads = lines.find(|line| line.trim().starts_with("size  "));
        let heads = heads.unwrap_or_else(|| panic!("no table in {text}"));
        assert!(heads.ends_with(last) && !heads.contains(missing), "{heads}");
        assert!(shows_row(screen, &["3072", "1.5 MiB"]), "{text}");
    }
}

#[test]
fn interrupted_and_terminated_it_restores_the_terminal() {
    use std::os::unix::process::ExitStatusExt;
    let known = known();
    let mut terminal = top_of(known.pid());
    terminal.until_shows("3072");
    terminal.press("\x03");
    assert!(terminal.end().0.success());
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        let mut terminal = top_of(known.pid());
        terminal.until_shows("3072");
        // SAFETY: the child is not reaped, so the pid is its own.
        unsafe { libc::kill(terminal.child.id() as i32, signal) };
        assert_eq!(terminal.end().0.signal(), Some(signal));
    }
}

/// Its reader of keys would look for one for ever.
#[test]
fn a_terminal_that_is_gone_ends_it() {
    use std::os::unix::process::ExitStatusExt;
    let known = known();
    let mut terminal = top_of(known.pid());
    terminal.until_shows("3072");
    let status = terminal.hang_up();
    // Of the terminal's end and the signal it may see either first.
    assert!(
        status.success() || status.signal() == Some(libc::SIGHUP),
        "{status}"
    );
}

#[test]
fn the_last_look_stays_when_the_process_ends() {
    let mut known = known();
    let mut terminal = top_of(known.pid());
    terminal.until_shows("3072");
    known.child.kill().unwrap();
    known.child.wait().unwrap();
    terminal.until_shows(&format!("process {} has ended; q leaves", known.pid()));
    assert!(shows_row(terminal.screen.screen(), &["3072", "1.5 MiB"]));
    terminal.press("q");
    assert!(terminal.end().0.success());
}

fn top_with(script: &str) -> Terminal {
    let mut command = hakmem();
    command.args(["top", "-i", "0.1", "--lib"]).arg(&*HAKMEM);
    command.args(["--", "bash", "-c", script]);
    Terminal::new(command)
}

/// What the program writes does not disturb the view, and is not lost.
#[test]
fn a_program_that_is_started_is_shown_and_its_output_kept() {
    let mut terminal = top_with("echo one; echo two >&2; sleep 1; echo three; exit 6");
    terminal.until_shows("(bash)");
    let (status, text) = terminal.end();
    assert_eq!(status.code(), Some(6));
    let lines: Vec<_> = text.split_whitespace().collect();
    assert_eq!(lines, ["one", "three", "two"]);
}

#[test]
fn an_interrupt_reaches_the_program() {
    let mut terminal =
        top_with("trap 'echo caught; exit 4' INT; echo ready; while :; do sleep 0.1; done");
    terminal.until_shows("(bash)");
    terminal.press("\x03");
    let (status, text) = terminal.end();
    assert_eq!(status.code(), Some(4));
    assert!(text.contains("caught"), "{text}");
}

/// It is waited for, and its status is this one's.
#[test]
fn a_program_goes_on_when_the_view_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("go");
    let script = format!(
        "while ! [ -e {} ]; do sleep 0.05; done; echo done; exit 5",
        file.display()
    );
    let mut terminal = top_with(&script);
    terminal.until_shows("(bash)");
    terminal.press("q");
    terminal.until("the plain screen", |s| !s.alternate_screen());
    std::fs::write(&file, "").unwrap();
    let (status, text) = terminal.end();
    assert_eq!((status.code(), text.trim()), (Some(5), "done"));
}

#[test]
fn what_cannot_be_watched_is_said_on_the_plain_screen() {
    let mut plain = Command::new("sleep").arg("1000").spawn().unwrap();
    let mut terminal = top_of(plain.id() as i32);
    let (status, text) = terminal.end();
    assert_eq!(status.code(), Some(1));
    assert!(text.contains("does not run on hakmem"), "{text}");
    plain.kill().unwrap();
    plain.wait().unwrap();
}
