//! What `?` opens: the keys, and what each figure and column means.

use super::tables::{CALLS, CLASSES, HEAPS, PROGRAMS};
use crate::columns::Column;
use crate::lines::wrap;

/// Of the names at the left, where lines are wide enough for two columns.
const NAMES: usize = 18;

const KEYS: [(&str, &str); 9] = [
    ("?", "opens and closes this help"),
    (
        "q Esc",
        "leaves; a program that was started goes on, and is waited for",
    ),
    (
        "Ctrl-C",
        "leaves, and interrupts a program that was started",
    ),
    ("Tab", "the next table"),
    ("s", "the next order of the classes"),
    ("↑ ↓ PgUp PgDn", "scroll"),
    ("Home End", "the first row, the last"),
    ("p", "pauses, and goes on"),
    ("+ -", "fewer readings, more readings"),
];

const UNITS: [(&str, &str); 3] = [
    (
        "k M G T",
        "thousands, millions, and so on: 2.02M is 2,020,000, to the digits shown",
    ),
    ("KiB MiB GiB", "1,024 bytes, 1,024 KiB, 1,024 MiB"),
    (
        "-",
        "nothing to compare with yet, or nothing to be a part of",
    ),
];

const FIGURES: [(&str, &str); 18] = [
    ("live", "bytes of all blocks that the program has"),
    (
        "peak at most",
        "an upper bound of the most that were ever live",
    ),
    (
        "resident",
        "bytes of the allocator's memory that are in memory",
    ),
    ("process", "bytes of the whole process that are in memory"),
    ("committed", "bytes of the allocator that may be used"),
    ("free, kept", "free bytes that the system has not got back"),
    ("huge pages", "bytes for which huge pages were asked"),
    ("given back", "bytes that the system got back, in all"),
    (
        "hard limit",
        "the most that the program may hold, and requests that it refused",
    ),
    ("allocations", "blocks allocated"),
    ("frees", "blocks freed"),
    ("refills", "allocations that found the thread's list empty"),
    (
        "served by a list",
        "the part of allocations up to 64 KiB that a list served",
    ),
    (
        "freed by others",
        "blocks freed by a thread that does not own their page",
    ),
    ("large blocks", "blocks over 64 KiB, up to 1 MiB"),
    ("huge", "blocks over 1 MiB"),
    ("system calls", "calls that the allocator made"),
    (
        "curves",
        "the newest reading is the last on the right; the label has the range and the time",
    ),
];

/// Its lines.
pub fn lines(width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut part = |title: &str, rows: &[(&str, &str)]| {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(wrap(title, width, 0));
        for &(name, means) in rows {
            if width >= 2 * NAMES + 4 {
                let means = wrap(means, width - NAMES - 4, 0);
                for (i, line) in means.iter().enumerate() {
                    let name = if i == 0 { name } else { "" };
                    lines.push(format!("  {name:<NAMES$}  {line}"));
                }
            } else {
                lines.extend(wrap(&format!("{name}: {means}"), width, 2));
            }
        }
    };
    part("KEYS", &KEYS);
    part("NUMBERS", &UNITS);
    part("FIGURES", &FIGURES);
    for (title, columns) in [
        ("TABLE OF CLASSES", &CLASSES[..]),
        ("TABLE OF HEAPS", &HEAPS),
        ("TABLE OF THE PROGRAM'S HEAPS", &PROGRAMS),
        ("TABLE OF SYSTEM CALLS", &CALLS),
    ] {
        let name = |c: &Column| match c.head == c.short {
            true => c.head.to_owned(),
            false => format!("{}, {}", c.head, c.short),
        };
        let names: Vec<_> = columns.iter().map(name).collect();
        let rows = names
            .iter()
            .map(String::as_str)
            .zip(columns.iter().map(|c| c.means));
        part(title, &rows.collect::<Vec<_>>());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::length;

    #[test]
    fn it_fits_every_width_and_loses_no_word() {
        let words = |width| {
            let lines = lines(width);
            assert!(lines.iter().all(|line| length(line) <= width), "{lines:?}");
            lines.join(" ").split_whitespace().count()
        };
        assert_eq!(words(200), words(80));
        // Names end in a colon there.
        assert_eq!(words(30), words(80));
    }
}
