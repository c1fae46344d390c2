//! The outcome of each mutant. A file gets each outcome at once. So a run can continue where
//! another one ended.

use crate::list::Mutant;
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The compiler refuses the mutant.
    Refused,
    /// This test failed.
    Caught(String),
    /// This test did not end.
    TimedOut(String),
    /// No test runs the code that the mutant changes.
    Unreached,
    /// All tests passed.
    Missed,
}

impl Outcome {
    pub fn is_missed(&self) -> bool {
        matches!(self, Outcome::Unreached | Outcome::Missed)
    }
    fn parse(text: &str) -> Option<Self> {
        Some(match text.split_once(" by ").unwrap_or((text, "")) {
            ("refused", _) => Outcome::Refused,
            ("caught", test) => Outcome::Caught(test.to_owned()),
            ("timed out", test) => Outcome::TimedOut(test.to_owned()),
            ("unreached", _) => Outcome::Unreached,
            ("missed", _) => Outcome::Missed,
            _ => return None,
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Refused => write!(f, "refused"),
            Outcome::Caught(test) => write!(f, "caught by {test}"),
            Outcome::TimedOut(test) => write!(f, "timed out by {test}"),
            Outcome::Unreached => write!(f, "unreached"),
            Outcome::Missed => write!(f, "missed"),
        }
    }
}

pub struct Results {
    known: HashMap<String, Outcome>,
    file: File,
}

impl Results {
    /// Later lines replace earlier ones.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        let text = if path.exists() { fs::read_to_string(&path)? } else { String::new() };
        let line = |line: &str| {
            let (outcome, id) = line.split_once('\t')?;
            Some((id.to_owned(), Outcome::parse(outcome)?))
        };
        let known = text.lines().filter_map(line).collect();
        Ok(Self { known, file: OpenOptions::new().create(true).append(true).open(path)? })
    }

    pub fn of(&self, mutant: &Mutant) -> Option<&Outcome> {
        self.known.get(&mutant.id)
    }

    pub fn note(&mut self, mutant: &Mutant, outcome: Outcome) -> io::Result<()> {
        writeln!(self.file, "{outcome}\t{}", mutant.id)?;
        self.known.insert(mutant.id.clone(), outcome);
        Ok(())
    }
}
