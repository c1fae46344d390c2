//! Sampled guards: blocks that lie between memory without access.

use crate::common;

use common::{Language, Link, compile, finish, library};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile(Language::C, "guards.c", Link::Plain))
}

fn run(part: &str, settings: &[(&str, &str)]) -> (Output, String) {
    run_on(&library().shared, part, settings)
}

fn run_on(library: &Path, part: &str, settings: &[(&str, &str)]) -> (Output, String) {
    let mut command = Command::new(program());
    command.env("LD_PRELOAD", library);
    end(command, part, settings)
}

/// The program whose blocks are of program heaps.
fn run_heaps(part: &str, every: &str) -> (Output, String) {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| compile(Language::C, "guarded_heaps.c", Link::Static));
    end(
        Command::new(program),
        part,
        &[("HAKMEM_GUARD_SAMPLE", every)],
    )
}

fn end(mut command: Command, part: &str, settings: &[(&str, &str)]) -> (Output, String) {
    command
        .arg(part)
        .env_remove("HAKMEM_STATS")
        .envs(settings.iter().copied());
    let output = finish(&mut command);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, stderr)
}

/// The heads of reports: what was seen.
fn heads(text: &str) -> Vec<&str> {
    let heads = text.lines().filter_map(|line| {
        let (what, rest) = line.strip_prefix("hakmem: ")?.split_once(" at 0x")?;
        rest.ends_with(" here:").then_some(what)
    });
    heads.collect()
}

#[test]
fn correct_programs_notice_nothing() {
    for every in ["1", "2", "50"] {
        let (output, stderr) = run("correct", &[("HAKMEM_GUARD_SAMPLE", every)]);
        assert_eq!(
            (&*output.stdout, &*stderr),
            (&b"correct\n"[..], ""),
            "{every}"
        );
    }
}

/// A sampled block of the profile lies beside others, in a page without an owner.
#[test]
fn correct_programs_notice_nothing_of_the_hardened_build() {
    let directory = TempDir::new().expect("a directory");
    let profile = directory.path().join("profile").display().to_string();
    let sampled = [
        ("HAKMEM_PROFILE", &*profile),
        ("HAKMEM_PROFILE_INTERVAL", "1"),
    ];
    for settings in [&[][..], &[("HAKMEM_HARDENED", "low")], &sampled] {
        let (output, stderr) = run_on(&crate::errors::hardened(), "correct", settings);
        assert_eq!(
            (&*output.stdout, &*stderr),
            (&b"correct\n"[..], ""),
            "{settings:?}"
        );
    }
}

/// Each stack has the function that did it, as the last address in the program before `main`.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "sampled guards are the default build's"
)]
fn a_report_has_the_stacks_of_access_free_and_allocation() {
    let (output, stderr) = run("use_after_free", &[("HAKMEM_GUARD_SAMPLE", "1")]);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{stderr}");
    let lines: Vec<_> = stderr.lines().collect();
    assert!(
        lines[0].starts_with("hakmem: Use After Free at 0x"),
        "{stderr}"
    );
    assert!(
        lines[0].contains("5 bytes into a 100-byte allocation"),
        "{stderr}"
    );
    let name = program().file_name().expect("a name").to_string_lossy();
    let parts: Vec<_> = stderr.split(" here:\n").skip(1).collect();
    assert_eq!(parts.len(), 3, "{stderr}");
    for part in parts {
        let own = part
            .lines()
            .filter(|line| line.contains("    #") && line.contains(&*name));
        assert!(own.count() >= 2, "{stderr}");
    }
    assert!(
        stderr.contains(" was deallocated by thread ")
            && stderr.contains(" was allocated by thread ")
    );
    let last = lines.last().expect("lines");
    assert!(
        last.starts_with("hakmem: process ") && last.ends_with(&format!(" ({name})")),
        "{stderr}"
    );
}

/// Containers give their programs a filter. The stacks are read by files then.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "sampled guards are the default build's"
)]
fn a_process_that_inherited_a_filter_has_places_and_stacks() {
    let mut command = common::filter::under_narrow(program());
    command
        .arg("use_after_free")
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_GUARD_SAMPLE", "1")
        .env("HAKMEM_SCAVENGER", "0")
        .env("HAKMEM_STATS", "json");
    let output = finish(&mut command);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{stderr}");
    assert_eq!(heads(&stderr), ["Use After Free"]);
    let name = program().file_name().expect("a name").to_string_lossy();
    let own = stderr
        .lines()
        .filter(|line| line.contains("    #") && line.contains(&*name));
    assert!(own.count() >= 6, "{stderr}");
}

/// Under a filter that the program made no stack is recorded. The report has none of the place's
/// earlier blocks instead.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "sampled guards are the default build's"
)]
fn a_report_after_a_filter_has_no_stack_of_another_block() {
    let (output, stderr) = run("filtered", &[("HAKMEM_GUARD_SAMPLE", "1")]);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{stderr}");
    assert_eq!(heads(&stderr), ["Use After Free"]);
    let parts: Vec<_> = stderr.split(" here:\n").collect();
    assert_eq!(parts.len(), 4, "{stderr}");
    for (access, was_done) in [(0, ")"), (1, " was deallocated")] {
        assert!(parts[access].ends_with(was_done), "{stderr}");
        assert!(
            parts[access + 1].starts_with("hakmem:     no stack is known\n"),
            "{stderr}"
        );
    }
    assert!(parts[2].contains(" was allocated by thread "), "{stderr}");
    assert!(parts[3].contains("\nhakmem: process "), "{stderr}");
    assert!(parts[3].starts_with("hakmem:     #0 0x"), "{stderr}");
}

