//! A table in a width: heads are shortened first, then columns left out, the least important ones
//! before others. A cell is shown as a whole or not at all.

use crate::lines::{clauses, cut, length};
use crate::terminal::Terminal;

/// Between two columns.
const GAP: usize = 2;
/// More than that between two columns, at most.
const SPREAD: usize = 5;
/// Blanks before each line of a text.
const INDENT: usize = 2;
/// A name that is cut has at least so many characters.
const NAME: usize = 16;

/// A column, with what it means.
pub struct Column {
    pub head: &'static str,
    /// The head where there is little room.
    pub short: &'static str,
    /// The column with the highest is the first that is left out.
    pub rank: u8,
    pub means: &'static str,
}

/// A column whose head says enough.
pub const fn column(head: &'static str, short: &'static str, rank: u8) -> Column {
    Column {
        head,
        short,
        rank,
        means: "",
    }
}

/// Rows of cells; the first of a row may stand at its left.
pub struct Table {
    pub columns: &'static [Column],
    pub rows: Vec<Vec<String>>,
    pub names: bool,
}

/// Columns that are shown: which, how wide.
struct Shown {
    columns: Vec<(usize, usize)>,
    short: bool,
    gap: usize,
}

impl Table {
    /// A table whose first column is of numbers.
    pub fn of(columns: &'static [Column], rows: impl Iterator<Item = Vec<String>>) -> Self {
        Self {
            columns,
            rows: rows.collect(),
            names: false,
        }
    }

    fn head(&self, column: usize, short: bool) -> &'static str {
        let column = &self.columns[column];
        if short { column.short } else { column.head }
    }

    fn shown(&self, width: usize) -> Shown {
        let cell = |i: usize| self.rows.iter().map(|row| length(&row[i])).max();
        let cells: Vec<_> = (0..self.columns.len())
            .map(|i| cell(i).unwrap_or(0))
            .collect();
        let mut kept: Vec<_> = (0..self.columns.len()).collect();
        loop {
            for short in [false, true] {
                let wide = |&i: &usize| (i, cells[i].max(length(self.head(i, short))));
                let columns: Vec<_> = kept.iter().map(wide).collect();
                let between = columns.len().saturating_sub(1);
                let all = columns.iter().map(|c| c.1).sum::<usize>() + between * GAP;
                if all <= width {
                    let more = (width - all).checked_div(between).unwrap_or(0);
                    let gap = GAP + more.min(SPREAD);
                    return Shown {
                        columns,
                        short,
                        gap,
                    };
                }
            }
            let last = kept.iter().max_by_key(|&&i| self.columns[i].rank).copied();
            kept.retain(|&i| Some(i) != last);
        }
    }

    /// The heads and the rows, as lines of at most `width` characters.
    pub fn lines(&self, width: usize) -> Vec<String> {
        self.lines_of(&self.shown(width))
    }

    fn lines_of(&self, shown: &Shown) -> Vec<String> {
        let line = |cells: &dyn Fn(usize) -> String| {
            let mut line = String::new();
            for (n, &(i, width)) in shown.columns.iter().enumerate() {
                if n > 0 {
                    line.extend(std::iter::repeat_n(' ', shown.gap));
                }
                line += &match self.names && i == 0 {
                    true => format!("{:<width$}", cells(i)),
                    false => format!("{:>width$}", cells(i)),
                };
            }
            line
        };
        let head = line(&|i| self.head(i, shown.short).to_owned());
        let rows = self.rows.iter().map(|row| line(&|i| row[i].clone()));
        std::iter::once(head).chain(rows).collect()
    }

    /// The heads and the rows. A terminal gets the columns that fit, and a line that says how many
    /// do not. Names are cut there if a column would be left out.
    pub fn text(mut self, terminal: Option<Terminal>) -> String {
        let width = terminal.map_or(usize::MAX, |terminal| terminal.width);
        let room = width.saturating_sub(INDENT);
        let mut shown = self.shown(room);
        if self.names && shown.columns.len() < self.columns.len() {
            for row in &mut self.rows {
                row[0] = cut(&row[0], NAME.max(room / 4).min(room));
            }
            shown = self.shown(room);
        }
        shown.gap = GAP;
        let mut lines = self.lines_of(&shown);
        if let (Some(terminal), more @ 1..) = (terminal, self.columns.len() - shown.columns.len()) {
            let without = terminal.without;
            let (more, them) = match more {
                1 => ("1 column".into(), "it"),
                _ => (format!("{more} columns"), "them"),
            };
            let said = format!("{more} more: a wider terminal or {without} shows {them}");
            lines.extend(clauses(&said, room));
        }
        let lines = lines.iter().map(|line| format!("{:INDENT$}{line}", ""));
        lines.map(|line| format!("{}\n", line.trim_end())).collect()
    }
}

