//! Rust programs that have the allocator inside: what the environment asks for is what a preloaded
//! program gives.

use crate::common;

use common::{built, library, run};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The fixture `serialized`. With its feature the core depends on serde, which the workspace's
/// build has with `std`, and the library could not have: so it is built by itself.
fn serialized() -> PathBuf {
    let args = [
        "--profile",
        "test",
        "--package",
        "hakmem-fixtures",
        "--example",
        "serialized",
        "--features",
        "serde",
    ];
    built::build(&args).example("serialized")
}

/// The fixture `reported`, without `HAKMEM_…` in its environment.
fn reported() -> Command {
    let mut command = Command::new(built::debugged().example("reported"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HAKMEM_") {
            command.env_remove(name);
        }
    }
    command.env_remove("LD_PRELOAD");
    command
}

/// What the program writes to standard error and to the file that `{file}` in `value` stands for.
fn with(settings: &[(&str, &str)], args: &[&str]) -> (String, String) {
    let directory = TempDir::new().expect("a temporary directory");
    let file = directory.path().join("file");
    let mut command = reported();
    command.args(args);
    for (name, value) in settings {
        command.env(
            name,
            value.replace("{file}", file.to_str().expect("a path in UTF-8")),
        );
    }
    let output = run(&mut command);
    assert_eq!(output.stdout, b"done\n");
    (
        String::from_utf8(output.stderr).expect("UTF-8"),
        read(&file),
    )
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

fn lines(text: &str) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    text.lines().map(parse).collect()
}

fn events(lines: &[Value]) -> Vec<&str> {
    lines.iter().filter_map(|l| l["event"].as_str()).collect()
}

/// The figures of blocks of 3000 bytes are those of the program at its end.
fn assert_of_the_end(report: &Value) {
    let classes = report["classes"].as_array().expect("a list");
    let class = classes.iter().find(|class| class["size"] == 3072);
    let class = class.expect("the class of 3072 bytes");
    assert_eq!(class["allocations"], 1000, "{class}");
    assert_eq!(class["frees"], 500, "{class}");
    assert_eq!(class["live_bytes"], 500 * 3072, "{class}");
    assert!(report["allocations"].as_u64() >= Some(1000), "{report}");
}

#[test]
fn nothing_is_written_unasked() {
    assert_eq!(with(&[], &[]), (String::new(), String::new()));
    let none = [("HAKMEM_STATS", "0"), ("HAKMEM_PROFILE", "")];
    assert_eq!(with(&none, &[]), (String::new(), String::new()));
}

#[test]
fn lines_for_people() {
    let (stderr, _) = with(&[("HAKMEM_STATS", "1")], &[]);
    assert!(stderr.lines().count() >= 3 && stderr.lines().all(|line| line.starts_with("hakmem")));
    let class = |line: &&str| line.split_whitespace().nth(1) == Some("3072");
    let line = stderr.lines().find(class).expect("the class");
    let words: Vec<_> = line.split_whitespace().collect();
    assert_eq!(words[2..4], ["1000", "500"], "{line}");
}

#[test]
fn json() {
    let (stderr, _) = with(&[("HAKMEM_STATS", "json")], &[]);
    let report: Value = serde_json::from_str(&stderr).expect("one JSON line");
    assert_eq!(report["event"], "exit");
    assert_of_the_end(&report);

    let (stderr, file) = with(&[("HAKMEM_STATS", "json:{file}")], &[]);
    let lines = lines(&file);
    assert_eq!((events(&lines), &*stderr), (vec!["load", "exit"], ""));
    assert_of_the_end(&lines[1]);
}

#[test]
fn csv() {
    let (_, file) = with(&[("HAKMEM_STATS", "csv:{file}")], &[]);
    assert!(file.contains(",exit,classes,3072,allocations,1000\n"));
    assert!(file.contains(",exit,classes,3072,frees,500\n"));
}

#[test]
fn on_a_signal() {
    let settings = [
        ("HAKMEM_STATS", "json:{file}"),
        ("HAKMEM_STATS_SIGNAL", "USR2"),
    ];
    let number = libc::SIGUSR2.to_string();
    let (_, file) = with(&settings, &[&number, &number]);
    let lines = lines(&file);
    assert_eq!(events(&lines), ["load", "signal", "signal", "exit"]);
    assert_of_the_end(&lines[3]);
}

#[test]
fn a_map() {
    let settings = [("HAKMEM_MAP", "{file}"), ("HAKMEM_STATS_SIGNAL", "USR2")];
    let (stderr, file) = with(&settings, &[&libc::SIGUSR2.to_string()]);
    let maps = lines(&file);
    assert_eq!((events(&maps), &*stderr), (vec!["signal", "exit"], ""));
    let segments = maps[1]["segments"].as_array().expect("a list");
    let slots = segments.iter().filter_map(|s| s["slots"].as_array());
    let of_class = slots.flatten().filter(|slot| slot["size"] == 3072);
    let out: u64 = of_class.filter_map(|slot| slot["used"].as_u64()).sum();
    assert!((500..=520).contains(&out), "{out} blocks of 3000 bytes");
}

