//! Programs with an allocator of their own: hakmem inside is left alone and counts as served,
//! others are named.

use crate::common;

use common::*;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

/// It gets the variables and no second hakmem.
#[test]
fn hakmem_inside_a_program_is_not_preloaded_over() {
    let program = built::debugged().example("watched");
    for way in [&["run", "--require"][..], &["stat"], &["map", "-o", "-"]] {
        let mut command = hakmem();
        command.args(way).args(["--lib", "/no/library.so"]);
        command.arg(&program).stdin(Stdio::piped());
        let mut ready = Ready::new(command);
        let of = |file: &str| std::fs::read(format!("/proc/{}/{file}", ready.program())).unwrap();
        let environment = String::from_utf8_lossy(&of("environ")).into_owned();
        assert!(!environment.contains("LD_PRELOAD="), "{way:?}");
        assert!(environment.contains("\0HAKMEM_"), "{way:?}: {environment}");
        assert!(!String::from_utf8_lossy(&of("maps")).contains("libhakmem"));
        drop(ready.child.stdin.take());
        let status = ready.child.wait().unwrap();
        if way[0] == "run" {
            assert!(status.success(), "the note proves it: {status}");
        }
    }
}

fn own(flags: &[&str], name: &str) -> PathBuf {
    BUILT.compile("own.c", name, &[&["-fno-builtin"], flags].concat())
}

fn run_real(options: &[&str], program: &Path) -> Output {
    let mut command = hakmem();
    command.args(["run", "--lib"]).arg(&*HAKMEM).args(options);
    command.arg(program).output().unwrap()
}

#[test]
fn another_allocator_is_named_and_is_not_hakmem() {
    let kinds = [
        (own(&[], "own-malloc"), "a malloc of its own"),
        (own(&["-DPREFIX"], "own-mimalloc"), "mimalloc of its own"),
    ];
    for (program, kind) in kinds {
        for (options, status) in [(&[][..], 0), (&["--require"], 125)] {
            let output = run_real(options, &program);
            let text = stderr(&output);
            assert_eq!(output.status.code(), Some(status), "{text}");
            assert_eq!(stdout(&output), "done\n");
            let (before, after) = text.split_once(" uses ").expect(&text);
            assert!(before.ends_with(program.to_str().unwrap()), "{text}");
            let counted = after.strip_prefix(&format!("{kind}; hakmem served "));
            let (count, _) = counted.expect(&text).split_once(' ').unwrap();
            assert!(count.parse::<u64>().unwrap() < 100, "{text}");
        }
    }
}

/// A program that is linked with `flags` to a library with an allocator, which keeps its own calls.
fn linked(library_flags: &[&str], flags: &[&str], name: &str) -> PathBuf {
    let flags_of_library = [
        &[
            "-shared",
            "-fPIC",
            "-fno-builtin",
            "-DLIBRARY",
            "-Wl,-Bsymbolic",
        ],
        library_flags,
    ];
    let library = BUILT.compile(
        "own.c",
        &format!("lib{name}.so"),
        &flags_of_library.concat(),
    );
    let folder = format!("-Wl,-rpath,{}", library.parent().unwrap().display());
    let by_file = [library.to_str().unwrap(), "-Wl,--no-as-needed", &folder];
    let flags = [&["-fno-builtin", "-Wl,--no-as-needed"], flags, &by_file].concat();
    BUILT.compile("called.c", name, &flags)
}

/// What is preloaded comes before what is needed: nothing need be said.
#[test]
fn a_malloc_of_a_library_gives_way() {
    let program = linked(&[], &[], "gives-way");
    let text = stderr(&run_real(&["--require", "--stats"], &program));
    let (_, count) = text.split_once("allocations served  ").expect(&text);
    assert!(count.starts_with("1,00"), "{text}");
    assert!(!text.contains(" uses "), "{text}");
}

/// Called by its own name, it does not.
#[test]
fn an_allocator_of_a_library_is_named() {
    let program = linked(&["-DPREFIX"], &["-DMI"], "calls-mimalloc");
    for (options, status) in [(&[][..], 0), (&["--require"], 125)] {
        let output = run_real(options, &program);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{text}");
        let part = "uses mimalloc of a library; hakmem served ";
        assert!(text.contains(part), "{text}");
    }
}

