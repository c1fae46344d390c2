//! One side of an A/B comparison: a program that runs hakmem, and options of hakmem.

use crate::child::{Capture, Finished, ending};
use crate::executables;
use crate::measure;
use crate::options::PREFIX;
use crate::pairs::SideRecord;
use crate::paths::Paths;
use crate::sample::{ChildLine, Sample};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What both sides measure.
const HAKMEM: &str = "hakmem";
/// The name of a side without options.
const DEFAULTS: &str = "defaults";

/// One option: `NAME=VALUE`, without the prefix of the environment's variables.
pub type Setting = String;

/// Parses `NAME=VALUE` or `HAKMEM_NAME=VALUE`. Whether there is such an option only hakmem knows.
pub fn setting(text: &str) -> Result<Setting, String> {
    let bare = text.strip_prefix(PREFIX).unwrap_or(text);
    let valid = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    match bare.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() && name.chars().all(valid) => {
            Ok(bare.to_owned())
        }
        _ => Err("an option is NAME=VALUE, such as DECAY_MS=0".to_owned()),
    }
}

/// One side.
#[derive(Debug, Clone)]
pub struct Side {
    /// Its name in tables and records.
    pub name: String,
    program: PathBuf,
    settings: Vec<Setting>,
}

impl Side {
    /// A side with these options; without a `program`, that of this build.
    pub fn new(program: Option<&Path>, settings: &[Setting]) -> io::Result<Self> {
        let mut settings = settings.to_vec();
        settings.sort();
        let names = settings.iter().map(|s| s.split('=').next());
        if let Some(twice) = names.clone().zip(names.skip(1)).find(|(a, b)| a == b) {
            let name = twice.0.unwrap_or_default();
            return Err(io::Error::other(format!(
                "{name} is given twice to one side"
            )));
        }
        let mut name = match settings.as_slice() {
            [] => DEFAULTS.to_owned(),
            settings => settings.join(","),
        };
        if let Some(program) = program {
            name = format!("{} {name}", Paths::here().portable(program));
        }
        let program = match program {
            None => executables::of(HAKMEM)?,
            Some(path) => path
                .canonicalize()
                .map_err(|e| io::Error::other(format!("{}: {e}", path.display())))?,
        };
        Ok(Self {
            name,
            program,
            settings,
        })
    }

    /// For the record.
    pub fn record(&self) -> SideRecord {
        SideRecord {
            name: self.name.clone(),
            options: self.settings.clone(),
            program: Paths::here().portable(&self.program),
        }
    }

    fn run(&self, workload: &str, scale: &str) -> Result<(ChildLine, Finished), String> {
        let mut command = Command::new(&self.program);
        measure::clean(&mut command);
        for setting in &self.settings {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            command.env(format!("{PREFIX}{name}"), value);
        }
        command.args(["run-one", workload, HAKMEM, "--scale", scale]);
        let captures = || Ok((Capture::new()?, Capture::new()?));
        let (output, errors) = captures().map_err(|e: io::Error| e.to_string())?;
        let finished = measure::run_into(&mut command, &output, &errors)?;
        let words = errors.text().map_err(|e| e.to_string())?;
        if !finished.status.success() {
            return Err(format!("{}: {}", ending(finished.status), words.trim()));
        }
        // hakmem says which options it does not take, and goes on without them.
        if !words.trim().is_empty() {
            return Err(words.trim().to_owned());
        }
        let line = measure::line(output)?;
        if line.options != self.settings {
            return Err("this program reads no options of hakmem".to_owned());
        }
        Ok((line, finished))
    }

    /// An error if this side cannot be measured: an option that hakmem does not take, a program of
    /// another kind.
    pub fn check(&self) -> io::Result<()> {
        let run = self.run("tiny_hot", "smoke");
        run.map_err(|what| io::Error::other(format!("{}: {what}", self.name)))?;
        Ok(())
    }

    /// Runs a workload once.
    pub fn sample(&self, workload: &str, scale: &str, round: u32) -> Result<Sample, String> {
        let (line, finished) = self.run(workload, scale)?;
        Ok(measure::sample(line, &finished, &self.name, round))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_names_and_values_with_or_without_the_prefix() {
        assert_eq!(setting("DECAY_MS=0"), Ok("DECAY_MS=0".to_owned()));
        assert_eq!(
            setting("HAKMEM_FOREIGN=leak"),
            Ok("FOREIGN=leak".to_owned())
        );
        for bad in ["", "DECAY_MS", "DECAY_MS=", "=0", "decay=1", "A B=1"] {
            assert!(setting(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_option_has_one_value_on_a_side() {
        let twice = ["A=1".to_owned(), "B=2".to_owned(), "A=2".to_owned()];
        let program = Some(Path::new("/proc/self/exe"));
        let error = Side::new(program, &twice).expect_err("A has two values");
        assert!(error.to_string().contains("A is given twice"), "{error}");
        let side = Side::new(program, &twice[..2]).expect("two options");
        assert!(side.name.ends_with(" A=1,B=2"), "{}", side.name);
    }
}
