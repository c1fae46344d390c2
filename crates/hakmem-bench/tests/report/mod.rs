//! The page of a report: well formed, complete, and needing nothing from outside.

mod fixture;

use fixture::{HOSTILE, allocators, full, workloads};
use hakmem_bench::html::{Causes, render};
use hakmem_bench::record::Record;
use quick_xml::Reader;
use quick_xml::events::Event;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn committed_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report/record.json")
}

fn committed() -> Record {
    let text = fs::read_to_string(committed_file()).expect("the record is there");
    serde_json::from_str(&text).expect("the record can be read")
}

/// Without the elements that HTML leaves open, a page is XML: fails on anything that is not nested
/// as it should be. Returns the text between tags, per element name.
fn parse(page: &str) -> Vec<(String, String)> {
    const VOID: [&str; 1] = ["meta"];
    let body = page
        .strip_prefix("<!DOCTYPE html>")
        .expect("a document type");
    // Empty attributes, as `hidden`, would be no XML; the page has none.
    let mut reader = Reader::from_str(body);
    let mut open: Vec<String> = Vec::new();
    let mut texts: Vec<(String, String)> = Vec::new();
    reader.config_mut().check_end_names = false;
    loop {
        match reader.read_event().expect("well formed") {
            Event::Start(tag) => {
                let name = tag.name().as_ref().to_owned();
                for attribute in tag.attributes() {
                    let attribute = attribute.expect("well-formed attributes");
                    assert_harmless(attribute.key.as_ref(), &attribute.value);
                }
                if !VOID.contains(&name.as_str()) {
                    open.push(name.clone());
                    texts.push((name, String::new()));
                }
            }
            Event::Empty(tag) => {
                for attribute in tag.attributes() {
                    let attribute = attribute.expect("well-formed attributes");
                    assert_harmless(attribute.key.as_ref(), &attribute.value);
                }
            }
            Event::End(tag) => {
                let name = tag.name().as_ref().to_owned();
                assert_eq!(open.pop().as_ref(), Some(&name), "closed in order");
            }
            Event::Text(text) => {
                if let Some((_, last)) = texts.last_mut() {
                    last.push_str(&text);
                }
            }
            Event::GeneralRef(entity) => {
                let character = quick_xml::escape::resolve_xml_entity(&entity);
                if let Some((_, last)) = texts.last_mut() {
                    last.push_str(character.expect("an entity that XML knows"));
                }
            }
            Event::Eof => break,
            _ => {}
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    texts
}

fn has(texts: &[(String, String)], element: &str, wanted: &str) -> bool {
    texts
        .iter()
        .any(|(name, text)| name == element && text.trim() == wanted)
}

/// Nothing is fetched: links stay in the page, and no attribute and no style names anything
/// outside.
fn assert_harmless(name: &str, value: &str) {
    assert!(
        !matches!(name, "src" | "srcset" | "data" | "xmlns") && !name.starts_with("on"),
        "{name}"
    );
    assert!(
        !value.contains("//") && !value.contains("url("),
        "{name}={value}"
    );
    assert!(name != "href" || value.starts_with('#'), "{name}={value}");
}

fn assert_self_contained(texts: &[(String, String)]) {
    for (element, text) in texts {
        assert!(
            !matches!(
                element.as_str(),
                "script" | "link" | "img" | "iframe" | "image"
            ),
            "{element}"
        );
        assert!(element != "style" || !(text.contains("url(") || text.contains("@import")));
    }
}

/// The curves of a record go by the names that `compare` gives them.
#[test]
fn every_curve_of_a_committed_record_has_its_section() {
    let page = render(&[committed()], &Causes::new());
    assert!(!page.contains("No record here has this") && !page.contains("Further curves"));
}

#[test]
fn a_committed_record_without_targets_becomes_a_page() {
    let mut record = committed();
    record.targets.clear();
    record.probes.clear();
    record.series.clear();
    let page = render(std::slice::from_ref(&record), &Causes::new());
    let texts = parse(&page);
    assert_self_contained(&texts);
    for row in &record.summary.rows {
        assert!(
            has(&texts, "th", &row.workload),
            "{} in the table",
            row.workload
        );
        assert!(
            has(&texts, "span", &row.workload),
            "{} in a chart",
            row.workload
        );
        assert!(
            has(&texts, "td", &row.allocator),
            "{} in the table",
            row.allocator
        );
        assert!(
            has(&texts, "span", &row.allocator),
            "{} in a chart",
            row.allocator
        );
    }
    for missing in [
        "has targets",
        "has probes",
        "has this",
        "has whole programs",
    ] {
        assert!(page.contains(missing), "what is missing is said: {missing}");
    }
}

#[test]
fn a_record_with_every_part_becomes_a_page() {
    let page = render(&[full("compare"), full("programs")], &Causes::new());
    let texts = parse(&page);
    for workload in workloads() {
        assert!(
            has(&texts, "th", &workload) && has(&texts, "span", &workload),
            "{workload}"
        );
    }
    for allocator in allocators() {
        assert!(
            has(&texts, "td", &allocator) && has(&texts, "span", &allocator),
            "{allocator}"
        );
    }
    assert!(has(&texts, "span", "✗ missed by 20 %"));
    assert!(has(&texts, "span", "✓ met"));
    assert!(
        has(&texts, "span", "target ≤ 45.0"),
        "the target's line in its probe"
    );
    for part in [
        "Memory over time: freed by another thread",
        "Memory over time: threads that wait",
        "Memory over time: sizes that change",
        "Scaling by threads",
        "Scaling by live blocks",
        "What went wrong",
        "Whole programs",
        "A quick run:",
    ] {
        assert!(
            texts.iter().any(|(_, text)| text.starts_with(part)),
            "{part}"
        );
    }
    assert!(!page.contains("has this") && !page.contains("NaN"));
}

#[test]
fn no_text_of_a_record_becomes_markup() {
    let page = render(&[full("compare")], &Causes::new());
    assert!(!page.contains(HOSTILE) && !page.contains("<script"));
    let texts = parse(&page);
    assert_self_contained(&texts);
    let named: Vec<&str> = page
        .split("role=\"img\" aria-labelledby=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    let images = page.matches("role=\"img\"").count();
    let described = named
        .iter()
        .filter(|id| {
            let text = page.split_once(&format!(" id=\"{id}\">"));
            text.is_some_and(|(_, text)| !text.starts_with('<'))
        })
        .count();
    assert!(
        images > 8 && described == images,
        "{images} images, {described} descriptions"
    );
}

#[test]
fn ids_are_unique() {
    let page = render(
        &[full("compare"), full("compare"), full("programs")],
        &Causes::new(),
    );
    let mut ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .filter_map(|r| r.split('"').next())
        .collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
}

#[test]
fn records_without_anything_are_no_error() {
    let mut record = full("compare");
    record.summary.rows.clear();
    record.summary.overall.clear();
    record.probes.clear();
    record.series.clear();
    record.targets.clear();
    parse(&render(&[record], &Causes::new()));
    parse(&render(&[], &Causes::new()));
}

fn report(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hakmem-bench"))
        .arg("report")
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("it starts")
}

#[test]
fn the_newest_record_of_each_kind_is_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let records = folder.path().join("benchmarks/record");
    fs::create_dir_all(&records).expect("writable");
    let nothing = report(folder.path(), &[]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("no records"));

    for (file, kind, unix_time) in [
        ("a", "compare", 86_400),
        ("b", "compare", 10),
        ("c", "programs", 5),
    ] {
        let mut record = full(kind);
        record.unix_time = unix_time;
        // JSON has no word for what is no number.
        record.probes.retain(|p| p.value.is_finite());
        record.series.clear();
        record
            .write(&records.join(format!("{file}.json")))
            .expect("writable");
    }
    fs::write(records.join("broken.json"), "{}").expect("writable");
    let output = report(folder.path(), &[]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(1),
        "a record was left out: {errors}"
    );
    assert!(errors.contains("broken.json"), "{errors}");
    let page = fs::read_to_string(folder.path().join("docs/results/index.html")).expect("a page");
    assert!(page.contains("compare, 1970-01-02") && page.contains("programs, 1970-01-01"));
    assert!(!page.contains("compare, 1970-01-01"));
}

#[test]
fn a_file_that_is_no_record_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut newer = full("compare");
    newer.schema_version += 1;
    newer
        .write(&folder.path().join("newer.json"))
        .expect("writable");
    for (file, says) in [
        ("newer.json", "version"),
        ("nonesuch.json", "nonesuch.json"),
    ] {
        let output = report(folder.path(), &["--input", file, "--out", "page.html"]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(says), "{errors}");
    }
    assert!(!folder.path().join("page.html").exists());
    let output = report(
        folder.path(),
        &[
            "--input",
            committed_file().to_str().expect("UTF-8"),
            "--out",
            "x/page.html",
        ],
    );
    assert!(output.status.success() && folder.path().join("x/page.html").exists());
}

