//! `hakmem errors`: the reports of errors that a file has, with functions and lines.

use crate::checked::say;
use crate::lines::{length, words};
use crate::terminal::Terminal;
use crate::{grammar, output, symbols};
use clap::Args;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process;

/// Bytes of the file that are read.
const MOST: usize = 16 << 20;

pub const AFTER_HELP: &str = "\
FILE is what HAKMEM_ERRORS named for a program: there the frames of a stack are files and addresses. \
hakmem prints them as functions with file and line. The files have to be those that ran: look \
before you replace the program. One that the report names by a relative path is looked for from \
here.
Exit status: 0, or
  1    FILE cannot be read, or has no report
  2    wrong usage

Examples:
  hakmem errors /var/tmp/errors
  journalctl -u server | hakmem errors -";

#[derive(Args)]
pub struct Options {
    /// The file; - is standard input
    file: PathBuf,
}

pub fn errors(options: &Options) -> ! {
    match try_errors(&options.file) {
        Ok(()) => process::exit(0),
        Err(why) => {
            say(&why);
            process::exit(1)
        }
    }
}

fn try_errors(file: &Path) -> Result<(), String> {
    let name = file.display();
    let read = grammar::open(file).and_then(read);
    let (text, is_whole) = read.map_err(|e| format!("cannot read {name}: {e}"))?;
    if !text.lines().any(|line| line.contains("hakmem: ")) {
        return Err(format!("{name} has no report"));
    }
    let named = symbols::named(&text);
    let shown = match Terminal::of_stdout() {
        Some(terminal) => named
            .lines()
            .map(|line| fitted(line, terminal.width))
            .collect(),
        None => named,
    };
    output::show(shown.as_bytes())?;
    if !is_whole {
        say(&format!(
            "{name} is long: only its first {} MiB were read",
            MOST >> 20
        ));
    }
    Ok(())
}

/// Blanks before what does not fit in the line, where there is no room for more.
const INDENT: usize = 2;

/// A line of a report in a width. What does not fit goes on below what the line says: behind the
/// name of the allocator and the number of the frame.
fn fitted(line: &str, width: usize) -> String {
    if length(line) <= width {
        return format!("{line}\n");
    }
    let (start, said) = line.split_at(said_at(line));
    let (start, said, indent) = match length(start) * 2 <= width {
        true => (start, said, length(start)),
        // A journal has names and times there.
        false => ("", line, INDENT),
    };
    let lines = words(said, width.saturating_sub(indent));
    format!("{start}{}\n", lines.join(&format!("\n{:indent$}", "")))
}

/// Where a line begins to say something.
fn said_at(line: &str) -> usize {
    const NAME: &str = "hakmem: ";
    let blanks = |from: usize| line[from..].len() - line[from..].trim_start().len();
    let name = line.find(NAME).map_or(0, |at| at + NAME.len());
    let at = name + blanks(name);
    let number = line[at..]
        .strip_prefix('#')
        .and_then(|frame| frame.split_once(' '));
    match number {
        Some((digits, _)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            at + digits.len() + 2
        }
        _ => at,
    }
}

/// The text of the file, up to the last whole line within `MOST` bytes, and whether that is all.
fn read(from: impl Read) -> io::Result<(String, bool)> {
    let mut text = Vec::new();
    from.take(MOST as u64 + 1).read_to_end(&mut text)?;
    let is_whole = text.len() <= MOST;
    if !is_whole {
        let end = text.iter().rposition(|&byte| byte == b'\n');
        text.truncate(end.map_or(0, |end| end + 1));
    }
    Ok((String::from_utf8_lossy(&text).into_owned(), is_whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_on_below_what_they_say() {
        let line = "hakmem:     #12 a function (/a/long/name:12)";
        assert_eq!(fitted(line, 44), format!("{line}\n"));
        let broken = "hakmem:     #12 a function\n                (/a/long/name:12)\n";
        assert_eq!(fitted(line, 43), broken);
        assert_eq!(fitted(line, 32), broken, "a name is whole");
        let below = "hakmem: #12 a\n  function\n  (/a/long/name:12)\n";
        assert_eq!(fitted(line, 16), below);
        assert_eq!(
            fitted("             an inlined (b:1)", 26).lines().count(),
            2
        );
        assert_eq!(
            fitted("hakmem: Double Free at 0x7e", 20),
            "hakmem: Double Free\n        at 0x7e\n"
        );
    }
}
