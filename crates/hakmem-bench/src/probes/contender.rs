//! One side of a comparison: an allocator that is built in, or a library that is preloaded.

use super::library::Library;
use super::under;
use crate::measure;
use crate::sample::Sample;
use std::io;
use std::process::Command;

/// One side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contender<'a> {
    /// Whatever this library serves as `malloc`.
    Preloaded(&'a Library),
    /// The built-in allocator of this name.
    BuiltIn(&'a str),
}

impl<'a> Contender<'a> {
    /// Its name in tables.
    pub fn name(&self) -> &'a str {
        match self {
            Self::Preloaded(library) => &library.name,
            Self::BuiltIn(name) => name,
        }
    }

    /// The command that runs a workload, or a part of a probe or curve, on it.
    pub fn command(&self, workload: &str, scale: &str) -> io::Result<Command> {
        match self {
            Self::Preloaded(library) => under::command(library, workload, scale),
            Self::BuiltIn(name) => measure::command(workload, name, scale),
        }
    }

    /// Runs a workload on it once.
    pub fn sample(&self, workload: &str, scale: &str, round: u32) -> Result<Sample, String> {
        let mut command = self.command(workload, scale).map_err(|e| e.to_string())?;
        let (line, finished) = measure::run(&mut command)?;
        Ok(measure::sample(line, &finished, self.name(), round))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::path::PathBuf;

    #[test]
    fn a_library_is_preloaded_under_the_program_of_the_systems_allocator() {
        let library = Library {
            name: "x".to_owned(),
            path: Some(PathBuf::from("/lib/x.so")),
        };
        let contender = Contender::Preloaded(&library);
        assert_eq!(
            (contender.name(), Contender::BuiltIn("y").name()),
            ("x", "y")
        );
        // Beside the tests there are no programs to run.
        if let Ok(command) = contender.command("json", "quick") {
            let preloaded = command.get_envs().find(|(name, _)| *name == "LD_PRELOAD");
            let path = preloaded.and_then(|(_, path)| path);
            assert_eq!(path, Some(OsStr::new("/lib/x.so")));
        }
    }
}
