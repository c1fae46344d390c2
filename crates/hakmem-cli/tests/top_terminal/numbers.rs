//! The numbers that `hakmem top` shows on a terminal are those that it prints in lines.

use super::common::terminal::Terminal;
use super::common::*;
use super::{known, shows_row, top_of};

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

/// What is printed is as wide as the terminal, at most: of the table of classes the same columns as
/// on a screen of that size.
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
