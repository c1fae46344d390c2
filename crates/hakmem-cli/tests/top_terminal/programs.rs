//! `hakmem top PROG` on a terminal: the program goes on and is heard, whatever becomes of the view.

use super::common::terminal::Terminal;
use super::common::*;

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
    terminal.until("the plain screen", |s| {
        !s.alternate_screen() && s.contents().contains("which goes on; Ctrl-C interrupts it")
    });
    std::fs::write(&file, "").unwrap();
    let (status, text) = terminal.end();
    assert_eq!(status.code(), Some(5));
    assert!(text.trim().ends_with("done"), "{text}");
}
