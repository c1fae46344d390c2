//! What mode `learn` decides in a program is what every view of it shows.

use crate::common;

use common::*;
use std::process::{Command, Stdio};

/// Decisions as the commands print them, without when they were made: what is behind `mark` in its
/// lines.
fn decisions<'a>(text: &'a str, mark: &str) -> Vec<&'a str> {
    let lines = text.lines();
    lines.filter_map(|l| Some(l.split_once(mark)?.1)).collect()
}

#[test]
fn decisions_are_seen_while_it_runs_and_at_its_end() {
    let program = BUILT.compile("learns.c", "learns", &["-fno-builtin"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report");
    let mut command = Command::new(program);
    command
        .env("LD_PRELOAD", &*HAKMEM)
        .env("HAKMEM_MODE", "learn")
        .env("HAKMEM_STATS", format!("json:{}", file.display()))
        .stdin(Stdio::piped());
    let mut learner = Ready::new(command);
    let output = hakmem()
        .args(["top", "--batch", "1", &learner.pid().to_string()])
        .output()
        .unwrap();
    let live = stdout(&output);
    drop(learner.child.stdin.take());
    assert!(learner.child.wait().unwrap().success());

    // The last eight are shown.
    let live = decisions(&live, " s ago  ");
    let moved = live.iter().find(|d| d.starts_with("HUGE_CACHE_MIB 32 to "));
    let moved = moved.unwrap_or_else(|| panic!("{output:?}"));
    assert!(moved.contains("(faults + memory held)"), "{moved}");

    // It may have decided more on its way to the end.
    let stat = hakmem()
        .args(["stat", "--file"])
        .arg(&file)
        .output()
        .unwrap();
    let stat = stdout(&stat);
    let at_end = decisions(&stat, " s  ");
    let at_end: Vec<_> = at_end
        .into_iter()
        .filter(|d| d.contains(" against "))
        .collect();
    assert!(
        at_end.windows(live.len()).any(|part| part == live),
        "{live:#?}\n{stat}"
    );
    let text = std::fs::read_to_string(&file).unwrap();
    let report = text.lines().last().unwrap();
    let report: serde_json::Value = serde_json::from_str(report).unwrap();
    assert_eq!(report["decided"], at_end.len());
    assert_eq!(report["decisions"].as_array().unwrap().len(), at_end.len());
    let first = &report["decisions"][0];
    let (option, from) = (first["option"].as_str().unwrap(), &first["from"]);
    assert!(at_end[0].starts_with(&format!("{option} {from} to ")));
}