/// Standard error has what was seen, and the file has all of it.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "sampled guards are the default build's"
)]
fn stacks_go_to_a_file() {
    let directory = TempDir::new().expect("a directory");
    let file = directory.path().join("errors").display().to_string();
    let (_, stderr) = run(
        "use_after_free",
        &[("HAKMEM_GUARD_SAMPLE", "1"), ("HAKMEM_ERRORS", &file)],
    );
    let text = std::fs::read_to_string(&file).expect("the file");
    assert_eq!(heads(&stderr), ["Use After Free"]);
    assert!(
        stderr.lines().count() == 1 && text.starts_with(&stderr),
        "{stderr}{text}"
    );
    assert!(
        text.contains("    #0 0x") && text.contains(" was allocated by "),
        "{text}"
    );
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "sampled guards are the default build's"
)]
fn the_programs_own_handler_runs() {
    let (output, stderr) = run("handler", &[]);
    assert_eq!(output.status.code(), Some(77), "{stderr}");
    assert_eq!(heads(&stderr), ["Use After Free"]);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "sampled guards are the default build's"
)]
fn a_program_goes_on_if_it_is_to() {
    let report = [("HAKMEM_GUARD_SAMPLE", "1"), ("HAKMEM_ON_ERROR", "report")];
    let (output, stderr) = run("goes_on", &report);
    assert_eq!(&*output.stdout, b"went on\n", "{stderr}");
    let heads = heads(&stderr);
    assert_eq!(heads[..3], ["Use After Free"; 3], "{stderr}");
    assert!(
        heads.iter().any(|head| head.starts_with("Buffer ")),
        "{stderr}"
    );
    let ignore = [("HAKMEM_GUARD_SAMPLE", "1"), ("HAKMEM_ON_ERROR", "ignore")];
    let (output, stderr) = run("goes_on", &ignore);
    assert_eq!((&*output.stdout, &*stderr), (&b"went on\n"[..], ""));
}

/// Faults that no guard made, and signals that were sent, have their usual effect.
#[test]
fn other_faults_take_their_course() {
    for part in ["null_pointer", "sent"] {
        let (output, stderr) = run(part, &[("HAKMEM_GUARD_SAMPLE", "1")]);
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{part}");
        assert_eq!(stderr, "", "{part}");
    }
    for part in ["ignored", "jumped"] {
        let (output, stderr) = run(part, &[("HAKMEM_GUARD_SAMPLE", "1")]);
        assert_eq!(output.status.code(), Some(0), "{part}: {stderr}");
        assert_eq!(output.stdout, format!("{part}\n").into_bytes());
    }
}

/// The handler's flags: it is called once, and on the stack that it asked for.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "sampled guards are the default build's"
)]
fn the_programs_handler_of_faults_keeps_its_flags() {
    let settings = [("HAKMEM_GUARD_SAMPLE", "1")];
    let (output, stderr) = run("once", &settings);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{stderr}");
    assert_eq!((&*output.stdout, &*stderr), (&b"called\n"[..], ""));
    let (output, stderr) = run("same_stack", &settings);
    assert_eq!(output.status.code(), Some(77), "{stderr}");
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "sampled guards are the default build's"
)]
fn a_fault_is_reported_from_a_short_alternate_stack() {
    let (output, stderr) = run("short_stack", &[("HAKMEM_GUARD_SAMPLE", "1")]);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{stderr}");
    assert_eq!(heads(&stderr), ["Use After Free"], "{stderr}");
}

/// The heap counts blocks in places, the limit holds for them, and a reset frees them.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "sampled guards are the default build's"
)]
fn blocks_of_program_heaps_lie_in_places() {
    let (output, stderr) = run_heaps("correct", "1");
    assert_eq!((&*output.stdout, &*stderr), (&b"correct\n"[..], ""));
}

/// Of 20,000 blocks, 2,000 are to be expected of either way, with a deviation of 42.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "sampled guards are the default build's"
)]
fn blocks_of_program_heaps_have_the_same_chance() {
    let (output, stderr) = run_heaps("rate", "10");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let counts: Vec<u32> = text
        .split_whitespace()
        .map(|n| n.parse().expect("a number"))
        .collect();
    assert_eq!(counts.len(), 2, "{text}{stderr}");
    for count in counts {
        assert!((1700..2300).contains(&count), "{text}");
    }
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "sampled guards are the default build's"
)]
fn errors_in_blocks_of_program_heaps_are_found() {
    let parts = [
        ("use_after_reset", libc::SIGSEGV, "Use After Free"),
        ("use_after_delete", libc::SIGSEGV, "Use After Free"),
        ("use_after_scope", libc::SIGSEGV, "Use After Free"),
        ("overflow", 0, "Buffer Overflow"),
        ("freed_twice", libc::SIGABRT, "Double Free"),
    ];
    for (part, signal, what) in parts {
        let (output, stderr) = run_heaps(part, "1");
        let ended = output.status.signal();
        // An overflow is found by a fault or by the free.
        assert!(
            ended.is_some_and(|by| signal == 0 || by == signal),
            "{part}: {stderr}"
        );
        assert!(heads(&stderr)[0].starts_with(what), "{part}: {stderr}");
        assert!(
            stderr.contains(" was allocated by thread "),
            "{part}: {stderr}"
        );
    }
    for part in ["of_another", "of_none"] {
        let (output, stderr) = run_heaps(part, "1");
        assert_eq!(
            output.status.signal(),
            Some(libc::SIGABRT),
            "{part}: {stderr}"
        );
        assert!(stderr.contains("heap"), "{part}: {stderr}");
    }
}
