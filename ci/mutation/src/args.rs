//! Reads the command line:
//! `--work DIR [--test=NAME]… [--missed | --go-on | --page] [--every N] [MODULE…]`.

use std::path::PathBuf;

pub struct Args {
    /// The folder with the list of mutants. The copy of the sources and the results go there too.
    pub work: PathBuf,
    /// Test programs to run besides the unit tests.
    pub tests: Vec<String>,
    /// True: tries only mutants that no run has caught yet.
    pub missed: bool,
    /// True: uses the build of the run before, which had the same sources.
    pub go_on: bool,
    /// Tries one mutant in so many.
    pub every: usize,
    /// True: tries no mutant, and only writes the page.
    pub page_only: bool,
    /// Files below the crate's `src`, or beginnings of their names. Empty: all files.
    pub modules: Vec<String>,
}

impl Args {
    pub fn from(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut args = Self {
            work: PathBuf::new(),
            tests: vec![],
            missed: false,
            go_on: false,
            every: 1,
            page_only: false,
            modules: vec![],
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--work" => args.work = words.next().ok_or("--work needs a folder")?.into(),
                test if test.starts_with("--test=") => {
                    args.tests.push(test["--test=".len()..].to_owned())
                }
                "--missed" => args.missed = true,
                "--go-on" => (args.missed, args.go_on) = (true, true),
                "--every" => {
                    let every = words.next().and_then(|n| n.parse().ok()).filter(|&n| n > 0);
                    args.every = every.ok_or("--every needs a number above 0")?;
                }
                "--page" => args.page_only = true,
                option if option.starts_with('-') => {
                    return Err(format!("there is no option {option}"));
                }
                module => args.modules.push(module.to_owned()),
            }
        }
        if args.work.as_os_str().is_empty() {
            return Err("--work is missing".to_owned());
        }
        Ok(args)
    }

    /// Where a module stands in the order of the command line. None: it is not wanted.
    pub fn place_of(&self, module: &str) -> Option<usize> {
        if self.modules.is_empty() {
            Some(0)
        } else {
            self.modules.iter().position(|m| module.starts_with(m))
        }
    }
}
