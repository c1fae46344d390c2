//! Every behaviour of the C functions, in a C program: on the C library alone, under preload, and
//! linked statically.

use crate::common;

use common::{Language, Link, assert_checks_pass, compile, preload};
use std::process::Command;

/// Tests of a program that checks itself: on the C library alone, which shows that the checks hold,
/// under preload, and linked statically.
macro_rules! checks_pass {
    ($language:expr, $source:literal) => {
        #[test]
        fn on_the_system_allocator() {
            let program = compile($language, $source, Link::Plain);
            assert_checks_pass(common::target::start(&program).arg("system"));
        }

        #[test]
        fn under_preload() {
            let program = compile($language, $source, Link::Plain);
            let mut command = common::target::start(&program);
            let reports = preload(&mut command);
            assert_checks_pass(&mut command);
            reports.assert_served();
        }

        #[test]
        fn linked_statically() {
            let program = compile($language, $source, Link::Static);
            let reports = common::Reports::new();
            let mut command = common::target::start(&program);
            assert_checks_pass(command.env("HAKMEM_STATS", reports.setting()));
            reports.assert_served();
        }
    };
}
pub(crate) use checks_pass;

checks_pass!(Language::C, "abi_c.c");

/// Under RLIMIT_AS memory ends with ENOMEM, live blocks stay intact, and allocation recovers.
#[test]
fn with_little_address_space() {
    let program = compile(Language::C, "abi_c.c", Link::Plain);
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -v 400000 && exec \"$0\" limited"])
        .arg(&program);
    assert_checks_pass(&mut command);
    let reports = preload(&mut command);
    assert_checks_pass(&mut command);
    reports.assert_served();
}

/// The C library's `reallocarray` calls the process's `realloc`. So a program that brings its own
/// malloc need not have one.
#[test]
fn a_program_may_bring_a_malloc() {
    for link in [Link::Plain, Link::Fixed] {
        let program = compile(Language::C, "own_malloc.c", link);
        common::run(&mut common::target::start(&program));
        let mut command = common::target::start(&program);
        let reports = preload(&mut command);
        common::run(&mut command);
        reports.assert_loaded();
    }
}

/// Whoever takes functions by the handle gets blocks of this library, and the C library's names.
#[test]
fn a_program_may_open_the_library() {
    let program = compile(Language::C, "by_handle.c", Link::Plain);
    let library = &common::library().shared;
    for scope in ["local", "global"] {
        common::run(common::target::start(&program).arg(library).arg(scope));
    }
}
