//! Every form of operator new and delete, their handlers and exceptions, in a C++ program.

use crate::abi_c::checks_pass;
use crate::common;

use common::{Language, Link, assert_checks_pass, compile, preload};

checks_pass!(Language::Cpp, "abi_cpp.cpp");

/// Without a C++ runtime there is nothing to throw: one line, then abort.
#[test]
fn without_a_runtime() {
    let program = compile(Language::C, "new_without_runtime.c", Link::Plain);
    let mut command = common::target::start(&program);
    let reports = preload(&mut command);
    let output = common::finish(&mut command);
    common::assert_aborted(&output, "std::bad_alloc");
    reports.assert_loaded();
}
