//! The files that a program under `hakmem run` reports to.

use crate::checked::{self, say};
use crate::scratch::Scratch;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

/// The largest report of errors that is read, in bytes.
const ERRORS: u64 = 1 << 20;

pub struct Reports {
    scratch: Scratch,
    pub figures: PathBuf,
    pub errors: PathBuf,
    pub profile: PathBuf,
}

impl Reports {
    /// The error is for the user to read.
    pub fn new() -> Result<Self, String> {
        let scratch = Scratch::new()?;
        Ok(Self {
            figures: scratch.file("report")?,
            errors: scratch.file("errors")?,
            profile: scratch.file("profile")?,
            scratch,
        })
    }

    pub fn folder(&self) -> &Path {
        self.scratch.folder()
    }

    /// What the library has reported. The program, which knows where, may have put something else
    /// there.
    pub fn lines(&self) -> Box<dyn BufRead> {
        match checked::open(&self.figures) {
            Ok(file) => Box::new(BufReader::new(file)),
            Err(e) => {
                say(&format!("cannot read the library's report: {e}"));
                Box::new(io::empty())
            }
        }
    }

    /// What the library said of the program's errors, if it has stacks.
    pub fn stacks(&self) -> Option<String> {
        let text = checked::start(&self.errors, ERRORS).ok()?;
        let text = String::from_utf8_lossy(&text).into_owned();
        text.contains("    #").then_some(text)
    }

    /// Leaves the files to the processes that go on.
    pub fn keep(self) {
        self.scratch.keep();
    }

    pub fn close(self) {
        if let Err(why) = self.scratch.close() {
            say(&why);
        }
    }
}
