//! `hakmem top` on a terminal: what it shows, and the keys.

#[path = "top_terminal/ends.rs"]
mod ends;
#[path = "top_terminal/numbers.rs"]
mod numbers;
#[path = "top_terminal/programs.rs"]
mod programs;

use crate::common;

use common::terminal::{Terminal, settings};
use common::*;
use std::process::{Command, Stdio};

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

    terminal.until_shows("by live");
    terminal.press("\t");
    terminal.until("a table without orders", |s| {
        let text = s.contents();
        text.contains("in batches") && !text.contains("by live") && text.contains("pause")
    });
    for (key, what) in [
        ("\t", "refused"),
        ("\t", "not timed: set HAKMEM_TIMING=1"),
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
