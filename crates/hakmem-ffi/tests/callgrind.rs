//! The cost of malloc, calloc, posix_memalign and free, loop and PLT included, in instructions that
//! valgrind counts; so hakmem also runs under valgrind, where large reservations fail.

use crate::common;

use common::{Language, Link, compile, find_program, library};
use std::path::Path;
use std::process::Command;

/// The function, the size, blocks that the program keeps before, and the most instructions of a
/// pair, with some room for the lists that are walked by chance. Of malloc of 64 bytes mimalloc v3
/// takes 53, jemalloc and gperftools 77; of calloc with its memset 74, 144 and 123. The sixth block
/// of 40,000 bytes lies in a further slot of its page. Of blocks above 1 KiB the last one of a list
/// takes as many instructions as the others. In bursts of 10,000 bytes, frees find the list full: a
/// pair took 218 as each of them passed one block on.
const PAIRS: [(&str, u64, u64, f64); 8] = [
    ("malloc", 64, 0, 51.5),
    ("malloc", 3_000, 0, 74.5),
    ("malloc", 40_000, 0, 74.5),
    ("malloc", 40_000, 5, 74.5),
    ("malloc", 200_000, 0, 99.5),
    ("calloc", 64, 0, 76.0),
    ("memalign", 200, 0, 133.0),
    ("bursts", 10_000, 0, 125.0),
];

fn instructions(program: &Path, pairs: u64, function: &str, size: u64, kept: u64) -> u64 {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind");
    command.arg(format!(
        "--callgrind-out-file={}",
        directory.path().join("out").display()
    ));
    command
        .arg(program)
        .arg(pairs.to_string())
        .args([size.to_string(), kept.to_string()])
        .arg(function)
        .env("LD_PRELOAD", &library().shared);
    let output = common::run(&mut command);
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text
        .lines()
        .find_map(|line| line.split_once("Collected :"))
        .expect("a count");
    line.1.trim().parse().expect("a number")
}

#[test]
#[cfg_attr(feature = "hardened", ignore = "the figures are the default build's")]
fn a_pair_is_cheap() {
    if find_program("valgrind").is_none() {
        return;
    }
    let program = compile(Language::C, "pairs.c", Link::Plain);
    let (few, many) = (10_000, 110_000);
    for (function, size, kept, most) in PAIRS {
        let of = |pairs| instructions(&program, pairs, function, size, kept) as f64;
        let a_pair = (of(many) - of(few)) / (many - few) as f64;
        let what = format!("instructions a pair of {function} of {size} bytes behind {kept}");
        println!("{a_pair:.1} {what}");
        assert!(a_pair <= most, "{a_pair:.1} {what}, at most {most} allowed");
        assert!(
            a_pair >= 10.0,
            "{a_pair:.1} instructions a pair: the loop was not measured"
        );
    }
}
