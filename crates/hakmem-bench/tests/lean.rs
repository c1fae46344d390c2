//! The processes that are measured: each has one allocator, and little memory of its own.

use hakmem_bench::allocators;
use hakmem_bench::measure;
use serde_json::Value;
use std::process::Command;

/// Peak resident KiB of a process that allocates nothing.
fn nothing(allocator: &str) -> u64 {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_hakmem-run-system"));
    let program = program.with_file_name(format!("hakmem-run-{allocator}"));
    let mut command = Command::new(program);
    command.args(["run-one", "nothing", allocator]);
    let (line, finished) = measure::run(&mut command).expect("it runs");
    assert_eq!(
        (line.workload.as_str(), line.allocator.as_str()),
        ("nothing", allocator)
    );
    finished.usage.max_rss_kib
}

/// snmalloc's needs the C++ library, as every Rust program with it does. The others have 2 MiB in a
/// release build, and 5 with the code of a build for debugging.
#[test]
fn a_process_that_allocates_nothing_is_small() {
    for allocator in allocators::ALL {
        let limit = match allocator.name {
            "snmalloc" => 7 << 10,
            _ => 6 << 10,
        };
        // A process begins as a copy of this one, in which other tests may hold memory at the
        // moment.
        let mut runs = (0..50).map(|_| nothing(allocator.name));
        let kib = runs.find(|kib| *kib < limit).unwrap_or(u64::MAX);
        assert!((500..limit).contains(&kib), "{}: {kib} KiB", allocator.name);
    }
}

#[test]
fn each_has_one_allocator_and_takes_no_other() {
    let program = env!("CARGO_BIN_EXE_hakmem-run-system");
    for (arguments, words) in [
        (
            &["run-one", "tiny_hot", "hakmem"][..],
            "no allocator 'hakmem'",
        ),
        (&["run-one", "nonesuch", "system"], "no workload 'nonesuch'"),
        (
            &["run-one", "tiny_hot", "system", "--scale", "huge"],
            "no scale 'huge'",
        ),
        (
            &["run-one", "tiny_hot", "system", "--scale"],
            "--scale needs a value",
        ),
        (&["fly", "tiny_hot"], "no task 'fly'"),
        (&[], "started by hakmem-bench"),
    ] {
        let output = Command::new(program)
            .args(arguments)
            .output()
            .expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(words), "{errors}");
    }
}

/// What a shell has set must not change a comparison, nor be silently without effect in the process
/// that reads it.
#[test]
fn options_in_the_environment_are_read_by_hakmems_process_and_kept_from_comparisons() {
    let line = |command: &mut Command| -> Value {
        let output = command
            .env("HAKMEM_DECAY_MS", "7")
            .output()
            .expect("it starts");
        serde_json::from_slice(&output.stdout).expect("a line of JSON")
    };
    let smoke = ["run-one", "tiny_hot", "hakmem", "--scale", "smoke"];
    let own = line(Command::new(env!("CARGO_BIN_EXE_hakmem-run-hakmem")).args(smoke));
    assert_eq!(own["options"], serde_json::json!(["DECAY_MS=7"]));
    let mut clean = Command::new(env!("CARGO_BIN_EXE_hakmem-run-hakmem"));
    // SAFETY: the tests of this program that use the environment are this one alone.
    unsafe { std::env::set_var("HAKMEM_UNFULL_FRACTION", "4") };
    measure::clean(&mut clean);
    let own = line(clean.args(smoke));
    assert_eq!(own["options"], serde_json::json!(["DECAY_MS=7"]));
}
