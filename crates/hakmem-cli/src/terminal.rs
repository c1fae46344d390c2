//! The terminal that a text is printed on, if it is printed on one.

use std::io;
use std::os::fd::AsFd;
use terminal_size::{Width, terminal_size_of};

#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    /// In characters.
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

    fn of(output: impl AsFd, without: &'static str) -> Option<Self> {
        let (Width(width), _) = terminal_size_of(output)?;
        Some(Self {
            width: width.into(),
            without,
        })
    }
}
