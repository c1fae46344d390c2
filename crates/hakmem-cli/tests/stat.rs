//! `hakmem stat` with the library of this workspace.

use crate::common;

use common::*;
use serde_json::{Value, json};
use std::io::Write;
use std::process::Stdio;

#[test]
fn of_a_program() {
    let mut command = hakmem();
    command.args(["stat", "--lib"]).arg(&*HAKMEM);
    command.args([
        "--",
        "perl",
        "-e",
        "my @a = map { \"x$_\" } 1..100000; print $#a; exit 7",
    ]);
    let output = command.output().unwrap();
    let text = stderr(&output);
    assert_ended(&output, 7, "99999");
    for part in [
        "size classes",
        "thread heaps",
        "system calls",
        "list hits",
        "resident",
        "mmap",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let row = text
        .lines()
        .find(|l| l.split_whitespace().next() == Some("16"))
        .expect("the class of 16 bytes");
    let allocations: u64 = row
        .split_whitespace()
        .nth(1)
        .unwrap()
        .replace(',', "")
        .parse()
        .unwrap();
    assert!(allocations >= 100_000, "{row}");
}

/// `stat` and `run --stats` say what the hard limit refused.
#[test]
fn of_a_program_at_its_limit() {
    for (words, limit) in [
        (&["stat"][..], "64.0 MiB held; requests refused: 1"),
        (&["run", "--stats"], "1 request refused"),
    ] {
        let mut command = hakmem();
        command.args(words).arg("--lib").arg(&*HAKMEM);
        command.args(["--", "python3", "-c"]);
        command.arg("try: bytearray(200_000_000)\nexcept MemoryError: print('refused')");
        let output = command.env("HAKMEM_HARD_LIMIT_MIB", "64").output().unwrap();
        assert_ended(&output, 0, "refused\n");
        let text = stderr(&output);
        let mut rows = text.lines().map(str::trim);
        let row = rows.find(|line| line.starts_with("hard limit"));
        let row = row.unwrap_or_else(|| panic!("no limit in {text}"));
        assert!(row.ends_with(limit), "{row}");
    }
}

/// `top` shows a limit that the process has, and reads it in the process.
#[test]
fn of_a_running_program_at_its_limit() {
    let mut command = std::process::Command::new("python3");
    command
        .args(["-c"])
        .arg(
            "try: bytearray(200_000_000)\nexcept MemoryError: pass\n\
             print('ready', flush=True); input()",
        )
        .env("LD_PRELOAD", &*HAKMEM)
        .env("HAKMEM_HARD_LIMIT_MIB", "64")
        .stdin(Stdio::piped());
    let limited = Ready::new(command);
    let output = hakmem()
        .args(["top", "--batch", "1", "--pid", &limited.pid().to_string()])
        .output()
        .unwrap();
    let text = stdout(&output);
    let mut rows = text.lines().map(str::trim);
    let row = rows.find(|line| line.starts_with("hard limit"));
    let row = row.unwrap_or_else(|| panic!("no limit in {text}"));
    assert!(
        row.ends_with(" of 64.0 MiB held; requests refused: 1") && !row.contains(" 0 B of"),
        "{row}"
    );
}

/// A heap tells the process's total of live bytes in steps of 1 MiB. A small program has told
/// nothing yet.
#[test]
fn a_small_program_was_once_as_large_as_it_is() {
    let mut command = std::process::Command::new("bash");
    command
        .args(["-c", "echo ready; read line"])
        .env("LD_PRELOAD", &*HAKMEM)
        .stdin(Stdio::piped());
    let small = Ready::new(command);
    let pid = small.pid().to_string();
    for words in [
        &["stat", "--pid", &pid][..],
        &["top", "--batch", "1", "--pid", &pid],
    ] {
        let text = stdout(&hakmem().args(words).output().unwrap());
        let live = text.lines().find_map(|l| l.trim().strip_prefix("live "));
        let (live, peak) = live.unwrap().split_once(", never more than ").unwrap();
        let [live, peak] = [live, peak].map(|text| {
            let (number, unit) = text.trim().split_once(' ').unwrap();
            number.parse::<f64>().unwrap() * if unit == "B" { 1.0 } else { 1024.0 }
        });
        assert!(live > 0.0 && peak >= live, "{text}");
    }
}

/// Lists of running threads are followed.
#[test]
fn figures_of_a_process_at_rest_are_not_called_inexact() {
    let mut command = std::process::Command::new("bash");
    command
        .args(["-c", "echo ready; read line"])
        .env("LD_PRELOAD", &*HAKMEM)
        .stdin(Stdio::piped());
    let rests = Ready::new(command);
    let pid = rests.pid().to_string();
    let output = hakmem().args(["stat", "--pid", &pid]).output().unwrap();
    let text = stdout(&output);
    assert!(
        text.contains("thread heaps") && !text.contains("not exact"),
        "{text}"
    );
}

/// The last report of each process, from a file and from standard input.
#[test]
fn of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report");
    let mut command = std::process::Command::new("bash");
    command
        .args(["-c", "perl -e 1; kill -USR2 $$; exit 0"])
        .env("LD_PRELOAD", &*HAKMEM);
    command
        .env("HAKMEM_STATS", format!("json:{}", file.display()))
        .env("HAKMEM_STATS_SIGNAL", "USR2");
    assert!(command.status().unwrap().success());
    let output = hakmem()
        .args(["stat", "--file"])
        .arg(&file)
        .output()
        .unwrap();
    let text = stdout(&output);
    assert_eq!(
        (output.status.code(), stderr(&output).as_str()),
        (Some(0), "")
    );
    assert_eq!(
        text.lines()
            .filter(|l| l.starts_with("process ") && l.ends_with(" at exit"))
            .count(),
        2,
        "{text}"
    );

    let mut child = hakmem()
        .args(["stat", "--file", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(&std::fs::read(&file).unwrap())
        .unwrap();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), text);
}

