//! The program as its users see it.

use hakmem_bench::probes::stage::Stage;
use hakmem_bench::{allocators, probes, workloads};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub fn hakmem_bench(arguments: &[&str]) -> Output {
    run(env!("CARGO_BIN_EXE_hakmem-bench"), arguments)
}

/// The programs that are measured are those of this build: cargo has made them, and need not be
/// asked again.
fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .env_remove("CARGO")
        .output()
        .expect("the program starts")
}

/// The program that is measured with the system's allocator.
fn on_the_system(arguments: &[&str]) -> Output {
    run(env!("CARGO_BIN_EXE_hakmem-run-system"), arguments)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file name of the test's own, in the folder that cargo gives to tests.
pub fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

pub fn record(path: &Path) -> Value {
    let json = fs::read_to_string(path).expect("the record was written");
    serde_json::from_str(&json).expect("the record is JSON")
}

fn number(value: &Value, field: &str) -> f64 {
    value[field]
        .as_f64()
        .unwrap_or_else(|| panic!("no number '{field}' in {value}"))
}

/// A library that every dynamically linked program can load on top of its own.
fn harmless_library() -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines()
        .filter_map(|l| l.split_whitespace().nth(5))
        .find(|p| p.contains("/libc.so"))
        .map(PathBuf::from)
}

#[test]
fn every_workload_runs_on_every_allocator() {
    for allocator in allocators::ALL {
        for workload in workloads::names() {
            let output = hakmem_bench(&["run-one", workload, allocator.name, "--scale", "smoke"]);
            let context = format!("{workload} on {}: {}", allocator.name, text(&output.stderr));
            assert!(output.status.success(), "{context}");
            let line: Value = serde_json::from_slice(&output.stdout).expect(&context);
            assert_eq!(
                (&line["workload"], &line["allocator"]),
                (&workload.into(), &allocator.name.into())
            );
            assert!(
                number(&line, "nanos") > 0.0 && number(&line, "ops") >= 1.0,
                "{context}"
            );
            assert!(number(&line, "rss_start_kib") > 0.0, "{context}");
        }
    }
}

