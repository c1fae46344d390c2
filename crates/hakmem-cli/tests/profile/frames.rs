//! Whose functions a profile shows: the program's, by the source files that its debug information
//! names.

use super::accounts::folded;
use super::common::*;
use super::decoded::{self, Pprof};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes by the source file of the nearest function, live or all that were allocated.
fn by_source(p: &Pprof, value: usize) -> Vec<(&str, &str, f64)> {
    let nearest = p.samples.iter().map(|(stack, values)| {
        let (function, _) = p.locations[&stack[0]][0];
        let (name, file) = (p.functions[&function], p.files[&function]);
        let of = [file, name].map(|number| p.strings[number].as_str());
        (of[0], of[1], values[value] as f64)
    });
    nearest.collect()
}

/// At least 95 % of the bytes are at functions of `source`.
fn shows_its_own(prefix: &Path, source: &str, value: usize) {
    let p = decoded::decode_file(&prefix.with_extension("pb.gz"));
    let all = by_source(&p, value);
    let sum = |own: fn(&str, &str) -> bool| {
        let of = all.iter().filter(|(file, ..)| own(file, source));
        of.map(|(_, _, bytes)| bytes).sum::<f64>()
    };
    let (own, whole) = (sum(|file, source| file.ends_with(source)), sum(|_, _| true));
    assert!(
        whole > 1e6 && own >= 0.95 * whole,
        "{own} of {whole} bytes: {all:?}"
    );
}

fn made(raw: &Path, options: &[&str]) -> PathBuf {
    let prefix = raw.with_file_name("out");
    let made = hakmem()
        .args(["profile", "--file"])
        .arg(raw)
        .arg("-o")
        .arg(&prefix)
        .args(options)
        .output();
    let made = made.unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    prefix
}

/// No stack has any of these in it.
fn without(prefix: &Path, hidden: &[&str]) {
    for which in ["live", "allocated"] {
        for (stack, _) in folded(&prefix.with_extension(format!("{which}.folded"))) {
            let found = stack
                .iter()
                .find(|name| hidden.iter().any(|part| name.contains(part)));
            assert_eq!(found, None, "{stack:?}");
        }
    }
}

/// The fixture `service`, whose dependencies take a minute to build.
fn service() -> PathBuf {
    let args = [
        "--release",
        "--package",
        "hakmem-fixtures",
        "--example",
        "service",
        "--features",
        "service",
    ];
    built::build(&args).example("service")
}

/// `ci/service` runs it: what the service depends on takes a minute to build.
#[test]
fn a_service_in_rust() {
    if std::env::var_os("TEST_HAKMEM_SERVICE").is_none() {
        return println!("the service is not built");
    }
    let program = service();
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("raw");
    let output = Command::new(program).arg(&raw).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(
        stdout(&output),
        "4000\n",
        "as many texts as it was asked to keep"
    );
    let prefix = made(&raw, &[]);
    // What its libraries allocated is theirs, and nearly all of that is freed.
    shows_its_own(&prefix, "examples/service.rs", 3);
    let hidden = [
        "hakmem_core::",
        "__rust_alloc",
        "alloc::alloc::",
        "alloc::raw_vec",
        "core::ops::",
        "std::rt::",
    ];
    without(&prefix, &hidden);
    without(
        &prefix,
        &[
            "start_thread",
            "__rust_begin_short_backtrace",
            "call_once",
            "catch_unwind",
        ],
    );
    let p = decoded::decode_file(&prefix.with_extension("pb.gz"));
    for (file, name, _) in by_source(&p, 1) {
        let is_standard = |krate: &str| file.contains(&format!("/library/{krate}/src/"));
        assert!(
            !is_standard("core") && !is_standard("alloc") && !file.contains("hashbrown"),
            "{name} of {file}"
        );
    }
    let left = (p.drop_frames, p.keep_frames);
    assert_eq!(left, (0, 0), "pprof leaves out nothing more by its name");

    let prefix = made(&raw, &["--all-frames"]);
    let stacks = folded(&prefix.with_extension("live.folded"));
    let has = |stack: &[String], part: &str| stack.iter().any(|name| name.contains(part));
    assert!(stacks.iter().all(|(stack, _)| has(stack, "hakmem_core::")));
    assert!(
        stacks
            .iter()
            .any(|(stack, _)| has(stack, "__rust_begin_short_backtrace"))
    );
    let p = decoded::decode_file(&prefix.with_extension("pb.gz"));
    assert_eq!(p.drop_frames, 0, "nor does pprof leave them out");
}

#[test]
fn a_program_in_cpp() {
    // The last one's code and tables do not lie side by side.
    let apart = "-Wl,--section-start=.text=0x800000";
    for (i, flags) in [["-O0", "-g"], ["-O2", "-g"], ["-g", apart]]
        .iter()
        .enumerate()
    {
        let folder = tempfile::tempdir().unwrap();
        let program = BUILT.compile(
            "profiled.cpp",
            &format!("profiled-cpp-{i}"),
            &[flags[0], flags[1], "-pthread", "-lstdc++"],
        );
        let (output, prefix) = super::profile(folder.path(), &["--interval", "2048"], &program);
        assert!(output.status.success(), "{}", stderr(&output));
        shows_its_own(&prefix, "profiled.cpp", 1);
        without(
            &prefix,
            &[
                "operator new",
                "std::",
                "__gnu_cxx",
                "libstdc++",
                "start_thread",
                "clone",
            ],
        );
        let said = stderr(&output);
        assert!(
            said.contains("fills < main\n") && said.contains("owns < main\n"),
            "{said}"
        );
    }
}

/// It has no loader, and of gcc no index of its unwind tables.
#[test]
fn a_c_program_that_is_linked_statically() {
    for flag in ["-static", "-static-pie"] {
        let library = HAKMEM.with_extension("a");
        let flags = [
            "-g",
            "-fomit-frame-pointer",
            flag,
            library.to_str().unwrap(),
            "-w",
        ];
        let program = super::compiled(&format!("profiled{flag}"), &flags);
        let folder = tempfile::tempdir().unwrap();
        let raw = folder.path().join("raw");
        let mut command = Command::new(program);
        command
            .env("HAKMEM_PROFILE", &raw)
            .env("HAKMEM_PROFILE_INTERVAL", "2048");
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        let prefix = made(&raw, &[]);
        shows_its_own(&prefix, "profiled.c", 1);
        super::attributed(&super::truth(&output), &prefix, str::to_owned);
        without(
            &prefix,
            &["malloc", "hakmem_core::", "_start", "start_thread", "clone"],
        );
        let stacks = folded(&prefix.with_extension("live.folded"));
        let of_main = stacks
            .iter()
            .filter(|(stack, _)| stack[0] == "main" && stack.len() > 1);
        assert!(of_main.count() > 4, "{flag}: {stacks:?}");
    }
}
