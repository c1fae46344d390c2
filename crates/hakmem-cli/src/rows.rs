//! Rows of a name and what there is to say.

use crate::lines::{clauses, length};
use crate::terminal::Terminal;

/// Blanks before a name, and between the longest name and what there is to say.
const GAP: usize = 2;
/// The least room for what there is to say: with less, it stands below the name.
const LEAST: usize = 20;

pub fn named<const N: usize>(rows: [(&str, String); N]) -> Vec<[String; 2]> {
    rows.map(|(name, value)| [name.to_owned(), value]).into()
}

/// The rows, with what there is to say in a column. On a terminal it goes on in that column where
/// it does not fit.
pub fn text(rows: &[[String; 2]], terminal: Option<Terminal>) -> String {
    let names = rows.iter().map(|[name, _]| length(name)).max().unwrap_or(0);
    rows.iter()
        .map(|[name, value]| row(name, names + GAP, value, terminal))
        .collect()
}

/// One row, whose name has so many columns.
pub fn row(name: &str, columns: usize, value: &str, terminal: Option<Terminal>) -> String {
    if let Some(terminal) = terminal {
        return broken(name, columns, terminal, |width| clauses(value, width));
    }
    let line = format!("{:GAP$}{name:<columns$}{value}", "");
    format!("{}\n", line.trim_end())
}

/// One row, of which `value` makes lines that are no wider than asked.
pub fn broken(
    name: &str,
    columns: usize,
    terminal: Terminal,
    value: impl Fn(usize) -> Vec<String>,
) -> String {
    let width = terminal.width;
    let below = width < GAP + columns + LEAST;
    let indent = if below { 2 * GAP } else { GAP + columns };
    let mut lines = value(width.saturating_sub(indent)).into_iter();
    let first = match below {
        true => String::new(),
        false => lines.next().unwrap_or_default(),
    };
    let mut text = row(name, columns, &first, None);
    for line in lines {
        text += &format!("{:indent$}{line}\n", "");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(width: usize) -> Option<Terminal> {
        let without = "";
        Some(Terminal { width, without })
    }

    #[test]
    fn values_go_on_in_their_column() {
        let rows = named([
            ("live", "1.0 KiB, never more than 2.0 KiB".into()),
            ("allocations", "12".into()),
        ]);
        let whole = "  live         1.0 KiB, never more than 2.0 KiB\n  allocations  12\n";
        assert_eq!(text(&rows, None), whole);
        assert_eq!(text(&rows, on(47)), whole);
        let broken = "  live         1.0 KiB,\n               never more than 2.0 KiB\n";
        assert_eq!(text(&rows, on(46)), format!("{broken}  allocations  12\n"));
        let below = "  live\n    1.0 KiB,\n    never more than 2.0 KiB\n  allocations\n    12\n";
        assert_eq!(text(&rows, on(30)), below);
    }
}
