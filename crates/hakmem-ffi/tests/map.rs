//! The map: `hakmem_map` and `HAKMEM_MAP`.

use crate::common;

use common::{Language, Link, compile, library, run};
use serde_json::Value;
use std::process::Command;

/// What the map's slots of `use` page and of this size of blocks have under `key`, summed.
fn sum(map: &Value, size: u64, key: &str) -> u64 {
    let segments = map["segments"].as_array().expect("segments");
    let slots = segments
        .iter()
        .flat_map(|s| s["slots"].as_array().into_iter().flatten());
    let pages = slots.filter(|slot| slot["use"] == "page" && slot["size"] == size);
    pages
        .map(|page| page[key].as_u64().expect("a number"))
        .sum()
}

/// What is on the calling thread's list is not out.
#[test]
fn a_program_draws_itself_to_the_block() {
    let program = compile(Language::C, "map.c", Link::Static);
    let output = run(&mut Command::new(program));
    let map: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&map["schema"], &map["kind"]), (&1.into(), &"map".into()));
    assert_eq!(
        (&map["event"], &map["slot_bytes"]),
        (&"call".into(), &65536.into())
    );
    assert_eq!(sum(&map, 3072, "used"), 970);
    // A page of which all blocks were freed is carved anew.
    assert!(sum(&map, 3072, "carved") >= 970);
    for segment in map["segments"].as_array().expect("segments") {
        let slots = segment["slots"].as_array().expect("slots");
        assert_eq!(
            slots
                .iter()
                .map(|s| s["span"].as_u64().expect("a number"))
                .sum::<u64>(),
            32
        );
        let resident = segment["resident"].as_array().expect("resident");
        assert!(resident.iter().all(|n| n.as_u64() <= Some(16)) && resident.len() == 32);
    }
}

fn shell(map: &str, signal: Option<&str>, script: &str) -> (String, String) {
    let mut command = Command::new("bash");
    command
        .args(["-c", script])
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_MAP", map);
    if let Some(signal) = signal {
        command.env("HAKMEM_STATS_SIGNAL", signal);
    }
    let output = run(&mut command);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (text(output.stdout), text(output.stderr))
}

#[test]
fn at_a_signal_and_at_the_end() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("maps");
    let name = file.to_str().expect("UTF-8");
    let (stdout, stderr) = shell(name, Some("USR2"), "kill -USR2 $$; echo word; exit 0");
    assert_eq!((stdout.as_str(), stderr.as_str()), ("word\n", ""));
    let text = std::fs::read_to_string(&file).expect("the maps");
    let maps: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect();
    let events: Vec<_> = maps.iter().map(|m| m["event"].as_str()).collect();
    assert_eq!(events, [Some("signal"), Some("exit")]);
    assert!(maps.iter().all(|m| m["program"] == "bash"));
}

#[test]
fn a_map_that_cannot_be_written_is_lost_alone() {
    for (place, why) in [
        ("/dev/full", "No space left on device"),
        ("/nowhere/map", "No such file or directory"),
    ] {
        let (stdout, stderr) = shell(place, None, "echo word; exit 0");
        assert_eq!(stdout, "word\n");
        assert_eq!(
            stderr,
            format!("hakmem: report lost: cannot write {place}: {why}\n")
        );
    }
    assert_eq!(
        shell("", None, "echo word; exit 0"),
        ("word\n".into(), String::new())
    );
}

/// A name that is no plain text does not break the form.
#[test]
fn odd_names() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = directory.path().join("a\"\\\t\u{e9}<");
    std::fs::copy("/usr/bin/true", &program).expect("a copy of true");
    let file = directory.path().join("map");
    let mut command = Command::new(program);
    command
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_MAP", &file);
    run(&mut command);
    let text = std::fs::read_to_string(&file).expect("the map");
    let map: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(map["program"], "a\"\\?\u{e9}<");
}
