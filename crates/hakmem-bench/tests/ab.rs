//! `hakmem-bench ab` and records, as their users see them.

use crate::command_line::{hakmem_bench, record, scratch, text};
use serde_json::Value;
use std::fs;
use std::path::Path;

const RUN_HAKMEM: &str = env!("CARGO_BIN_EXE_hakmem-run-hakmem");

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn what_is_printed_and_recorded_follows_from_the_samples() {
    let path = scratch("ab.json");
    let output = hakmem_bench(&[
        "ab",
        "--set",
        "HAKMEM_CARVE_BYTES=16,DECAY_MS=1000",
        "--rounds",
        "6",
        "--quick",
        "--json",
        path.to_str().expect("UTF-8"),
        "fixed_16",
        "thread_churn",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(
        table.starts_with("A: CARVE_BYTES=16,DECAY_MS=1000\nB: defaults\n"),
        "{table}"
    );

    let record = record(&path);
    assert_eq!(record["kind"], "ab");
    let ab = &record["ab"];
    assert_eq!(
        ab["a"]["options"],
        serde_json::json!(["CARVE_BYTES=16", "DECAY_MS=1000"])
    );
    assert_eq!(ab["b"]["options"], serde_json::json!([]));
    let comparisons = ab["comparisons"].as_array().expect("comparisons");
    let names: Vec<_> = comparisons.iter().map(|c| c["workload"].as_str()).collect();
    assert_eq!(names, [Some("fixed_16"), Some("thread_churn"), Some("all")]);
    let samples = record["samples"].as_array().expect("samples");
    assert_eq!(samples.len(), 6 * 2 * 2, "every run is on record");

    // What is printed and recorded follows from the samples: with six pairs the interval is from
    // the least to the most.
    for c in &comparisons[..2] {
        let nanos = |side: &Value| -> Vec<f64> {
            let mine = samples
                .iter()
                .filter(|s| s["workload"] == c["workload"] && s["allocator"] == side["name"]);
            mine.map(|s| number(&s["nanos"])).collect()
        };
        let mut ratios: Vec<f64> = nanos(&ab["a"])
            .iter()
            .zip(nanos(&ab["b"]))
            .map(|(a, b)| a / b)
            .collect();
        ratios.sort_by(f64::total_cmp);
        let time = &c["time"];
        let close = |value: &Value, to: f64| (number(value) / to - 1.0).abs() < 1e-9;
        assert!(
            close(&time["low"], ratios[0]) && close(&time["high"], ratios[5]),
            "{c} {ratios:?}"
        );
        assert!(
            close(&time["median"], (ratios[2] + ratios[3]) / 2.0),
            "{c} {ratios:?}"
        );
        assert!(
            table.contains(&format!("{:.3}–{:.3}", ratios[0], ratios[5])),
            "{table}"
        );
    }
}

#[test]
fn what_hakmem_does_not_take_is_an_error_before_anything_runs() {
    for (setting, words) in [
        ("NONESUCH=1", "unknown option HAKMEM_NONESUCH"),
        ("DECAY_MS=soon", "HAKMEM_DECAY_MS=soon ignored"),
        ("CARVE_BYTES=1", "not numbers from"),
    ] {
        for side in ["--set", "--vs"] {
            let output = hakmem_bench(&["ab", side, setting, "json"]);
            let errors = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{errors}");
            assert!(errors.contains(words), "{errors}");
            assert!(output.stdout.is_empty(), "nothing may look like a result");
        }
    }
    for (arguments, words) in [
        (&["ab", "json"][..], "nothing to compare"),
        (&["ab", "--set", "decay=1", "json"], "NAME=VALUE"),
        (&["ab", "--set", "A=1,A=2", "json"], "given twice"),
        (
            &["ab", "--set", "DECAY_MS=1", "--rounds", "5", "json"],
            "6..=1000",
        ),
        (&["ab", "--set", "DECAY_MS=1"], "WORKLOAD"),
        (&["ab", "--bin", "/nonexistent", "json"], "/nonexistent"),
    ] {
        let output = hakmem_bench(arguments);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(words), "{errors}");
    }
}

/// Options that a program does not read would give its figures under their name.
#[test]
fn a_program_that_reads_no_options_is_not_compared_by_them() {
    let deaf = scratch("deaf");
    let script = "#!/bin/sh\nfor v in $(env | sed -n 's/^\\(HAKMEM_[A-Z_]*\\)=.*/\\1/p'); do \
        unset $v; done\n";
    fs::write(&deaf, format!("{script}exec {RUN_HAKMEM} \"$@\"\n")).expect("it is written");
    make_executable(&deaf);
    let deaf = deaf.to_str().expect("UTF-8");
    let output = hakmem_bench(&["ab", "--bin", deaf, "--set", "DECAY_MS=1", "json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("reads no options"),
        "{}",
        text(&output.stderr)
    );
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

#[test]
fn two_programs_are_compared_and_the_record_names_no_folder_of_this_machine() {
    let other = scratch("other-build");
    fs::copy(RUN_HAKMEM, &other).expect("it is copied");
    let other = other.to_str().expect("UTF-8");
    let path = scratch("ab-programs.json");
    let json = path.to_str().expect("UTF-8");
    let output = hakmem_bench(&[
        "ab", "--bin", other, "--vs-bin", RUN_HAKMEM, "--rounds", "6", "--quick", "--json", json,
        "tiny_hot",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json = fs::read_to_string(&path).expect("the record was written");
    let repository = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let repository = repository.canonicalize().expect("it is there");
    let folders = [
        repository.to_str(),
        Path::new(other).parent().and_then(Path::to_str),
    ];
    for folder in folders.into_iter().flatten() {
        assert!(!json.contains(folder), "{folder} is in the record");
    }
    let record = record(&path);
    let program = record["ab"]["a"]["program"].as_str().expect("a program");
    assert!(
        program.ends_with("other-build") && !program.starts_with('/'),
        "{program}"
    );
    let command = record["command"].as_array().expect("the command line");
    assert!(command.iter().any(|word| word == program), "{command:?}");
    assert!(command.iter().any(|word| word == "tiny_hot"), "{command:?}");
}

#[test]
fn records_of_comparisons_with_libraries_and_failures_name_no_folders() {
    let libc = fs::read_to_string("/proc/self/maps").expect("the maps");
    let Some(libc) = libc
        .lines()
        .filter_map(|l| l.split_whitespace().nth(5))
        .find(|p| p.contains("/libc.so"))
    else {
        return;
    };
    let path = scratch("names.json");
    let json = path.to_str().expect("UTF-8");
    let library = format!("twice={libc}");
    let output = hakmem_bench(&[
        "compare",
        "--quick",
        "--rounds",
        "1",
        "--only",
        "pair_64k",
        "--allocators",
        "system",
        "--lib",
        &library,
        "--json",
        json,
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let record = record(&path);
    let name = libc.rsplit('/').next().expect("a name");
    assert_eq!(record["libraries"], serde_json::json!([["twice", name]]));
    let command = record["command"].as_array().expect("the command line");
    assert!(
        command.iter().any(|word| *word == format!("twice={name}")),
        "{command:?}"
    );
    assert!(
        command
            .iter()
            .all(|word| !word.as_str().expect("text").starts_with('/')),
        "{command:?}"
    );
}

#[test]
fn the_page_leaves_comparisons_of_hakmem_with_itself_out() {
    let path = scratch("ab-page.json");
    let json = path.to_str().expect("UTF-8");
    let arguments = [
        "ab",
        "--set",
        "DECAY_MS=1",
        "--rounds",
        "6",
        "--quick",
        "--json",
        json,
        "tiny_hot",
    ];
    let output = hakmem_bench(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = scratch("ab-page.html");
    let output = hakmem_bench(&[
        "report",
        "--input",
        json,
        "--out",
        page.to_str().expect("UTF-8"),
    ]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no comparisons of hakmem with itself"));
}
