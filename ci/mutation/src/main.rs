//! Mutation testing of the core: `ci/mutants` says how it is run.
//!
//! cargo-mutants says what the mutants are. It would build the crate for each of them; here all are woven into one build
//! (`weave`), and each is switched on for a run of the tests that reach it, quickest first, until one fails.

mod built;
mod list;
mod test;
mod weave;

use list::Mutant;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};
use test::{Outcome, Test};

struct Args {
    list: PathBuf,
    from: PathBuf,
    copy: PathBuf,
    results: PathBuf,
    tests: Vec<String>,
    modules: Vec<String>,
    under: Vec<String>,
    /// Those that were not caught are tried again.
    again: bool,
}

fn args() -> Args {
    let mut named: HashMap<String, String> = HashMap::new();
    let mut args = env::args().skip(1);
    while let Some(name) = args.next() {
        named.insert(name, args.next().unwrap_or_default());
    }
    let path = |name: &str| PathBuf::from(named.get(name).unwrap_or_else(|| panic!("{name} is missing")));
    let words = |name: &str| named.get(name).map_or(vec![], |v| v.split_whitespace().map(str::to_owned).collect());
    Args {
        list: path("--list"),
        from: path("--from"),
        copy: path("--copy"),
        results: path("--results"),
        tests: words("--tests"),
        modules: words("--modules"),
        under: words("--under"),
        again: named.contains_key("--again"),
    }
}

fn main() -> io::Result<()> {
    let args = args();
    let all: Vec<Mutant> = serde_json::from_str(&fs::read_to_string(&args.list)?).map_err(io::Error::other)?;
    let mutants: BTreeMap<usize, Mutant> = (1..).zip(all).filter(|(_, m)| !m.name.contains(" tests::") && m.module() != "sync.rs" && !m.module().starts_with("os/")).collect();
    let built = built::build(&args.from, &args.copy, &mutants, &args.under, &args.tests)?;
    eprintln!(
        "{} mutants: {} woven, {} do not compile, {} are decided at compile time",
        mutants.len(),
        built.woven.len(),
        built.refused.len(),
        mutants.len() - built.woven.len() - built.refused.len()
    );
    let mut tests = measure(&built.tests, &args.under)?;

    let mut known: HashMap<String, String> = HashMap::new();
    for line in fs::read_to_string(&args.results).unwrap_or_default().lines() {
        if let Some((outcome, rest)) = line.split_once('\t') {
            known.insert(rest.split('\t').next().unwrap_or_default().to_owned(), outcome.to_owned());
        }
    }
    let mut out = fs::OpenOptions::new().create(true).append(true).open(&args.results)?;
    for file in &args.modules {
        let mut caught = 0;
        let mut tried = 0;
        for (&number, mutant) in mutants.iter().filter(|(_, m)| m.module() == file) {
            let outcome = if built.refused.contains(&number) {
                "refused".to_owned()
            } else if !built.woven.contains(&number) {
                "constant".to_owned()
            } else {
                match known.get(&mutant.name).filter(|o| !args.again || o.starts_with("caught")) {
                    Some(_) => continue,
                    None => one(number, &mut tests, &args.under),
                }
            };
            tried += 1;
            caught += usize::from(outcome.starts_with("caught"));
            if known.get(&mutant.name) != Some(&outcome) {
                writeln!(out, "{outcome}\t{}\t{}", mutant.name, mutant.what())?;
            }
        }
        eprintln!("{file}: {caught} of {tried}");
    }
    Ok(())
}

/// Tries a mutant by the tests that reach it.
fn one(number: usize, tests: &mut [Test], under: &[String]) -> String {
    let mut reaching: Vec<&mut Test> = tests.iter_mut().filter(|t| t.reached[number]).collect();
    reaching.sort_by(|a, b| b.worth().total_cmp(&a.worth()));
    let outcome = if reaching.is_empty() { "unreached" } else { "survived" };
    for test in reaching {
        let (how, _) = test.run(number, under, None);
        test.tried += 1;
        if how != Outcome::Passed {
            test.caught += 1;
            return format!("caught {how:?} by {}", test.name);
        }
    }
    outcome.to_owned()
}

/// Runs every test once: it must pass without a mutant.
fn measure(programs: &[PathBuf], under: &[String]) -> io::Result<Vec<Test>> {
    let mut tests = Vec::new();
    let file = env::temp_dir().join(format!("reached-{}", std::process::id()));
    for program in programs {
        for name in test::names(program) {
            let _ = fs::remove_file(&file);
            let mut test = Test { program: program.clone(), name, seconds: 0.0, reached: Vec::new(), tried: 0, caught: 0 };
            let (outcome, seconds) = test.run(0, under, Some(Path::new(&file)));
            if outcome != Outcome::Passed {
                return Err(io::Error::other(format!("{} fails without a mutant", test.name)));
            }
            test.seconds = seconds;
            test.reached = fs::read(&file)?.iter().map(|&b| b != 0).collect();
            eprintln!("{seconds:6.2} s, {:4} reached: {}", test.reached.iter().filter(|&&r| r).count(), test.name);
            tests.push(test);
        }
    }
    let _ = fs::remove_file(&file);
    Ok(tests)
}
