//! Errors, and what is none, at places where a report or a check may fail itself. Each runs on both
//! builds.

use crate::common;
use crate::errors::hardened;

use common::{Language, Link, compile, library, target};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

/// Calls `judge` with what the program does on a build, what it writes to standard error, and
/// whether that is the hardened build.
#[track_caller]
fn on_both(arguments: &[&str], on_error: &str, judge: impl Fn(&Output, &str, bool)) {
    let program = compile(Language::C, "edges.c", Link::Plain);
    for library in [library().shared.clone(), hardened()] {
        let output = run(&program, &library, arguments, on_error);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        println!("{library:?} {}: {stderr}", output.status);
        let is_hardened = cfg!(feature = "hardened") || library == hardened();
        judge(&output, &stderr, is_hardened);
    }
}

fn run(program: &Path, library: &Path, arguments: &[&str], on_error: &str) -> Output {
    Command::new(program)
        .args(arguments)
        .env("LD_PRELOAD", library)
        .env("HAKMEM_GUARD_SAMPLE", "0")
        .env("HAKMEM_ON_ERROR", on_error)
        .env_remove("HAKMEM_STATS")
        .output()
        .expect("the program runs")
}

/// The report has the handler's stack, though the unwinder takes more room than there is left.
#[test]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn a_report_fits_on_a_small_stack() {
    let is_whole = |stderr: &str| {
        assert!(stderr.starts_with("hakmem: double free of 0x"), "{stderr}");
        assert!(stderr.contains("hakmem:     #0 0x"), "{stderr}");
        assert!(stderr.contains("/edges"), "{stderr}");
    };
    on_both(&["small_stack"], "abort", |output, stderr, _| {
        is_whole(stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{stderr}");
    });
    on_both(&["small_stack"], "report", |output, stderr, is_hardened| {
        is_whole(stderr);
        if is_hardened {
            assert_eq!(output.status.code(), Some(3), "it goes on: {stderr}");
        }
    });
}

/// MADV_DONTFORK: the check at the end of a child does not read what the child does not have.
#[test]
fn a_child_without_a_block_ends_as_others_do() {
    on_both(&["left_out"], "abort", |output, stderr, _| {
        assert_eq!(output.status.code(), Some(3), "{stderr}");
        assert_eq!(stderr, "");
    });
}

/// Nobody has freed the pointer that the link leads to, so the hardened build does not say so.
#[test]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn a_changed_link_is_called_so() {
    for size in ["3000", "20000"] {
        on_both(&["link", size], "abort", |output, stderr, is_hardened| {
            assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{stderr}");
            let first = stderr.lines().next().unwrap_or_default();
            if is_hardened {
                assert!(first.contains("written to after it was freed"), "{stderr}");
            } else {
                assert!(stderr.contains("wrote to a freed block"), "{stderr}");
            }
        });
    }
}

/// More than the machine has: the reservation would hold it, and the program would be killed when
/// it fills the block.
#[test]
fn a_block_that_the_system_refuses_is_refused() {
    on_both(&["too_large"], "abort", |output, stderr, _| {
        assert_eq!(output.status.code(), Some(3), "{stderr}");
    });
}

/// Pointers into a large and a huge block, and in front of the first block: the report says where
/// they lie.
#[test]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn a_report_knows_the_block_around_a_pointer() {
    for (size, inside) in [
        ("300000", "70000"),
        ("5000000", "1048576"),
        ("9000000", "6291456"),
    ] {
        on_both(&["inside", size, inside], "abort", |output, stderr, _| {
            assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{stderr}");
            assert!(
                stderr.contains("inside the allocation that starts at"),
                "{stderr}"
            );
        });
    }
    on_both(&["in_front"], "abort", |output, stderr, _| {
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{stderr}");
        assert!(stderr.contains("hakmem: invalid pointer"), "{stderr}");
    });
}

/// The hardened build goes on after a free of a pointer into a page, if it is to.
#[test]
fn a_wrong_free_need_not_end_the_process() {
    on_both(&["into_page"], "report", |output, stderr, is_hardened| {
        // The default build does not divide the offset.
        assert_eq!(output.status.code(), Some(3), "{stderr}");
        let is_told = stderr.contains("not at the start of a live one");
        assert_eq!(is_told, is_hardened, "{stderr}");
    });
}

/// Its `new` calls C's malloc, and the program's `delete` is hakmem's.
#[test]
fn a_library_may_be_bound_to_operators_of_its_own() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/programs/own_library.cpp"
    );
    let (made, program) = (
        directory.path().join("libmade.so"),
        directory.path().join("user"),
    );
    let mut build = target::compiler("c++");
    build.args(["-O1", "-shared", "-fPIC", "-DLIBRARY", "-Wl,-Bsymbolic"]);
    common::run(build.arg("-o").arg(&made).arg(source));
    let mut build = target::compiler("c++");
    common::run(
        build
            .args(["-O1", "-o"])
            .arg(&program)
            .args([source.as_ref(), made.as_path()]),
    );
    for library in [library().shared.clone(), hardened()] {
        let output = run(&program, &library, &[], "abort");
        assert_eq!(output.status.code(), Some(3), "{library:?}: {output:?}");
    }
}
