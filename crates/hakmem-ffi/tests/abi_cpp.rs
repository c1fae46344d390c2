//! Every form of operator new and delete, their handlers and exceptions, in a C++ program.

use crate::common;

use common::{Language, Link, assert_checks_pass, compile, preload};
use std::process::Command;

/// The checks themselves hold for the system's own operators.
#[test]
fn on_the_system_allocator() {
    let program = compile(Language::Cpp, "abi_cpp.cpp", Link::Plain);
    assert_checks_pass(Command::new(&program).arg("system"));
}

#[test]
fn under_preload() {
    let program = compile(Language::Cpp, "abi_cpp.cpp", Link::Plain);
    let mut command = Command::new(&program);
    let reports = preload(&mut command);
    assert_checks_pass(&mut command);
    reports.assert_served();
}

#[test]
fn linked_statically() {
    let program = compile(Language::Cpp, "abi_cpp.cpp", Link::Static);
    let reports = common::Reports::new();
    assert_checks_pass(Command::new(&program).env("HAKMEM_STATS", reports.setting()));
    reports.assert_served();
}

/// Without a C++ runtime there is nothing to throw: one line, then abort.
#[test]
fn without_a_runtime() {
    let program = compile(Language::C, "new_without_runtime.c", Link::Plain);
    let mut command = Command::new(&program);
    let reports = preload(&mut command);
    let output = common::finish(&mut command);
    common::assert_aborted(&output, "std::bad_alloc");
    reports.assert_loaded();
}
