//! Heaps that a program made, in `hakmem stat`, `top` and `map`.

use crate::common;

use common::*;
use serde_json::Value;
use std::process::{Command, Output, Stdio};

fn heaps() -> Ready {
    let mut command = Command::new(&*HEAPS);
    command.env("LD_PRELOAD", &*HAKMEM).stdin(Stdio::piped());
    Ready::new(command)
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    stdout(output)
}

/// The cells of the line that begins with `name`.
fn row(text: &str, name: &str) -> Vec<String> {
    let line = text.lines().find(|line| line.trim().starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
    let cells = line.split("  ").map(str::trim);
    cells
        .filter(|cell| !cell.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Both have the same table.
fn assert_table(text: &str) {
    assert!(text.contains("heaps of the program"), "{text}");
    let tiles = row(text, "tiles");
    assert_eq!(
        tiles[1..7],
        ["600.0 KiB", "600.0 KiB", "1.0 MiB", "1", "200", "0"],
        "{text}"
    );
    let words = row(text, "words (dropped)");
    assert_eq!(words[1..4], ["5.0 KiB", "5.0 KiB", "-"], "{text}");
}

#[test]
fn a_running_program_is_seen_by_top() {
    let heaps = heaps();
    let mut command = hakmem();
    command.args(["top", "--batch", "1", &heaps.pid().to_string()]);
    let text = said(&command.output().unwrap());
    assert_table(&text);
    // Its live bytes are those of its heaps, and little else.
    let live = row(&text, "live")[1].clone();
    assert!(live.starts_with("4.9") && live.contains("MiB"), "{text}");
}

#[test]
fn a_running_program_is_seen_by_map() {
    let heaps = heaps();
    let map = |options: &[&str]| {
        let mut command = hakmem();
        command.args(["map", "-o", "-"]).args(options);
        said(
            &command
                .args(["--pid", &heaps.pid().to_string()])
                .output()
                .unwrap(),
        )
    };
    let json: Value = serde_json::from_str(&map(&["--json"])).unwrap();
    let segments = json["segments"].as_array().unwrap();
    let slots = segments
        .iter()
        .filter_map(|segment| segment["slots"].as_array());
    let pages: Vec<&Value> = slots
        .flatten()
        .filter(|slot| slot["state"] == "program")
        .collect();
    let of = |name: &str| -> u64 {
        let pages = pages.iter().filter(|page| page["heap"] == name);
        pages.map(|page| page["used"].as_u64().unwrap()).sum()
    };
    assert_eq!((of("tiles"), of("words")), (200, 1), "{pages:?}");
    let large = segments
        .iter()
        .filter_map(|segment| segment["slots"].as_array())
        .flatten()
        .find(|slot| slot["use"] == "large" && slot["heap"] == "films");
    assert_eq!(large.unwrap()["span"], 5, "{segments:?}");
    let huge = segments.iter().find(|segment| segment["huge"] == 2);
    assert_eq!(huge.unwrap()["heap"], "films");
    let picture = map(&[]);
    assert!(
        picture.contains("; of the program&#39;s heap tiles")
            || picture.contains("; of the program's heap tiles")
    );
    assert_eq!(picture.matches("heap films").count(), 2);
}

/// The report has what the reader from outside sees, and the map of the library too.
#[test]
fn the_end_of_a_program_is_seen_by_stat() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("map");
    let mut command = hakmem();
    command.args(["stat", "--lib"]).arg(&*HAKMEM).arg("--");
    command
        .arg(&*HEAPS)
        .env("HAKMEM_MAP", &file)
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    // The block that was left is freed, and the heap has ended with it.
    assert_eq!(row(&text, "tiles")[1], "600.0 KiB", "{text}");
    assert!(!text.contains("words"), "{text}");
    let map = std::fs::read_to_string(file).unwrap();
    for part in [
        r#""state":"program","heap":"tiles""#,
        r#""span":5,"use":"large","heap":"films""#,
    ] {
        assert!(map.contains(part), "{part}: {map:.2000}");
    }
    let huge = map.split("{\"address\"").find(|s| s.contains("\"huge\":2"));
    assert!(huge.unwrap().contains(r#""heap":"films""#), "{huge:?}");
}

/// Neither program allocates by an ordinary call outside of a scope, and the heap of the second has
/// ended before it does.
#[test]
fn a_program_that_has_only_heaps_of_its_own_is_served() {
    let only = built::debugged().example("heap_only");
    let folder = tempfile::tempdir().unwrap();
    for (program, served) in [(&*HEAPS, "203"), (&only, "1,000")] {
        let run = |verb: &[&str]| {
            let mut command = hakmem();
            command.args(verb).arg("--lib").arg(&*HAKMEM).arg("--");
            let output = command.arg(program).current_dir(&folder).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            stderr(&output)
        };
        let text = run(&["run", "--require", "--stats"]);
        assert_eq!(row(&text, "from its own heaps")[1], served, "{text}");
        let text = run(&["profile", "--interval", "1"]);
        assert!(!text.contains("served no allocations"), "{text}");
        assert!(text.contains("wrote hakmem-"), "{text}");
    }
}