/// The blocks that are live when the profile is written are those of the function that made them.
#[test]
fn a_profile() {
    let settings = [
        ("HAKMEM_PROFILE", "{file}"),
        ("HAKMEM_PROFILE_INTERVAL", "1"),
        ("HAKMEM_PROFILE_SIGNAL", "USR1"),
    ];
    let (stderr, file) = with(&settings, &[&libc::SIGUSR1.to_string()]);
    assert_eq!(stderr, "");
    let written: Vec<_> = file.split("heap profile: ").skip(1).collect();
    assert_eq!(written.len(), 2, "{file}");
    assert!(written[0].contains("event=signal") && written[1].contains("event=exit"));
    for (profile, live) in written.iter().zip([990, 500]) {
        let bytes = live * 3072;
        let line = format!("{live}: {bytes} [1000: 3072000] @");
        assert!(profile.contains(&line), "{line} in {profile}");
    }
}

/// The program's copy reports, and the preloaded one leaves that to it: each of the two has its own
/// figures.
#[test]
fn preloaded() {
    let directory = TempDir::new().expect("a temporary directory");
    let file = |name: &str| directory.path().join(name).display().to_string();
    let mut command = reported();
    command
        .args([libc::SIGUSR2.to_string(), libc::SIGUSR1.to_string()])
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_STATS", format!("json:{}", file("stats")))
        .env("HAKMEM_STATS_SIGNAL", "USR2")
        .env("HAKMEM_MAP", file("map"))
        .env("HAKMEM_PROFILE", file("profile"))
        .env("HAKMEM_PROFILE_SIGNAL", "USR1");
    run(&mut command);
    let lines_of = |name| lines(&read(Path::new(&file(name))));
    let reports = lines_of("stats");
    assert_eq!(events(&reports), ["load", "signal", "exit"]);
    assert_of_the_end(&reports[2]);
    assert_eq!(events(&lines_of("map")), ["signal", "exit"]);
    let profile = read(Path::new(&file("profile")));
    assert_eq!(profile.matches("heap profile: ").count(), 2, "{profile}");
}

// The feature `serde`.

/// What the report has besides: why it was written, and what the system says of the process.
const OF_THE_REPORT: [&str; 9] = [
    "schema",
    "event",
    "pid",
    "resident_bytes",
    "peak_resident_bytes",
    "peak_resident_kib",
    "minor_faults",
    "major_faults",
    "cpu_nanos",
];

fn names(item: &Value) -> Vec<&str> {
    let fields = item.as_object().unwrap_or_else(|| panic!("{item}"));
    fields.keys().map(String::as_str).collect()
}

/// Of one moment, and each part of it has the names of its place in the report.
#[test]
fn the_json_of_serde_is_that_of_the_report() {
    let output = run(&mut Command::new(serialized()));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let [mut ours, mut reported, parts] = <[Value; 3]>::try_from(lines(&text)).expect("3 lines");
    for name in OF_THE_REPORT {
        let fields = reported.as_object_mut().expect("an object");
        assert!(fields.remove(name).is_some(), "{name}");
    }
    for heap in ours["thread_heaps"].as_array_mut().expect("a list") {
        let state = heap.as_object_mut().expect("an object").remove("state");
        assert_eq!(state.expect("a word") == "idle", heap["running"] == 0);
    }
    for list in ["classes", "thread_heaps", "syscalls", "foreign_sites"] {
        assert_ne!(ours[list], json!([]), "{list}");
    }
    assert_eq!(ours, reported);

    let all = names(&ours);
    for part in ["stats", "heap_walk"] {
        let known = |name: &&str| all.contains(name);
        assert!(names(&parts[part]).iter().all(known), "{}", parts[part]);
    }
    for (part, list) in [("class", "classes"), ("syscall", "syscalls")] {
        assert_eq!(names(&parts[part]), names(&ours[list][0]));
    }
    // It has its state in place of its number.
    let mut heap = names(&ours["thread_heaps"][0]);
    heap.retain(|name| *name != "heap");
    heap.push("state");
    heap.sort_unstable();
    let mut alone = names(&parts["heap"]);
    alone.sort_unstable();
    assert_eq!(alone, heap);
    assert_eq!(parts["states"], json!(["own", "running", "idle"]));
    assert_eq!(parts["site"], json!({"address": "0xabc", "frees": 3}));
    let decision = json!({
        "option": "DECAY_MS", "at_ms": 1, "from": 2, "to": 3, "round_ms": 8,
        "from_fault_us": 4, "from_hold_us": 5, "to_fault_us": 6, "to_hold_us": 7,
        "from_rating": 1400, "to_rating": 1600
    });
    assert_eq!(parts["decision"], decision);
}

/// A copy in a library that a program loads says nothing.
#[test]
fn a_plugin() {
    let plugin = common::released().of("plugin", ".so");
    let directory = TempDir::new().expect("a temporary directory");
    let file = directory.path().join("file");
    // bash loads it as if it had a builtin in it, which fails behind its constructors.
    let mut command = Command::new("bash");
    command
        .arg("-c")
        .arg(format!("enable -f {} nothing", plugin.display()))
        .env_remove("LD_PRELOAD")
        .env("HAKMEM_STATS", format!("json:{}", file.display()));
    let output = common::finish(&mut command);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("nothing_struct"), "not loaded: {stderr}");
    assert_eq!(read(&file), "");
}
