//! The terminal that a text is printed on, if it is printed on one.

use std::env;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use terminal_size::terminal_size_of;

#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    /// In characters: `COLUMNS`, or else what the terminal says.
    pub width: usize,
    /// What a user adds to the command to get the text without a terminal.
    pub without: &'static str,
}

impl Terminal {
    /// None: standard output is no terminal, or its width is not known.
    pub fn of_stdout() -> Option<Self> {
        Self::of(io::stdout(), "| less -S")
    }

    /// The same for standard error.
    pub fn of_stderr() -> Option<Self> {
        Self::of(io::stderr(), "2>FILE")
    }

    fn of(output: impl AsFd + IsTerminal, without: &'static str) -> Option<Self> {
        let width = match columns() {
            Some(columns) if output.is_terminal() => columns,
            _ => terminal_size_of(output)?.0.0,
        };
        Some(Self {
            width: width.into(),
            without,
        })
    }
}

/// The width that the user wants: other programs obey the variable, too.
fn columns() -> Option<u16> {
    let columns = env::var("COLUMNS").ok()?.parse().ok()?;
    (columns > 0).then_some(columns)
}
