//! The mutants, as `cargo mutants --list --json` names them.

use serde::Deserialize;

/// A place in a source file: line and column from 1, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
pub struct Span {
    pub start: Place,
    pub end: Place,
}

/// What is changed in the source.
#[derive(Debug, Clone, Deserialize)]
pub struct Mutant {
    pub file: String,
    pub genre: String,
    pub name: String,
    pub replacement: String,
    pub span: Span,
}

impl Mutant {
    /// The file's name below the crate's `src`.
    pub fn module(&self) -> &str {
        self.file.split_once("src/").map_or(&self.file, |(_, module)| module)
    }

    /// The name without the place: it stays the same when lines move.
    pub fn what(&self) -> String {
        let what = self.name.splitn(4, ':').last().unwrap_or_default().trim();
        format!("{}: {what}", self.module())
    }
}
