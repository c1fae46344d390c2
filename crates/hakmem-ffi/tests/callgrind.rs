//! The cost of malloc(64) and free, loop and PLT included, in instructions that valgrind counts; so
//! hakmem also runs under valgrind, where large reservations fail.

use crate::common;

use common::{Language, Link, compile, find_program, library};
use std::path::Path;
use std::process::Command;

/// With some room for the lists that are walked by chance. mimalloc v3 takes 53, jemalloc and
/// gperftools 77.
const MOST: f64 = 45.5;

fn instructions(program: &Path, pairs: u64) -> u64 {
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
    let difference = instructions(&program, many) - instructions(&program, few);
    let a_pair = difference as f64 / (many - few) as f64;
    println!("{a_pair:.1} instructions a pair");
    assert!(
        a_pair <= MOST,
        "{a_pair:.1} instructions a pair, at most {MOST} allowed"
    );
    assert!(
        a_pair >= 10.0,
        "{a_pair:.1} instructions a pair: the loop was not measured"
    );
}
