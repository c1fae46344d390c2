//! The command line: `--work DIR [--test=NAME]… [--missed | --go-on | --page] [--every N] [MODULE…]`.

use std::path::PathBuf;

pub struct Args {
    /// Has the list of mutants, and gets the copy of the sources and the results.
    pub work: PathBuf,
    /// Test programs, besides the unit tests.
    pub tests: Vec<String>,
    /// Only those that are not known to be caught.
    pub missed: bool,
    /// With the build of the run before, whose sources were the same.
    pub go_on: bool,
    /// Only one in so many.
    pub every: usize,
    /// Nothing is tried, only the page is written.
    pub page_only: bool,
    /// Files below the crate's `src`, or how their names begin. None: all.
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
                test if test.starts_with("--test=") => args.tests.push(test["--test=".len()..].to_owned()),
                "--missed" => args.missed = true,
                "--go-on" => (args.missed, args.go_on) = (true, true),
                "--every" => {
                    let every = words.next().and_then(|n| n.parse().ok()).filter(|&n| n > 0);
                    args.every = every.ok_or("--every needs a number above 0")?;
                }
                "--page" => args.page_only = true,
                option if option.starts_with('-') => return Err(format!("there is no option {option}")),
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
        if self.modules.is_empty() { Some(0) } else { self.modules.iter().position(|m| module.starts_with(m)) }
    }
}