#[test]
fn what_is_no_report_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nonsense");
    let of = |file: &std::path::Path| {
        hakmem()
            .args(["stat", "--file"])
            .arg(file)
            .output()
            .unwrap()
    };
    let output = of(&file);
    assert_eq!(output.status.code(), Some(1));
    assert_says(&output, "cannot read");
    std::fs::write(&file, "nonsense\n{\"schema\":99,\"event\":\"exit\"}\n").unwrap();
    let output = of(&file);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(
        text.contains("2 of the lines cannot be read") && text.contains("has no report"),
        "{text}"
    );
}

/// A process that was killed wrote the line of its start alone.
#[test]
fn processes_that_left_no_report_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report");
    let load = |pid: u32| format!("{{\"schema\":2,\"event\":\"load\",\"pid\":{pid}}}\n");
    let said = |pids: std::ops::RangeInclusive<u32>| {
        std::fs::write(&file, pids.map(load).collect::<String>()).unwrap();
        let output = hakmem().args(["stat", "--file"]).arg(&file).output();
        let output = output.unwrap();
        assert_ended(&output, 1, "");
        stderr(&output)
    };
    let one = said(7..=7);
    assert!(
        one.contains("has no report: process 7 started, and wrote none"),
        "{one}"
    );
    let two = said(7..=8);
    assert!(
        two.contains("processes 7, 8 started, and wrote none"),
        "{two}"
    );
    let many = said(1..=10);
    assert!(many.contains(" 7, 8 and 2 more started"), "{many}");
}

