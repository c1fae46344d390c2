//! `HAKMEM_STATS`: what is reported, where, and what becomes of mistakes.

mod common;

use common::{Language, Link, Reports, compile, library, preload, run};
use std::process::Command;

/// The shell of these tests. Not sh: dash ends by _exit, without exit handlers.
const SHELL: &str = "bash";

/// `script` run on hakmem, with `HAKMEM_STATS=setting`.
fn shell(setting: &str, script: &str) -> (String, String) {
    let mut command = Command::new(SHELL);
    command
        .args(["-c", script])
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_STATS", setting);
    let output = run(&mut command);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (text(output.stdout), text(output.stderr))
}

#[test]
fn lines_for_people() {
    let (stdout, stderr) = shell("1", "echo word");
    assert_eq!(stdout, "word\n");
    assert!(
        stderr.lines().count() >= 3 && stderr.lines().all(|line| line.starts_with("hakmem")),
        "{stderr}"
    );
}

#[test]
fn json_on_stderr() {
    let (_, stderr) = shell("json", "echo word");
    let line: serde_json::Value = serde_json::from_str(&stderr).expect("one JSON line");
    for key in [
        "schema",
        "pid",
        "allocations",
        "frees",
        "live_bytes",
        "peak_live_bytes",
        "reserved_bytes",
        "committed_bytes",
        "dirty_bytes",
        "purged_bytes",
        "foreign_frees",
        "heaps",
        "peak_resident_kib",
        "minor_faults",
        "major_faults",
    ] {
        assert!(line[key].is_u64(), "{key} in {line}");
    }
    assert_eq!(line["event"], "exit");
    assert!(
        line["peak_resident_kib"].as_u64() > Some(100) && line["minor_faults"].as_u64() > Some(10),
        "{line}"
    );
    for call in line["syscalls"].as_array().expect("an array") {
        assert!(call["name"].is_string() && call["calls"].is_u64(), "{call}");
        assert!(
            call["failures"].is_u64() && call["nanos"].is_u64(),
            "{call}"
        );
    }
}

