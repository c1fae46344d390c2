//! `hakmem options`, and the page that has its table.

use crate::common;

use common::*;
use hakmem_core::options::{TABLE, Values};
use std::path::Path;

fn options(arguments: &[&str]) -> String {
    let output = hakmem().arg("options").args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

/// The words of a text, wherever its lines end.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Every option once, with its default and its meaning.
#[test]
fn in_words() {
    let text = options(&[]);
    for entry in TABLE.iter() {
        let name = format!("  HAKMEM_{} ", entry.name());
        let lines: Vec<_> = text.lines().filter(|l| l.starts_with(&name)).collect();
        assert_eq!(lines.len(), 1, "{name} in\n{text}");
        let default = entry.default_value().map(|d| d.to_string());
        assert!(
            lines[0].contains(&default.unwrap_or("none".to_owned())),
            "{}",
            lines[0]
        );
        assert!(words(&text).contains(&words(entry.meaning())));
    }
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?} columns\n{text}");
}

/// With the prefix or without, in either case; a name that is nearly right is put right.
#[test]
fn one_by_its_name() {
    let entry = TABLE.iter().find(|e| e.name() == "DECAY_MS").unwrap();
    for name in ["DECAY_MS", "HAKMEM_DECAY_MS", "decay_ms", "hakmem_decay_ms"] {
        let text = options(&[name]);
        let rest = words(&text).replace(&words(entry.meaning()), "");
        assert_eq!(rest, "HAKMEM_DECAY_MS 500 ms 0 to 86400000 ", "{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&options(&["MODE", "--json"])).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 1);
    let output = hakmem().args(["options", "DECAY_MSS"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_says(&output, "'DECAY_MS'");
}

/// All names, in lines that fit, and the nearest one, in whatever case.
#[test]
fn an_unknown_name() {
    for (name, nearest) in [
        ("NOPE", None),
        ("mod", Some("MODE")),
        ("hakmem_decay_mss", Some("DECAY_MS")),
    ] {
        let output = hakmem().args(["options", name]).output().unwrap();
        assert_ended(&output, 2, "");
        let text = stderr(&output);
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{text}");
        assert_eq!(
            text.contains("a similar value"),
            nearest.is_some(),
            "{text}"
        );
        if let Some(nearest) = nearest {
            assert_says(&output, &format!("a similar value exists: '{nearest}'"));
        }
        assert!(words(&text).contains("[possible values: "), "{text}");
    }
}

/// What is in force there, whoever has set it.
#[test]
fn of_a_running_process() {
    let mut command = std::process::Command::new(&*KNOWN);
    command
        .env("LD_PRELOAD", &*HAKMEM)
        .env("HAKMEM_DECAY_MS", "2s")
        .env("HAKMEM_FOREIGN", "leak")
        .env("HAKMEM_CARVE_BYTES", "8192,64:512")
        .stdin(std::process::Stdio::piped());
    let known = Ready::new(command);
    let pid = known.pid().to_string();
    let text = options(&["--pid", &pid]);
    for line in [
        "HAKMEM_DECAY_MS=2000  (default: 500)\n",
        "HAKMEM_FOREIGN=leak  (default: forward)\n",
        "HAKMEM_CARVE_BYTES=8192,64:512  (default: 4096)\n",
        "HAKMEM_MODE=frozen\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let settable = TABLE.iter().filter(|e| e.default_value().is_some());
    // How system calls are timed lies elsewhere.
    assert_eq!(text.lines().count(), settable.count() - 1, "{text}");
    let one = options(&["DECAY_MS", "--pid", &pid]);
    assert_eq!(one, "HAKMEM_DECAY_MS=2000  (default: 500)\n");
}

/// What the process read at its start is what its environment says.
#[test]
fn of_a_running_process_at_its_start() {
    let mut command = std::process::Command::new(&*KNOWN);
    command
        .env("LD_PRELOAD", &*HAKMEM)
        .env("HAKMEM_STATS_SIGNAL", "USR2")
        .env("HAKMEM_MAP", "/tmp/\u{1b}[2J.%p")
        .env("HAKMEM_TIMING", "1")
        .stdin(std::process::Stdio::piped());
    let known = Ready::new(command);
    let pid = known.pid().to_string();
    let all = options(&["--pid", &pid]);
    let lines = [
        "HAKMEM_STATS_SIGNAL=USR2  (set at the start)\n",
        "HAKMEM_MAP=/tmp/?[2J.%p  (set at the start)\n",
        "HAKMEM_TIMING=1  (set at the start)\n",
    ];
    for line in lines {
        assert!(all.contains(line), "{line} in {all}");
    }
    assert!(!all.contains("HAKMEM_STATS="), "{all}");
    assert_eq!(options(&["stats_signal", "--pid", &pid]), lines[0]);
    let not_set = "HAKMEM_STATS  (not set at the start)\n";
    assert_eq!(options(&["STATS", "--pid", &pid]), not_set);
}

#[test]
fn as_json() {
    let lines: serde_json::Value = serde_json::from_str(&options(&["--json"])).expect("JSON");
    let lines = lines.as_array().expect("an array");
    assert_eq!(lines.len(), TABLE.len());
    for (line, entry) in lines.iter().zip(TABLE.iter()) {
        assert_eq!(line["name"], format!("HAKMEM_{}", entry.name()));
        assert_eq!(line["meaning"], entry.meaning());
        assert_eq!(line["by_class"], entry.is_by_class());
        let values = &line["values"];
        match entry.values() {
            Values::Number(from, to) => {
                assert_eq!(values["number"]["from"], from);
                assert_eq!(values["number"]["to"], to);
                let default = line["default"].as_str().expect("a string");
                let default: u32 = default.parse().expect("a number");
                assert!((from..=to).contains(&default), "{line}");
            }
            Values::Switch => assert!(values == "switch", "{line}"),
            Values::Word(words) => assert_eq!(values["word"], serde_json::json!(words)),
            Values::Text(text) => assert!(values["text"] == text && line["default"].is_null()),
        }
    }
}

/// The table in the page is what the command prints. `BLESS=1` writes it anew.
#[test]
fn the_page_is_current() {
    const FIRST: &str = "<!-- hakmem options --markdown -->\n";
    const LAST: &str = "<!-- end -->\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/options.md");
    let page = std::fs::read_to_string(&path).expect("docs/options.md");
    let (before, rest) = page.split_once(FIRST).expect("where the table begins");
    let (_, after) = rest.split_once(LAST).expect("where it ends");
    let made = format!("{before}{FIRST}{}{LAST}{after}", options(&["--markdown"]));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &made).expect("the page can be written");
    } else {
        assert!(
            made == page,
            "docs/options.md is out of date: run again with BLESS=1"
        );
    }
}

/// What a program is told of a mistake, once, by whichever command it is run, and that it goes on.
#[test]
fn a_mistake_in_the_environment_of_a_program() {
    for way in [&["run", "--require"][..], &["stat"], &["top"]] {
        let mut command = hakmem();
        command.args(way).arg("--lib").arg(&*HAKMEM);
        command.args(["--", "/bin/echo", "on"]);
        command
            .env("HAKMEM_DECAY_MS", "soon")
            .env("HAKMEM_WHAT", "");
        let output = command.output().unwrap();
        assert_eq!(stdout(&output), "on\n");
        let text = stderr(&output);
        for line in [
            "HAKMEM_DECAY_MS=soon ignored: not a whole number from 0 to 86400000, in ms",
            "unknown option HAKMEM_WHAT, ignored",
        ] {
            assert_eq!(text.matches(line).count(), 1, "{line} in\n{text}");
        }
    }
}

/// A command that runs no program says nothing of them.
#[test]
fn a_mistake_in_the_environment_of_a_command() {
    let mut command = hakmem();
    let output = command
        .arg("options")
        .env("HAKMEM_WHAT", "")
        .output()
        .unwrap();
    assert_eq!(
        (output.status.code(), stderr(&output).as_str()),
        (Some(0), "")
    );
}

/// A reader that has seen enough, and a disk that is full.
#[test]
fn output_that_cannot_be_written() {
    let hakmem = env!("CARGO_BIN_EXE_hakmem");
    let shell = |script: &str| {
        let mut command = std::process::Command::new("bash");
        command.args(["-c", script, hakmem]).output().unwrap()
    };
    let output = shell("\"$0\" options | head -1; exit ${PIPESTATUS[0]}");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = shell("\"$0\" options >/dev/full");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot write"));
}
