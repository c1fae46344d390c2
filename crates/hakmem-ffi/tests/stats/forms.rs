//! What a report says, in each of its forms.

use super::shell;
use crate::common::{Language, Link, compile, preload, run};
use std::process::Command;

#[test]
fn lines_for_people() {
    let (stdout, stderr) = shell("1", "echo word");
    assert_eq!(stdout, "word\n");
    assert!(
        stderr.lines().count() >= 3 && stderr.lines().all(|line| line.starts_with("hakmem")),
        "{stderr}"
    );
    let table = stderr
        .lines()
        .skip_while(|line| !line.starts_with("hakmem: class allocations "));
    let table: Vec<_> = table.collect();
    assert!(table.len() > 3, "{stderr}");
    for line in table {
        assert!(line.chars().count() < 80, "{stderr}");
    }
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
        "live_bytes_upper_bound",
        "peak_live_bytes_upper_bound",
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
    assert_eq!(
        line["peak_resident_bytes"].as_u64(),
        line["peak_resident_kib"].as_u64().map(|kib| kib << 10)
    );
    for call in line["syscalls"].as_array().expect("an array") {
        assert!(call["name"].is_string() && call["calls"].is_u64(), "{call}");
        assert!(
            call["failures"].is_u64() && call["nanos"].is_u64(),
            "{call}"
        );
    }
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
        of("classes", "allocations") + total("large_allocations") + total("huge_allocations")
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
    assert_eq!(figure(&rows, "", "", "schema"), 2);
    assert!(figure(&rows, "", "", "allocations") > 0);
    assert!(figure(&rows, "classes", "64", "allocations") > 0);
    assert!(figure(&rows, "syscalls", "mmap", "calls") > 0);
    assert!(figure(&rows, "thread_heaps", "0", "listed") > 0);
}

/// malloc_info's XML, by a parser.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "1024 bytes and their tag are of another class"
)]
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