/// coreutils close stderr before they end.
#[test]
fn stderr_closed_by_the_program() {
    let mut command = Command::new("ls");
    command
        .arg("/")
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_STATS", "json");
    let output = run(&mut command);
    assert!(String::from_utf8_lossy(&output.stderr).contains(r#""event":"exit""#));
}

/// Every process of a tree appends its own lines to one file, under its own number.
#[test]
fn a_file_for_all_processes() {
    let mut command = Command::new(SHELL);
    command.args(["-c", "(exit 0); /bin/ls / >/dev/null; exit 0"]);
    let reports = preload(&mut command);
    run(&mut command);
    reports.assert_served();
    let lines = reports.lines();
    let of = |event: &str| {
        lines
            .iter()
            .filter(|line| line.event == event)
            .map(|line| line.pid)
            .collect::<Vec<_>>()
    };
    let (loads, exits) = (of("load"), of("exit"));
    assert_eq!(loads.len(), 2, "the shell and ls load: {lines:?}");
    assert!(
        loads.iter().all(|pid| exits.contains(pid)),
        "and both report: {lines:?}"
    );
}

/// A program that ends without exit handlers was loaded, and that is all that is known.
#[test]
fn no_exit_handlers() {
    let mut command = Command::new(SHELL);
    let reports = preload(command.args(["-c", "kill -KILL $$"]));
    common::finish(&mut command);
    let events: Vec<_> = reports.lines().into_iter().map(|line| line.event).collect();
    assert_eq!(events, ["load"]);
}

/// The report goes where it was meant to, whatever directory the program ends in.
#[test]
fn a_relative_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(SHELL);
    command.args(["-c", "cd /; exit 0"]).current_dir(&directory);
    run(command
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_STATS", "json:here.jsonl"));
    let text = std::fs::read_to_string(directory.path().join("here.jsonl")).expect("the report");
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn a_file_that_cannot_be_written() {
    let (stdout, stderr) = shell("json:/nowhere/report", "echo word");
    assert_eq!(stdout, "word\n");
    let lines: Vec<_> = stderr.lines().collect();
    assert!(
        !lines.is_empty()
            && lines
                .iter()
                .all(|line| line.contains("cannot write /nowhere/report")),
        "{stderr}"
    );
}

#[test]
fn malformed_values_are_named_and_ignored() {
    for value in ["yes", "json:", "JSON", "2", "1 ", "csv:", "xml", ":x"] {
        let (stdout, stderr) = shell(value, "echo word");
        assert_eq!(stdout, "word\n");
        assert!(
            stderr.lines().count() == 1
                && stderr.contains(&format!("HAKMEM_STATS={value} ignored")),
            "{stderr}"
        );
    }
}

#[test]
fn nothing_asked_nothing_said() {
    for value in ["", "0"] {
        assert_eq!(
            shell(value, "echo word"),
            ("word\n".to_owned(), String::new())
        );
    }
}

/// A title written over the environment does not reach the file's name.
#[test]
fn overwritten_environment() {
    let program = compile(Language::C, "overwrite_environment.c", Link::Plain);
    let mut command = Command::new(program);
    let reports: Reports = preload(&mut command);
    run(&mut command);
    reports.assert_served();
}

/// The lists of a JSON report, against its totals.
#[test]
fn json_has_classes_and_heaps() {
    let (_, stderr) = shell("json", "printf -v x '%s ' {1..20000}; echo ${#x}");
    let line: serde_json::Value = serde_json::from_str(&stderr).expect("one JSON line");
    let of = |list: &str, key: &str| -> u64 {
        let items = line[list].as_array().expect("an array");
        items
            .iter()
            .map(|item| item[key].as_u64().expect("a number"))
            .sum()
    };
    let total = |key: &str| line[key].as_u64().expect("a number");
    assert_eq!(
        total("allocations"),
        of("classes", "allocations") + total("large_allocations") + total("whale_allocations")
    );
    assert_eq!(
        of("classes", "list_hits") + total("refills"),
        of("classes", "allocations")
    );
    assert_eq!(
        of("classes", "takes") + of("classes", "carves"),
        total("refills")
    );
    assert_eq!(of("thread_heaps", "carves"), of("classes", "carves"));
    assert_eq!(of("classes", "page_bytes"), total("page_slots") << 16);
    assert_eq!((total("heaps"), total("running_heaps")), (1, 0));
    assert!(
        total("resident_bytes") > 0 && total("cpu_nanos") > 0,
        "{line}"
    );
}

fn figure(rows: &[csv::StringRecord], list: &str, item: &str, name: &str) -> u64 {
    let mut found = rows
        .iter()
        .filter(|row| (&row[2], &row[3], &row[4]) == (list, item, name));
    let row = found
        .next()
        .unwrap_or_else(|| panic!("no {name} of {list} {item}"));
    assert!(
        found.next().is_none(),
        "{name} of {list} {item} comes twice"
    );
    row[5].parse().expect("a number")
}

#[test]
fn csv_on_stderr() {
    let (_, stderr) = shell("csv", "echo word");
    let mut reader = csv::Reader::from_reader(stderr.as_bytes());
    let header: Vec<_> = reader
        .headers()
        .expect("a header")
        .iter()
        .map(str::to_owned)
        .collect();
    assert_eq!(header, ["pid", "event", "list", "item", "name", "value"]);
    let rows: Vec<_> = reader
        .records()
        .map(|row| row.expect("well-formed"))
        .collect();
    assert!(rows.iter().all(|row| &row[1] == "exit"));
    assert_eq!(figure(&rows, "", "", "schema"), 1);
    assert!(figure(&rows, "", "", "allocations") > 0);
    assert!(figure(&rows, "classes", "64", "allocations") > 0);
    assert!(figure(&rows, "syscalls", "mmap", "calls") > 0);
    assert!(figure(&rows, "thread_heaps", "0", "handed") > 0);
}

#[test]
fn a_file_for_each_form() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for form in ["1", "json", "csv"] {
        let file = directory.path().join(form);
        let (stdout, stderr) = shell(&format!("{form}:{}", file.display()), "echo word");
        assert_eq!((stdout.as_str(), stderr.as_str()), ("word\n", ""));
        let text = std::fs::read_to_string(file).expect("the report");
        assert!(text.len() > 500, "{text}");
    }
}

/// malloc_info's XML, by a parser.
#[test]
fn xml_is_well_formed() {
    let program = compile(Language::C, "malloc_info.c", Link::Plain);
    let mut command = Command::new(program);
    let reports = preload(&mut command);
    let output = run(&mut command);
    reports.assert_served();
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let document = roxmltree::Document::parse(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let root = document.root_element();
    assert_eq!(
        (root.tag_name().name(), root.attribute("version")),
        ("malloc", Some("1"))
    );
    let ours = root
        .children()
        .find(|n| n.has_tag_name("hakmem"))
        .expect("our element");
    let number = |node: roxmltree::Node, name: &str| -> u64 {
        node.attribute(name)
            .unwrap_or_else(|| panic!("{name}"))
            .parse()
            .expect("a number")
    };
    let classes = ours
        .children()
        .find(|n| n.has_tag_name("classes"))
        .expect("classes");
    let class = classes
        .children()
        .find(|n| n.attribute("size") == Some("1024"))
        .expect("the class");
    assert!(number(class, "live_bytes") >= 1000 * 1024, "{text}");
    assert!(number(ours, "allocations") >= 1000);
}

/// The signal may come at any time; the report is written then, and the program goes on.
#[test]
fn on_a_signal() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("report");
    let script = "kill -USR2 $$; kill -USR2 $$; echo word";
    for signal in ["USR2", "SIGUSR2", "12"] {
        let mut command = Command::new(SHELL);
        command
            .args(["-c", script])
            .env("LD_PRELOAD", &library().shared)
            .env("HAKMEM_STATS", format!("json:{}", file.display()))
            .env("HAKMEM_STATS_SIGNAL", signal);
        let output = run(&mut command);
        assert_eq!(output.stdout, b"word\n");
        let text = std::fs::read_to_string(&file).expect("the report");
        let events: Vec<_> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
            .map(|line| line["event"].as_str().expect("a word").to_owned())
            .collect();
        assert_eq!(events, ["load", "signal", "signal", "exit"]);
        std::fs::remove_file(&file).expect("the report");
    }
}

#[test]
fn signals_that_will_not_do_are_named_and_ignored() {
    for (stats, signal) in [
        ("1", "KILL"),
        ("1", "9"),
        ("1", "SEGV"),
        ("1", "nonsense"),
        ("1", "99"),
        ("0", "USR2"),
    ] {
        let mut command = Command::new(SHELL);
        command
            .args(["-c", "echo word"])
            .env("LD_PRELOAD", &library().shared)
            .env("HAKMEM_STATS", stats)
            .env("HAKMEM_STATS_SIGNAL", signal);
        let output = run(&mut command);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let named = stderr
            .lines()
            .filter(|line| line.contains("HAKMEM_STATS_SIGNAL") && line.contains("ignored"));
        assert_eq!(
            (named.count(), output.stdout.as_slice()),
            (1, &b"word\n"[..]),
            "{stderr}"
        );
    }
}

/// A full disk, a pipe that nobody reads, a limit on files: the report is lost, the program ends as it would have.
#[test]
fn a_report_that_cannot_be_written_is_lost_alone() {
    let (stdout, stderr) = shell("json:/dev/full", "echo word; exit 0");
    assert_eq!(stdout, "word\n");
    assert!(
        stderr.lines().count() > 0 && stderr.lines().all(|l| l.contains("cannot write /dev/full")),
        "{stderr}"
    );

    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("report");
    let limited = format!(
        "HAKMEM_STATS=json:{} LD_PRELOAD=$LIB perl -e 'exit 7'; echo $?",
        file.display()
    );
    let mut command = Command::new(SHELL);
    command
        .args(["-c", &format!("ulimit -f 1; {limited}")])
        .env("LIB", &library().shared);
    let output = run(&mut command);
    assert_eq!(
        output.stdout,
        b"7\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );

    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new("perl");
    command
        .args(["-e", "exit 7"])
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_STATS", "json")
        .stdin(std::process::Stdio::null())
        .stderr(writer);
    let status = command.status().expect("perl runs");
    assert_eq!(status.code(), Some(7), "{status}");
}