/// The first text that fits; of none, nothing.
pub fn first_that_fits(texts: &[String], width: usize) -> String {
    let fits = |text: &&String| length(text) <= width;
    texts.iter().find(fits).cloned().unwrap_or_default()
}

/// As many of the items, in their order, as fit in so many lines.
pub fn flow(items: &[String], width: usize, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for item in items.iter().filter(|item| length(item) <= width) {
        let full = lines.len() == most;
        match lines.last_mut() {
            Some(line) if length(line) + 3 + length(item) <= width => {
                *line += "   ";
                *line += item;
            }
            _ if full => {}
            _ => lines.push(item.clone()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [
        column("size", "size", 0),
        column("allocations", "allocs", 2),
        column("live", "live", 1),
    ];

    #[test]
    fn columns_go_by_rank_and_cells_stay_whole() {
        let row = ["3072", "15.8k", "1.2 MiB"].map(str::to_owned).to_vec();
        let table = Table {
            columns: &COLUMNS,
            rows: vec![row],
            names: false,
        };
        assert_eq!(
            table.lines(26),
            ["size  allocations     live", "3072        15.8k  1.2 MiB"]
        );
        assert_eq!(
            table.lines(22),
            ["size  allocs     live", "3072   15.8k  1.2 MiB"]
        );
        assert_eq!(table.lines(20)[1], "3072       1.2 MiB");
        assert_eq!(table.lines(12)[1], "3072");
        assert_eq!(table.lines(3), ["", ""]);
    }

    fn said(width: usize, name: &str) -> String {
        let row = [name, "15.8k", "1.2 MiB"].map(str::to_owned).to_vec();
        let table = Table {
            columns: &COLUMNS,
            rows: vec![row],
            names: true,
        };
        let without = "| cat";
        table.text((width > 0).then_some(Terminal { width, without }))
    }

    #[test]
    fn a_terminal_gets_what_fits_and_is_told_of_the_rest() {
        let whole = "  size  allocations     live\n  3072        15.8k  1.2 MiB\n";
        assert_eq!(said(0, "3072"), whole);
        assert_eq!(said(28, "3072"), whole);
        assert_eq!(said(200, "3072"), whole);
        let short = "  size  allocs     live\n  3072   15.8k  1.2 MiB\n";
        assert_eq!(said(27, "3072"), short);
        let one = "  size     live\n  3072  1.2 MiB\n  1 column more: a\n  wider terminal or |\n";
        let text = said(22, "3072");
        assert_eq!(text, format!("{one}  cat shows it\n"));
        let text = said(10, "3072");
        assert!(text.contains("\n  2\n  columns\n  more: a\n"), "{text}");
        assert!(text.lines().all(|line| length(line) <= 10), "{text}");
    }

    #[test]
    fn names_are_cut_on_a_terminal_alone() {
        let long = "a name of thirty-six characters, yes";
        assert!(said(0, long).contains(long));
        let text = said(40, long);
        let row = "  a name of thirt…        15.8k  1.2 MiB\n";
        assert!(text.ends_with(row), "{text}");
    }

    #[test]
    fn items_share_lines() {
        let items = ["aa", "bb", "toolong", "c"].map(str::to_owned);
        assert_eq!(flow(&items, 6, 1), ["aa   c"]);
        assert_eq!(flow(&items, 6, 2), ["aa", "bb   c"]);
    }
}
