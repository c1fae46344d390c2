//! Makes a copy of the core, weaves mutants into it, and builds it.

use crate::list::{Mutant, module_of};
use crate::weave::{self, weave};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{fs, io};

/// Test programs by their names. `hakmem_core` has the unit tests.
pub type Programs = BTreeMap<String, PathBuf>;

/// A copy of the sources, and their text without mutants.
pub struct Copy {
    folder: PathBuf,
    /// The text of the files that get mutants.
    originals: BTreeMap<String, String>,
    /// Test programs to build besides the unit tests.
    tests: Vec<String>,
}

const LIB: &str = "crates/hakmem-core/src/lib.rs";

/// Files and their text.
type Texts<'a> = Vec<(&'a str, String)>;

/// A build with all mutants that can be switched on.
pub struct Woven {
    pub numbers: HashSet<usize>,
    /// The compiler does not take them.
    pub refused: HashSet<usize>,
    pub programs: Programs,
}

/// Weaves `mutants` in, without those that the compiler complains about, until it does not.
pub fn all(copy: &Copy, mutants: &BTreeMap<usize, Mutant>) -> io::Result<Woven> {
    let mut refused = HashSet::new();
    loop {
        let numbers = copy.write(mutants, &refused)?;
        let errors = match copy.compile(&copy.tests)? {
            Ok(programs) => return Ok(Woven { numbers, refused, programs }),
            Err(errors) => errors,
        };
        let before = refused.len();
        refused.extend(errors.iter().flat_map(|error| copy.mutants_at(error)));
        eprintln!("{} do not compile", refused.len());
        if refused.len() == before {
            let text: Vec<_> = errors.iter().filter_map(|e| e["rendered"].as_str()).collect();
            return Err(io::Error::other(text.join("\n")));
        }
    }
}

/// What [`all`] built before, of the same sources.
pub fn of_before(copy: &Copy, mutants: &BTreeMap<usize, Mutant>) -> io::Result<Woven> {
    let (_, all) = copy.woven(mutants, &HashSet::new())?;
    let mut numbers = HashSet::new();
    for file in copy.originals.keys() {
        let text = fs::read_to_string(copy.folder.join(file))?;
        let after = text.split("woven::on(").skip(1).filter_map(|rest| rest.split_once(')'));
        numbers.extend(after.filter_map(|(number, _)| number.parse::<usize>().ok()));
    }
    let refused = all.difference(&numbers).copied().collect();
    let errors = |_| io::Error::other("the build of the run before is gone");
    Ok(Woven { numbers, refused, programs: copy.compile(&copy.tests)?.map_err(errors)? })
}

/// Builds one mutant, as it is, and of the tests the unit tests, or all. None: the compiler does
/// not take it.
pub fn alone(copy: &Copy, mutant: &Mutant, all_tests: bool) -> io::Result<Option<Programs>> {
    let woven = copy.folder.join(&mutant.file);
    let before = fs::read_to_string(&woven)?;
    fs::write(&woven, weave::plainly(&copy.originals[&mutant.file], mutant))?;
    let compiled = copy.compile(if all_tests { &copy.tests } else { &[] });
    fs::write(&woven, before)?;
    Ok(compiled?.ok())
}

impl Copy {
    /// `folder` is a copy of the sources here, which the mutants are of.
    pub fn new(
        folder: PathBuf,
        mutants: &BTreeMap<usize, Mutant>,
        tests: Vec<String>,
    ) -> io::Result<Self> {
        let mut originals = BTreeMap::new();
        for file in mutants.values().map(|m| m.file.as_str()).chain([LIB]) {
            if !originals.contains_key(file) {
                originals.insert(file.to_owned(), fs::read_to_string(file)?);
            }
        }
        Ok(Self { folder, originals, tests })
    }

    /// The sources with all but `left_out`, and the numbers of those that are in them.
    fn woven(
        &self,
        mutants: &BTreeMap<usize, Mutant>,
        left_out: &HashSet<usize>,
    ) -> io::Result<(Texts<'_>, HashSet<usize>)> {
        let mut files: BTreeMap<&str, BTreeMap<usize, &Mutant>> = BTreeMap::new();
        for (&number, mutant) in mutants {
            let file = self.originals.get_key_value(&mutant.file).expect("all were read").0;
            let file = files.entry(file).or_default();
            if !left_out.contains(&number) {
                file.insert(number, mutant);
            }
        }
        let (mut texts, mut all) = (Vec::new(), HashSet::new());
        for (file, mutants) in files {
            let woven = weave(module_of(file), &self.originals[file], &mutants);
            let woven = woven.map_err(|e| io::Error::other(format!("{file}: {e}")))?;
            all.extend(woven.numbers);
            texts.push((file, woven.text));
        }
        Ok((texts, all))
    }

    /// Writes these sources. Returns the numbers.
    fn write(
        &self,
        mutants: &BTreeMap<usize, Mutant>,
        left_out: &HashSet<usize>,
    ) -> io::Result<HashSet<usize>> {
        let (texts, all) = self.woven(mutants, left_out)?;
        for (file, text) in texts {
            fs::write(self.folder.join(file), text)?;
        }
        fs::write(self.folder.join(LIB), format!("{}\nmod woven;\n", self.originals[LIB]))?;
        // Number 0 is none of them.
        let most = mutants.keys().max().map_or(1, |last| last + 1);
        let support = include_str!("woven.rs.in")
            .replace("MOST: usize = 0", &format!("MOST: usize = {most}"));
        fs::write(self.folder.join("crates/hakmem-core/src/woven.rs"), support)?;
        Ok(all)
    }

    /// The test programs, or what the compiler says is wrong.
    fn compile(&self, tests: &[String]) -> io::Result<Result<Programs, Vec<Value>>> {
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "-p", "hakmem-core", "--no-run", "--message-format=json", "--lib"]);
        cargo.args(tests.iter().flat_map(|t| ["--test", t]));
        cargo
            .env("CARGO_PROFILE_TEST_DEBUG", "0")
            .env("CARGO_INCREMENTAL", "0")
            .env("RUSTFLAGS", "-Awarnings");
        cargo.current_dir(&self.folder).stdout(Stdio::piped()).stderr(Stdio::null());
        let output = cargo.output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let messages: Vec<Value> =
            text.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
        let with = |reason: &'static str| messages.iter().filter(move |m| m["reason"] == reason);
        if !output.status.success() {
            let all = with("compiler-message").map(|m| &m["message"]);
            return Ok(Err(all.filter(|m| m["level"] == "error").cloned().collect()));
        }
        let program = |m: &Value| {
            Some((m["target"]["name"].as_str()?.to_owned(), m["executable"].as_str()?.into()))
        };
        Ok(Ok(with("compiler-artifact")
            .filter(|m| m["profile"]["test"] == true)
            .filter_map(program)
            .collect()))
    }

    /// The mutants that an error of the compiler is about, or at least mentions.
    fn mutants_at(&self, error: &Value) -> Vec<usize> {
        let place = |span: &&Value| {
            let text = fs::read_to_string(self.folder.join(span["file_name"].as_str()?)).ok()?;
            weave::mutant_at(&text, span["byte_start"].as_u64()? as usize)
        };
        let spans = || error["spans"].as_array().into_iter().flatten();
        let about: Vec<_> =
            spans().filter(|s| s["is_primary"] == true).filter_map(|s| place(&s)).collect();
        if about.is_empty() { spans().filter_map(|s| place(&s)).collect() } else { about }
    }
}
