//! Reads the list of mutants that `cargo mutants --list --json` prints.

use crate::gated::Gated;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::{fs, io};

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

/// A change of the source.
#[derive(Debug, Clone, Deserialize)]
pub struct Mutant {
    pub file: String,
    pub genre: String,
    pub name: String,
    pub replacement: String,
    pub span: Span,
    /// What `name` says without the line, which another change would move. Alike ones of a function
    /// are counted.
    #[serde(skip)]
    pub id: String,
}

impl Mutant {
    /// The file's name below the crate's `src`.
    pub fn module(&self) -> &str {
        module_of(&self.file)
    }
}

/// A file's name below the crate's `src`.
pub fn module_of(file: &str) -> &str {
    file.split_once("src/").map_or(file, |(_, module)| module)
}

/// Files whose mutants say nothing about the tests: this build does not have them, or only tests
/// use them.
const LEFT_OUT: [&str; 10] = [
    "api/hardened",
    "base/sync",
    "harden/",
    "model.rs",
    "testing",
    "os/checked.rs",
    "os/faults.rs",
    "os/interpreted.rs",
    "os/joined.rs",
    "os/scheduled.rs",
];

/// The mutants by their numbers, which begin with 1.
pub fn read(path: &Path) -> io::Result<BTreeMap<usize, Mutant>> {
    let mut all: Vec<Mutant> =
        serde_json::from_str(&fs::read_to_string(path)?).map_err(io::Error::other)?;
    all.retain(|m| {
        !m.name.contains(" tests::")
            && !["/tests.rs", "/tests/"].iter().any(|tests| m.file.contains(tests))
            && !LEFT_OUT.iter().any(|module| m.module().starts_with(module))
    });
    let mut gated = Gated::default();
    let mut here = Vec::new();
    for mutant in all {
        if !gated.has(&mutant.file, mutant.span.start.line)? {
            here.push(mutant);
        }
    }
    let mut all = here;
    let mut alike: HashMap<String, u32> = HashMap::new();
    for mutant in &mut all {
        // FILE:LINE:COLUMN: what
        let what = mutant.name.splitn(4, ':').last().unwrap_or_default().trim();
        let id = format!("{}: {what}", mutant.module());
        let count = alike.entry(id.clone()).or_default();
        *count += 1;
        mutant.id = if *count == 1 { id } else { format!("{id} ({count})") };
    }
    Ok((1..).zip(all).collect())
}
