//! Situations that an allocator is easily broken by, each in a process of its own under preload.

use crate::common;

use common::{Language, Link, compile, preload, run};
use std::process::Command;

fn passes(name: &str) {
    passes_with("hazards.c", &[name]);
}

fn passes_with(source: &str, arguments: &[&str]) {
    let program = compile(Language::C, source, Link::Plain);
    // Ends what would hang.
    let mut command = Command::new("timeout");
    command
        .args(["-s", "KILL", "60"])
        .arg(&program)
        .args(arguments);
    let reports = preload(&mut command);
    run(&mut command);
    reports.assert_served();
}

#[test]
fn locked_huge() {
    passes("locked_huge");
}

#[test]
fn fork_in_a_handler() {
    passes("fork_in_a_handler");
}

#[test]
fn statistics_beside_threads() {
    passes("statistics_beside_threads");
}

#[test]
fn shrink_without_memory() {
    passes("shrink_without_memory");
}

#[test]
fn idle_memory_comes_back() {
    passes("idle_memory_comes_back");
}

#[test]
fn growth_by_moving() {
    passes("growth_by_moving");
}

#[test]
fn large_blocks_at_random() {
    passes("large_blocks_at_random");
}

#[test]
fn clock_of_the_program() {
    passes_with("clock.c", &[]);
}