#[test]
fn the_page_begins_with_charts_and_ends_with_targets() {
    let page = render(&[full("compare"), full("programs")], &Causes::new());
    let at = |part: &str| {
        page.find(part)
            .unwrap_or_else(|| panic!("no {part} in the page"))
    };
    let last_chart = page.rfind("role=\"img\"").expect("charts");
    let (chart, targets) = (at("role=\"img\""), at("id=\"targets\""));
    assert!(chart < at("<table"), "a chart stands before all tables");
    assert!(last_chart < targets && targets < at("id=\"origin\""));
    assert!(
        at("<main>") < chart && targets < at("✗ missed"),
        "no miss before the targets"
    );
}

#[test]
fn what_was_not_measured_is_no_miss() {
    let mut record = full("compare");
    let texts = parse(&render(std::slice::from_ref(&record), &Causes::new()));
    assert!(has(&texts, "p", "1 met, 2 missed, 1 not measured."));
    assert!(has(&texts, "b", "1 of 3"), "of those that were measured");
    assert!(has(&texts, "span", "measured targets met; not measured: 1"));
    assert!(has(&texts, "summary", "Not measured: 1"));
    assert!(
        !has(&texts, "th", "calloc"),
        "no row among those with a figure"
    );

    record.targets.retain(|t| t.figure.is_some());
    let texts = parse(&render(std::slice::from_ref(&record), &Causes::new()));
    assert!(has(&texts, "span", "measured targets met"));
    assert!(
        !texts
            .iter()
            .any(|(_, text)| text.starts_with("Not measured"))
    );

    record.targets.iter_mut().for_each(|t| t.figure = None);
    let page = render(&[record], &Causes::new());
    let texts = parse(&page);
    assert!(has(&texts, "p", "0 met, 0 missed, 3 not measured."));
    assert!(!page.contains("missed by") && !page.contains("table class=\"targets\""));
    assert!(!page.contains("targets met"), "no tile");
}

#[test]
fn what_was_missed_says_why() {
    let mut record = full("compare");
    let [first, second, third] = &mut record.targets[..3] else {
        panic!("the sample has three targets")
    };
    for (target, figure) in [(&mut *first, 3.0), (&mut *second, 3.0), (&mut *third, 1.0)] {
        (target.limit, target.figure) = (2.0, Some(figure));
    }
    let (missed, unknown, met) = (first.name.clone(), second.name.clone(), third.name.clone());
    record.targets.truncate(3);
    assert!(missed != unknown && missed != met && unknown != met);

    let causes = Causes::from([
        (missed, format!("slow {HOSTILE}")),
        (met, "never".to_owned()),
    ]);
    let page = render(&[record], &causes);
    let texts = parse(&page);
    let cells = |part: &str| texts.iter().filter(|(_, text)| text.contains(part)).count();
    assert_eq!(cells("slow "), 1);
    assert_eq!(cells("not looked for"), 1);
    assert!(!page.contains(HOSTILE) && !page.contains("never"));
}
