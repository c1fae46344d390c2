//! The fuzzer's seeds, one after the other, without the fuzzer: what it found once stays mended.
//!
//! Each target in a process of its own, this program again: the misuses are made by children that
//! have never allocated from hakmem.

use crate::{common, misuse, oracle, sequence};

use crate::library::Library;
use crate::ops::{Knobs, Step};
use arbitrary::{Arbitrary, Unstructured};
use std::path::{Path, PathBuf};
use std::process::Command;

/// In a process that replays: which target's.
const TARGET: &str = "TEST_HAKMEM_SEEDS";
/// And the library that it loads.
const LIBRARY: &str = "TEST_HAKMEM_LIBRARY";

/// The seeds of a target, by name.
fn seeds(target: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let files = std::fs::read_dir(directory.join(target)).expect("a directory of seeds");
    let mut seeds: Vec<_> = files.map(|f| f.expect("a seed").path()).collect();
    seeds.sort();
    seeds
}

/// Runs `f` with the input of each seed, as the fuzzer makes it of the bytes.
fn replay<T: for<'a> Arbitrary<'a>>(target: &str, f: impl Fn(T)) {
    for seed in seeds(target) {
        println!("{}", seed.display());
        let bytes = std::fs::read(&seed).expect("a seed");
        if let Ok(input) = T::arbitrary_take_rest(Unstructured::new(&bytes)) {
            f(input);
        }
    }
}

#[test]
fn replayed_here() {
    let Ok(target) = std::env::var(TARGET) else {
        return; // The tests below have processes made for it.
    };
    match target.as_str() {
        "misuse" => replay("misuse", |input: misuse::Input| misuse::run(&input)),
        "ops_rust" => replay("ops_rust", |(knobs, steps): (Knobs, Vec<Step>)| {
            knobs.set();
            sequence::run(oracle::Rust, &steps);
        }),
        _ => {
            let path = std::env::var(LIBRARY).expect("a library");
            let library = Library::get(&path);
            replay("ops_c", |steps: Vec<Step>| sequence::run(library, &steps));
        }
    }
}

#[track_caller]
fn has_replayed(target: &str) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", "seeds::replayed_here", "--nocapture"])
        .env(TARGET, target)
        .env(LIBRARY, &common::library().shared);
    let output = command.output().expect("this program runs");
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    for seed in seeds(target) {
        assert!(out.contains(&*seed.to_string_lossy()), "{}", seed.display());
    }
}

#[test]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn errors_of_the_program() {
    has_replayed("misuse");
}

#[test]
fn operations_through_rust() {
    has_replayed("ops_rust");
}

#[test]
fn operations_through_c() {
    has_replayed("ops_c");
}
