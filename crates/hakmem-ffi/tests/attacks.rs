//! Attacks on the allocator's own data. `docs/security.md` says which the builds stop.

use crate::common;
use crate::errors::{hardened, hardened_static};

use common::{Language, Link, compile, finish, library, run, target};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

/// The status of a program whose attack succeeded.
const SUCCEEDED: i32 = 7;
/// These succeed against the default build. It believes a number of remote frees that is possible,
/// and a next batch; it does not divide the offset of each block that is freed; and malloc returns
/// what was freed last.
const SUCCEED: [&str; 5] = [
    "made_up_inside",
    "next_gets_freed",
    "remote_length_exact",
    "remote_chain_to_live",
    "remote_chain_to_long",
];

fn attack(program: &Path, name: &str, library: &Path) -> (Option<i32>, Option<i32>, String) {
    let mut command = Command::new(program);
    command
        .arg(name)
        .env("LD_PRELOAD", library)
        .env("HAKMEM_GUARD_SAMPLE", "0")
        .env_remove("HAKMEM_STATS");
    let output = finish(&mut command);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), output.status.signal(), stderr)
}

/// The default build lets some succeed, and the hardened one none: each but the one that finds no
/// block ends in a report.
#[test]
fn each_attack_ends_as_the_page_says() {
    let program = compile(Language::Cpp, "attacks.cpp", Link::Plain);
    let names = finish(Command::new(&program).arg("list"));
    let names = String::from_utf8(names.stdout).expect("names");
    assert!(names.lines().count() > 10, "{names}");
    for name in names.lines() {
        // With the feature this is the hardened build, too.
        if !cfg!(feature = "hardened") {
            // One list in 128 is walked to its end, chosen at random, and that walk may find what
            // an attack did.
            let tries = if SUCCEED.contains(&name) { 5 } else { 1 };
            let runs = (0..tries).map(|_| attack(&program, name, &library().shared));
            let runs: Vec<_> = runs.collect();
            let has_succeeded = runs.iter().any(|(code, ..)| *code == Some(SUCCEEDED));
            assert_eq!(has_succeeded, SUCCEED.contains(&name), "{name}: {runs:?}");
        }
        let (code, signal, stderr) = attack(&program, name, &hardened());
        if name == "next_gets_freed" {
            assert_eq!(code, Some(0), "{name}: {stderr}");
            continue;
        }
        assert_eq!(signal, Some(libc::SIGABRT), "{name}: {code:?} {stderr}");
        assert!(stderr.starts_with("hakmem: "), "{name}: {stderr}");
    }
}

/// A program may replace some of the C++ operators. hakmem's others call them then, and the blocks
/// pass between both.
#[test]
fn a_program_may_have_operators_of_its_own() {
    for source in [
        "own_operators.cpp",
        "own_headers.cpp",
        "own_new.cpp",
        "own_nothrow.cpp",
    ] {
        let program = compile(Language::Cpp, source, Link::Plain);
        for library in [&library().shared, &hardened()] {
            let (code, signal, stderr) = attack(&program, "", library);
            assert_eq!((code, signal), (Some(0), None), "{source}: {stderr}");
        }
    }
}

/// A program with the static library cannot replace operators. So it is asked which one made a
/// block.
#[test]
fn the_static_library_tells_operators_apart() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("errors-with-static-library");
    run(target::compiler("c++")
        .args(["-std=c++17", "-O1", "-fno-builtin", "-pthread", "-w", "-o"])
        .arg(&program)
        .arg(tests.join("errors.cpp"))
        .arg(hardened_static()));
    let output = finish(Command::new(&program).args(["new_free", "48", "100"]));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{stderr}");
    assert!(stderr.contains("bytes from new"), "{stderr}");
}
