//! Builds a copy of the core with all mutants in it, leaving out those that do not compile.

use crate::list::Mutant;
use crate::weave::weave;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

/// How each mutant fared in the weaving.
pub struct Built {
    pub woven: HashSet<usize>,
    /// The compiler refuses them.
    pub refused: HashSet<usize>,
    pub tests: Vec<PathBuf>,
}

/// The number of the mutant whose text byte `at` lies in.
fn mutant_at(text: &str, at: usize) -> Option<usize> {
    let start = text[..at].rfind("/*M")?;
    let number = text[start + 3..].split_once("*/")?.0;
    let end = start + text[start..].find(&format!("/*m{number}*/"))?;
    (at < end).then(|| number.parse().ok())?
}

/// Weaves `mutants` into the sources of `from` and writes them to the copy `to`, until it compiles.
pub fn build(from: &Path, to: &Path, mutants: &BTreeMap<usize, Mutant>, under: &[String], tests: &[String]) -> io::Result<Built> {
    let mut refused = HashSet::new();
    for _ in 0..20 {
        let woven = write(from, to, mutants, &refused)?;
        let mut args = vec!["test", "-p", "hakmem-core", "--no-run", "--message-format=json", "--lib"];
        args.extend(tests.iter().flat_map(|t| ["--test", t]));
        let lines = cargo(to, under, &args)?;
        let messages: Vec<Value> = lines.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
        let before = refused.len();
        let mut unplaced = Vec::new();
        let errors = messages.iter().filter(|m| m["reason"] == "compiler-message" && m["message"]["level"] == "error");
        let mut failed = false;
        for error in errors {
            failed = true;
            let spans = error["message"]["spans"].as_array().into_iter().flatten();
            let found: Vec<usize> = spans
                .filter_map(|span| {
                    let text = fs::read_to_string(to.join(span["file_name"].as_str()?)).ok()?;
                    mutant_at(&text, span["byte_start"].as_u64()? as usize)
                })
                .collect();
            if found.is_empty() {
                unplaced.push(error["message"]["rendered"].as_str().unwrap_or_default().to_owned());
            }
            refused.extend(found);
        }
        if !failed {
            let tests = messages
                .iter()
                .filter(|m| m["reason"] == "compiler-artifact" && m["profile"]["test"] == true)
                .filter_map(|m| m["executable"].as_str().map(PathBuf::from))
                .collect();
            return Ok(Built { woven: woven.difference(&refused).copied().collect(), refused, tests });
        }
        eprintln!("{} do not compile", refused.len());
        if refused.len() == before {
            return Err(io::Error::other(unplaced.join("\n")));
        }
    }
    Err(io::Error::other("it does not come to compile"))
}

fn cargo(at: &Path, under: &[String], args: &[&str]) -> io::Result<String> {
    let mut words = under.iter().map(String::as_str).chain(["cargo"]).chain(args.iter().copied());
    let mut command = Command::new(words.next().unwrap_or("cargo"));
    command.args(words).current_dir(at).stdout(Stdio::piped()).stderr(Stdio::null());
    for (name, value) in
        [("CARGO_PROFILE_TEST_DEBUG", "0"), ("CARGO_INCREMENTAL", "0"), ("RUSTFLAGS", "-Awarnings")]
    {
        command.env(name, value);
    }
    Ok(String::from_utf8_lossy(&command.output()?.stdout).into_owned())
}

fn write(from: &Path, to: &Path, mutants: &BTreeMap<usize, Mutant>, left_out: &HashSet<usize>) -> io::Result<HashSet<usize>> {
    let mut files: BTreeMap<&str, BTreeMap<usize, &Mutant>> = BTreeMap::new();
    for (&number, mutant) in mutants {
        files.entry(&mutant.file).or_default().insert(number, mutant);
    }
    let mut all = HashSet::new();
    for (file, mutants) in files {
        let text = fs::read_to_string(from.join(file))?;
        let woven = weave(&text, &mutants, left_out).map_err(|e| io::Error::other(format!("{file}: {e}")))?;
        all.extend(woven.woven);
        fs::write(to.join(file), woven.text)?;
    }
    let lib = "crates/hakmem-core/src/lib.rs";
    fs::write(to.join(lib), fs::read_to_string(from.join(lib))? + "\n#[doc(hidden)]\npub mod mutant;\n")?;
    fs::write(to.join("crates/hakmem-core/src/mutant.rs"), include_str!("switch.rs.in"))?;
    Ok(all)
}