#[test]
fn the_record_of_a_comparison_has_all_it_should() {
    let path = scratch("compare.json");
    let output = hakmem_bench(&[
        "compare",
        "--quick",
        "--only",
        "tiny_hot",
        "--rounds",
        "1",
        "--json",
        path.to_str().expect("UTF-8"),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    let record = record(&path);

    assert_eq!(
        (&record["schema_version"], &record["kind"]),
        (&1.into(), &"compare".into())
    );
    assert_eq!(
        (&record["quick"], &record["rounds"]),
        (&true.into(), &1.into())
    );
    assert!(
        record["command"]
            .as_array()
            .is_some_and(|c| c.iter().any(|a| a == "tiny_hot"))
    );
    for field in ["cpu", "kernel"] {
        assert!(
            record["machine"][field]
                .as_str()
                .is_some_and(|s| !s.is_empty()),
            "{field}"
        );
    }
    assert!(number(&record["machine"], "cores") >= 1.0);
    assert!(
        record["build"]["rustc"]
            .as_str()
            .is_some_and(|v| v.starts_with("rustc "))
    );
    let samples = record["samples"].as_array().expect("samples");
    assert_eq!(samples.len(), allocators::ALL.len());
    for (allocator, sample) in allocators::ALL.iter().zip(samples) {
        assert_eq!(sample["allocator"], allocator.name);
        assert!(table.contains(allocator.name), "{table}");
        assert!(record["build"]["allocators"][allocator.name].is_string());
        for field in ["ops", "nanos", "wall_nanos", "max_rss_kib", "minor_faults"] {
            assert!(number(sample, field) > 0.0, "{field} in {sample}");
        }
        for field in ["round", "major_faults", "user_micros", "system_micros"] {
            assert!(number(sample, field) >= 0.0, "{field} in {sample}");
        }
        let inside = &sample["inside"];
        assert!(number(inside, "rss_start_kib") > 0.0);
        assert!(number(inside, "rss_net_kib") <= number(sample, "max_rss_kib"));
        assert!(
            number(inside, "faults_net")
                <= number(sample, "minor_faults") + number(sample, "major_faults")
        );
    }
    let rows = record["summary"]["rows"].as_array().expect("rows");
    let base = record["summary"]["base"].as_str().expect("a base");
    let base = rows
        .iter()
        .find(|r| r["allocator"] == base)
        .expect("the base has a row");
    assert!(
        (number(base, "time_ratio") - 1.0).abs() < 1e-12
            && (number(base, "rss_ratio") - 1.0).abs() < 1e-12
    );
}

#[test]
fn every_part_of_probes_and_curves_runs() {
    let parts = workloads::names_of_parts().filter(|name| *name != "grow_1g");
    for name in parts {
        let output = on_the_system(&["run-probe", name, "--scale", "smoke"]);
        let context = format!("{name}: {}", text(&output.stderr));
        assert!(output.status.success(), "{context}");
        let line: Value = serde_json::from_slice(&output.stdout).expect(&context);
        assert_eq!(line["workload"], name);
    }
    for probe in probes::ALL {
        let stages = match probe.figure {
            probes::Figure::Resident(..) => 1,
            probes::Figure::Phases(_) => 6,
            _ => continue,
        };
        let output = on_the_system(&["run-probe", probe.name, "--scale", "smoke"]);
        let context = format!("{}: {}", probe.name, text(&output.stderr));
        assert!(output.status.success(), "{context}");
        let lines = output.stdout.split_inclusive(|b| *b == b'\n');
        let read: Vec<Stage> = lines
            .filter_map(|line| Stage::read(line).expect("a stage"))
            .collect();
        assert_eq!(read.len(), stages, "{context}");
        let counted = probe.parts().any(|part| part.name.ends_with(":pages"));
        let pages = |stage: &Stage| stage.live > 0 && stage.pages >= stage.live;
        assert!(read.iter().all(|s| pages(s) == counted), "{context}");
    }
}

#[test]
fn a_probe_under_a_library_that_does_not_serve_is_refused() {
    let Some(library) = harmless_library() else {
        return;
    };
    // In this build, malloc is not a function of the program itself.
    let program = env!("CARGO_BIN_EXE_hakmem-run-system");
    for (path, served) in [(library.to_str().expect("UTF-8"), true), (program, false)] {
        let arguments = [
            "run-probe",
            "pair_64k",
            "--scale",
            "smoke",
            "--library",
            path,
        ];
        let output = on_the_system(&arguments);
        assert_eq!(output.status.success(), served, "{}", text(&output.stderr));
    }
    let output = on_the_system(&["run-probe", "nonesuch"]);
    assert!(text(&output.stderr).contains("no probe 'nonesuch'"));
}

#[test]
fn probes_and_growth_run_if_named_and_are_on_record_with_their_targets() {
    let path = scratch("probes.json");
    let json = path.to_str().expect("UTF-8");
    let output = hakmem_bench(&[
        "compare",
        "--quick",
        "--only",
        "pair_64k,rust_pair_64,growth",
        "--allocators",
        "system",
        "--json",
        json,
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let record = record(&path);
    let list = |field: &str| record[field].as_array().cloned().unwrap_or_default();
    assert!(list("samples").is_empty());
    assert_eq!(
        list("probes").len(),
        2,
        "no workload ran, so nothing else was"
    );
    for probe in list("probes") {
        assert_eq!(
            (&probe["allocator"], &probe["unit"]),
            (&"system".into(), &"ns".into())
        );
        assert!(number(&probe, "value") > 0.0);
    }
    assert_eq!(list("series").len(), 2);
    let targets = list("targets");
    assert_eq!(targets.len(), 4);
    // Nothing was measured of hakmem.
    assert!(targets.iter().all(|t| t["figure"].is_null()));
    let tables = text(&output.stdout);
    assert!(
        tables.contains("0 of 4 targets met, 0 missed, 4 not measured"),
        "{tables}"
    );
}

#[test]
fn workloads_run_under_preloaded_libraries() {
    let Some(library) = harmless_library() else {
        return;
    };
    let library = format!("twice={}", library.display());
    let path = scratch("preloaded.json");
    let output = hakmem_bench(&[
        "compare",
        "--preloaded",
        "--quick",
        "--only",
        "crossed",
        "--rounds",
        "1",
        "--allocators",
        "system",
        "--lib",
        &library,
        "--json",
        path.to_str().expect("UTF-8"),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let record = record(&path);
    assert_eq!(record["kind"], "preloaded");
    assert_eq!(record["libraries"][0][0], "twice");
    assert_eq!(record["summary"]["base"], "system");
    let samples = record["samples"].as_array().expect("samples");
    let names: Vec<_> = samples.iter().map(|s| s["allocator"].as_str()).collect();
    assert_eq!(names, [Some("twice"), Some("system")]);
    for sample in samples {
        assert!(number(sample, "nanos") > 0.0 && number(sample, "max_rss_kib") > 0.0);
    }
    let probes = record["probes"].as_array().expect("what the process has");
    assert!(probes.iter().all(|p| p["probe"] == "nothing_preloaded"));
    assert_eq!(probes.len(), 2);
}

#[test]
fn a_comparison_of_nothing_is_refused() {
    let output = hakmem_bench(&["compare", "--only", "json", "--skip", "workloads"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("nothing to compare"));
}

#[test]
fn unknown_names_are_refused_with_a_list_of_the_valid_ones() {
    for (option, valid) in [
        ("--only", "tiny_hot"),
        ("--allocators", "hakmem"),
        ("--base", "system"),
    ] {
        let output = hakmem_bench(&["compare", option, "nonesuch"]);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(
            errors.contains("nonesuch") && errors.contains(valid),
            "{errors}"
        );
    }
    let output = hakmem_bench(&["compare", "--rounds", "0"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn workloads_do_not_run_on_a_library_that_is_not_asked_to_be_preloaded() {
    let output = hakmem_bench(&["compare", "--only", "json", "--allocators", "tcmalloc"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--preloaded"));
}

#[test]
fn a_base_that_is_not_compared_is_refused() {
    let output = hakmem_bench(&[
        "compare",
        "--only",
        "json",
        "--allocators",
        "hakmem",
        "--base",
        "system",
    ]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("not among the allocators"));
}

#[test]
fn the_documented_workloads_are_those_that_exist() {
    let docs = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/benchmarks.md"
    ));
    let docs = docs.expect("docs/benchmarks.md exists");
    for list in ["list", "probes"] {
        let table = text(&hakmem_bench(&[list]).stdout);
        assert!(
            table.lines().count() > 2 && docs.contains(&table),
            "docs/benchmarks.md lacks the table that `hakmem-bench {list}` prints:\n{table}"
        );
    }
}

/// Under a limit on address space one workload cannot run; the other must be compared all the same.
#[test]
fn a_workload_that_fails_is_reported_and_the_rest_goes_on() {
    let script = "ulimit -v 150000; exec \"$0\" compare --quick --rounds 1 --allocators system \
        --only realloc_huge,json";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_hakmem-bench")])
        .env_remove("CARGO")
        .output();
    let output = output.expect("sh runs");
    let (table, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("FAILED: realloc_huge on system: signal 6"),
        "{errors}"
    );
    let row = table
        .lines()
        .find(|l| l.contains("| json "))
        .expect("json has a row");
    assert!(
        !row.replace(' ', "").starts_with("|json|system|-|"),
        "{table}"
    );
}