/// Whatever a file has in it, the one who reads it is not harmed.
#[test]
fn a_forged_report_is_refused_or_shown_without_harm() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("reports");
    let mut command = std::process::Command::new("perl");
    let stats = format!("json:{}", file.display());
    command
        .args(["-e", "1"])
        .env("LD_PRELOAD", &*HAKMEM)
        .env("HAKMEM_STATS", stats);
    assert!(command.status().unwrap().success());
    let text = std::fs::read_to_string(&file).unwrap();
    // Every number is the largest, but for those that say what it is.
    let mut forged = String::new();
    for part in text.lines().last().unwrap().split_inclusive(':') {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let number =
            if forged.ends_with(r#""schema":"#) || forged.ends_with(r#""pid":"#) || digits == 0 {
                &part[..digits]
            } else {
                "18446744073709551615"
            };
        forged += number;
        forged += &part[digits..];
    }
    let forged = forged.replace(r#""mmap""#, r#""\u001b[2J\u009b""#);
    assert!(forged.matches("18446744073709551615").count() > 50);
    std::fs::write(
        &file,
        format!("{forged}\n{}\n", forged.replace(r#""pid":"#, r#""pid":1"#)),
    )
    .unwrap();
    let output = bounded(hakmem().args(["stat", "--file"]).arg(&file));
    assert!(!refused_or_done(&output, "numbers"));
    assert!(stdout(&output).contains("?[2J?"), "{}", stdout(&output));
    let output = bounded(hakmem().args(["stat", "--file", "/dev/zero"]));
    assert!(refused_or_done(&output, "/dev/zero"));
}

/// Of a process that waits, its page faults are those that the system counts.
#[test]
fn page_faults_of_a_running_process() {
    let mut command = std::process::Command::new(&*KNOWN);
    command.env("LD_PRELOAD", &*HAKMEM).stdin(Stdio::piped());
    let known = Ready::new(command);
    let pid = known.pid().to_string();
    let output = hakmem().args(["stat", "--pid", &pid]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let counted = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, words) = counted.rsplit_once(')').unwrap();
    let words: Vec<&str> = words.split_whitespace().collect();
    let text = stdout(&output).replace(',', "");
    let line = text
        .lines()
        .find(|line| line.contains("page faults"))
        .unwrap();
    let wanted = [words[7], "minor", words[9], "major"];
    let said: Vec<&str> = line.split_whitespace().skip(2).take(4).collect();
    assert_eq!(said, wanted, "{line}");
}

/// Of a process that waits: what the system says is resident now, beside the most.
#[test]
fn resident_memory_of_a_running_process() {
    let mut command = std::process::Command::new(&*KNOWN);
    command.env("LD_PRELOAD", &*HAKMEM).stdin(Stdio::piped());
    let known = Ready::new(command);
    let pid = known.pid().to_string();
    let output = hakmem().args(["stat", "--pid", &pid]).output().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.unwrap().trim().strip_suffix(" kB").unwrap();
        format!("{:.1} MiB", kib.parse::<f64>().unwrap() / 1024.0)
    };
    let [now, most] = ["VmRSS:", "VmHWM:"].map(mib);
    let said = format!(" in the arenas; of the process {now}, at most {most}\n");
    let text = stdout(&output);
    assert!(text.contains(&said), "{said} in {text}");
}

/// The only line of JSON.
fn object(text: &str) -> Value {
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Figures of a process that waits, as JSON.
#[test]
fn json_of_a_running_process() {
    let mut command = std::process::Command::new(&*KNOWN);
    command.env("LD_PRELOAD", &*HAKMEM).stdin(Stdio::piped());
    let known = Ready::new(command);
    let pid = known.pid().to_string();
    let output = hakmem()
        .args(["stat", "--json", "--pid", &pid])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let all = object(&stdout(&output));
    for (key, value) in [
        ("schema", json!(1)),
        ("kind", json!("stat")),
        ("event", json!("outside")),
        ("pid", json!(known.pid())),
        ("program", json!("known")),
        ("threads", json!(2)),
        ("exact", json!(true)),
        ("remote_frees", json!(100)),
        ("large_allocations", json!(1)),
        ("huge_allocations", json!(1)),
        ("hard_limit_bytes", json!(null)),
        ("foreign_sites", json!(null)),
    ] {
        assert_eq!(all[key], value, "{key} in {all}");
    }
    let classes = all["classes"].as_array().unwrap();
    let class = classes.iter().find(|class| class["size"] == 3072).unwrap();
    assert_eq!(
        (&class["allocations"], &class["frees"]),
        (&json!(700), &json!(200))
    );
    for key in [
        "resident_bytes",
        "process_resident_bytes",
        "peak_resident_bytes",
        "live_bytes",
        "minor_faults",
        "held_bytes",
    ] {
        assert!(all[key].as_u64().is_some_and(|n| n > 0), "{key} in {all}");
    }
    let mut calls = all["syscalls"].as_array().unwrap().iter();
    let mmap = calls.find(|call| call["name"] == "mmap").unwrap();
    assert_eq!(mmap["nanos"], json!(null), "not timed: {all}");
}

/// A line for each process of a file; what a filter kept from a process is null.
#[test]
fn json_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report");
    let mut command = std::process::Command::new("bash");
    command
        .args(["-c", "perl -e 1; exit 0"])
        .env("LD_PRELOAD", &*HAKMEM)
        .env("HAKMEM_STATS", format!("json:{}", file.display()));
    assert!(command.status().unwrap().success());
    let output = hakmem()
        .args(["stat", "--json", "--file"])
        .arg(&file)
        .output()
        .unwrap();
    let text = stdout(&output);
    assert_eq!(text.lines().count(), 2, "{text}");
    let reports = std::fs::read_to_string(&file).unwrap();
    let reports = reports.lines().filter(|line| line.contains("\"classes\""));
    for (line, report) in text.lines().zip(reports) {
        let (all, report): (Value, Value) = (object(line), serde_json::from_str(report).unwrap());
        for key in ["pid", "event", "allocations", "live_bytes", "cpu_nanos"] {
            assert_eq!(all[key], report[key], "{key} in {line}");
        }
        let peak = report["peak_resident_kib"].as_u64().unwrap() * 1024;
        assert_eq!(all["peak_resident_bytes"], peak, "{line}");
        assert_eq!(all["process_resident_bytes"], json!(null), "{line}");
    }

    std::fs::write(&file, "").unwrap();
    let output = hakmem()
        .args(["stat", "--json", "--file"])
        .arg(&file)
        .output()
        .unwrap();
    assert_ended(&output, 1, "");
    assert_says(&output, "has no report");
}

#[test]
fn json_of_a_program() {
    let mut command = hakmem();
    command.args(["stat", "--json", "--lib"]).arg(&*HAKMEM);
    command.args(["--", "perl", "-e", "print 5; exit 7"]);
    let output = command.output().unwrap();
    assert_ended(&output, 7, "5");
    let all = object(&stderr(&output));
    assert_eq!(all["event"], "exit");
    let mut calls = all["syscalls"].as_array().unwrap().iter();
    assert!(calls.any(|call| call["nanos"].as_u64() > Some(0)), "{all}");
}
