//! `hakmem top` on a terminal ends, for whatever reason, and leaves the terminal as it was.

use super::{known, shows_row, top_of};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

#[test]
fn interrupted_and_terminated_it_restores_the_terminal() {
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

/// The command fails: who waits for its screen is told at once.
#[test]
#[should_panic(expected = "\"3072\" does not come, it ended: exit status: 1")]
fn a_screen_that_never_comes_is_not_waited_for() {
    let mut plain = Command::new("true").spawn().unwrap();
    let pid = plain.id() as i32;
    plain.wait().unwrap();
    top_of(pid).until_shows("3072");
}
