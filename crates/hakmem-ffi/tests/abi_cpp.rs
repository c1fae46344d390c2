//! Every form of operator new and delete, their handlers and exceptions, in a C++ program.

use crate::abi_c::checks_pass;
use crate::common;

use common::{Language, Link, assert_checks_pass, compile, preload, run, target};

checks_pass!(Language::Cpp, "abi_cpp.cpp");

/// Such a program links with the static library of the dev profile, too. Its objects name more of
/// Rust's runtime than those of the release profile.
#[test]
#[cfg_attr(feature = "hardened", ignore = "the ordinary build is enough")]
fn the_static_library_of_the_dev_profile_links() {
    let library = common::built::build(&["--package", "hakmem-ffi", "--lib"]);
    let tests = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let program = common::path_of_program("abi_cpp-dev");
    run(target::compiler("c++")
        .args([
            "-std=c++17",
            "-O1",
            "-fno-builtin",
            "-pthread",
            "-w",
            "-rdynamic",
            "-o",
        ])
        .arg(&program)
        .arg(tests.join("abi_cpp.cpp"))
        .arg(library.of("hakmem", ".a")));
    assert_checks_pass(&mut target::start(&program));
}

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

/// The new_handler and the exception are those of the runtime that the caller uses, wherever that
/// is.
#[test]
fn a_plug_in_may_bring_a_runtime() {
    let tests = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let plug_in = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("plug_in.so");
    run(target::compiler("c++")
        .args([
            "-std=c++17",
            "-O1",
            "-fno-builtin",
            "-w",
            "-shared",
            "-fPIC",
        ])
        .args(["-static-libstdc++", "-o"])
        .arg(&plug_in)
        .arg(tests.join("plug_in.cpp")));
    let program = compile(Language::C, "plug_in_host.c", Link::Plain);
    let mut command = target::start(&program);
    let reports = preload(command.arg(&plug_in));
    let output = common::finish(&mut command);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    reports.assert_loaded();
}
