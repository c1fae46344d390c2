//! Errors of a program that are seen: each ends it by SIGABRT, with one line that names the pointer
//! and the cause.
//!
//! A misuse runs in a process of its own: this program again, with the misuse's name in the
//! environment.

mod blocks;
mod inside;
mod links;
mod twice;

use crate::oracle;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

const NAME: &str = "TEST_HAKMEM_MISUSE";
const HARDENED: bool = cfg!(feature = "hardened");

const NOTHING: &str = "invalid pointer {p}: nothing is allocated there (double free?)";
const INSIDE_PAGE: &str =
    "invalid pointer {p}: inside a page of 64-byte blocks, not at the start of a live one";
const CORRUPT: &str =
    "corrupt free list at {p}: a block was freed twice or written to after it was freed";

/// What is done wrong, and what is said of it, with `{p}` for every pointer.
fn named() -> impl Iterator<Item = (&'static str, fn(), &'static str)> {
    twice::NAMED
        .into_iter()
        .chain(inside::NAMED)
        .chain(links::NAMED)
}

/// What is done wrong and seen as the program goes on with blocks of that size, here or there: so
/// long that a list with the wrong block has been walked for certain, whatever was drawn (some
/// thirty of those that have it are).
fn later() -> impl Iterator<Item = (&'static str, fn())> {
    twice::LATER.into_iter().chain(inside::LATER)
}

/// The line with `{p}` for every pointer.
fn without_pointers(line: &str) -> String {
    line.split(' ')
        .map(|word| {
            let bare = word.trim_end_matches([':', ',']);
            if bare.starts_with("0x") {
                word.replace(bare, "{p}")
            } else {
                word.to_owned()
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// Makes the misuse in a process of its own: how that ended, and what it said.
fn ending(test: &str, misuse: &str) -> (ExitStatus, Vec<String>) {
    let mut command = oracle::this_program();
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(NAME, misuse);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    // An emulator says of a signal that it ended the program.
    let lines = stderr.lines().filter(|line| !line.starts_with("qemu: "));
    (output.status, lines.map(without_pointers).collect())
}

/// True if `lines` report an error: what was seen, then its place, the thread and its stack.
fn is_report(lines: &[String]) -> bool {
    let is_detail = |line: &String| {
        [
            "{p} ",
            "the write was earlier",
            "the free may have been earlier",
            "thread ",
            "    ",
        ]
        .iter()
        .any(|start| line["hakmem: ".len()..].starts_with(start))
    };
    !lines.is_empty()
        && lines.iter().all(|line| line.starts_with("hakmem: "))
        && lines.iter().skip(1).all(is_detail)
}

/// In such a process: makes it.
fn is_made(mut misuses: impl Iterator<Item = (&'static str, fn())>) -> bool {
    let Ok(name) = std::env::var(NAME) else {
        return false;
    };
    misuses.find(|m| m.0 == name).expect("one of that name").1();
    true
}

#[test]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn misuses_are_named() {
    if is_made(named().map(|m| (m.0, m.1))) {
        return;
    }
    let mut wrong = Vec::new();
    for (name, _, expected) in named() {
        let (status, lines) = ending("misuse::misuses_are_named", name);
        // The hardened build finds the most of them sooner, and in other words.
        let is_named = is_report(&lines) && (HARDENED || lines[0] == format!("hakmem: {expected}"));
        if status.signal() != Some(libc::SIGABRT) || !is_named {
            wrong.push(format!("{name}: {status} {lines:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn misuses_are_seen_later() {
    if is_made(later()) {
        return;
    }
    for (name, _) in later() {
        for _ in 0..5 {
            let (status, lines) = ending("misuse::misuses_are_seen_later", name);
            assert!(
                status.signal() == Some(libc::SIGABRT) && is_report(&lines),
                "{name}: {status} {lines:?}"
            );
        }
    }
}

#[test]
#[cfg_attr(feature = "hardened", ignore = "no block has 8 bytes")]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn misuses_are_confined() {
    if is_made(twice::CONFINED.into_iter()) {
        return;
    }
    for (name, _) in twice::CONFINED {
        let (status, lines) = ending("misuse::misuses_are_confined", name);
        let refused = status.signal() == Some(libc::SIGABRT) && is_report(&lines);
        assert!(
            status.success() && lines.is_empty() || refused,
            "{name}: {status} {lines:?}"
        );
    }
}