/// A shell gets the library, and hands it on to a program that has hakmem inside: that one's
/// figures are the program's, whether the shell becomes the program or waits for it.
#[test]
fn hakmem_inside_reports_for_a_program_that_a_shell_starts() {
    let program = built::debugged().example("watched");
    for script in ["exec \"$0\"", "\"$0\"; true"] {
        let mut command = hakmem();
        command.args(["run", "--stats", "--require", "--lib"]);
        command.arg(&*HAKMEM).args(["bash", "-c", script]);
        let output = command.arg(&program).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{text}");
        // The program makes a thousand blocks, bash's own are fewer.
        let counts = text.lines().filter_map(|line| {
            let count = line.trim().strip_prefix("allocations served  ")?;
            let (count, _) = count.split_once(' ')?;
            count.trim_end_matches(',').replace(',', "").parse().ok()
        });
        let counts: Vec<u64> = counts.collect();
        let most = counts.iter().max().expect("figures");
        let programs = match script.starts_with("exec") {
            true => counts[0],
            false => most - counts[0],
        };
        assert!((1000..1100).contains(&programs), "{script}: {text}");
    }
}

/// A profile of an allocator that the program hardly uses is not what was asked for.
#[test]
fn a_profile_of_another_allocator_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = hakmem();
    command.args(["profile", "--lib"]).arg(&*HAKMEM).arg("-o");
    command.arg(folder.path().join("out"));
    let output = command.arg(own(&[], "own-profiled")).output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{text}");
    assert!(text.contains("uses a malloc of its own"), "{text}");
}

/// A program may have hakmem's code in it and allocate with another: the command itself does.
#[test]
fn code_that_nobody_calls_is_no_allocator() {
    let words = [env!("CARGO_BIN_EXE_hakmem"), "options"];
    let output = run(&["--require", "--stats"], &words).output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("allocations served  1,234"), "{text}");
}

/// A program with `libhakmem.a`, built with these flags besides.
pub fn with_static_library(name: &str, flags: &[&str]) -> PathBuf {
    let library = built::released(&[]).of("hakmem", ".a");
    let library = library.to_str().unwrap();
    let all = [&["-fno-builtin", "-Wl,-u,malloc", library], flags];
    BUILT.compile(
        "called.c",
        name,
        &[&all.concat()[..], &["-pthread"]].concat(),
    )
}

/// It defines malloc, and that is hakmem's. Its own report counts.
#[test]
fn a_program_with_the_static_library_is_served_by_it() {
    for (name, flags) in [
        ("linked", &[][..]),
        ("linked-sections", &["-Wl,--gc-sections"]),
        ("linked-stripped", &["-s"]),
        ("linked-static", &["-static"]),
    ] {
        let program = with_static_library(name, flags);
        let text = stderr(&run_real(&["--require", "--stats"], &program));
        assert!(text.starts_with("hakmem: /"), "{name}: {text}");
        let (title, rest) = text.split_once('\n').unwrap();
        assert!(title.contains(" (process "), "{name}: {text}");
        assert!(
            rest.starts_with("  allocations served  1,0"),
            "{name}: {text}"
        );
        let output = run_real(&["--require"], &program);
        assert_eq!(
            (output.status.code(), stderr(&output)),
            (Some(0), String::new()),
            "{name}"
        );
        let mut command = hakmem();
        command.args(["stat", "--lib"]).arg(&*HAKMEM).arg(&program);
        let text = stderr(&command.output().unwrap());
        assert!(text.contains("  allocations         1,0"), "{name}: {text}");
        let mut command = hakmem();
        command
            .args(["doctor", "--lib"])
            .arg(&*HAKMEM)
            .arg(&program);
        let text = stdout(&command.output().unwrap());
        assert!(
            text.contains("ok       preload: not needed\n"),
            "{name}: {text}"
        );
        assert!(
            text.contains("ok       allocator: hakmem inside\n"),
            "{name}: {text}"
        );
    }
}
