//! A made-up record that has every part, with names that try to break out of the page.

use hakmem_bench::growth::{BY_BLOCKS, BY_THREADS};
use hakmem_bench::machine::{Build, Machine};
use hakmem_bench::probes::{ALL_FREED, BLOCKED, DRIFT, FEW_KEPT, POOL};
use hakmem_bench::record::{Record, SCHEMA_VERSION};
use hakmem_bench::report::Summary;
use hakmem_bench::sample::{Failure, ProbeSample, Sample, Series, Target};
use std::collections::BTreeMap;

/// Text that is markup, closes attributes, and looks like an entity.
pub const HOSTILE: &str = "a<b>\"'&amp;</style></svg><script src=\"https://evil.example/x.js\">";

/// Six allocators, one of them with a hostile name.
pub fn allocators() -> Vec<String> {
    let names = [
        "hakmem", "mimalloc", "snmalloc", "jemalloc", HOSTILE, "system",
    ];
    names.map(str::to_owned).to_vec()
}

/// Some 45 workloads, one of them with a hostile name.
pub fn workloads() -> Vec<String> {
    let plain = (0..44).map(|i| format!("workload_{i}"));
    plain.chain([format!("{HOSTILE}w")]).collect()
}

/// The record, of the kind `compare` or another.
pub fn full(kind: &str) -> Record {
    let (allocators, workloads) = (allocators(), workloads());
    let mut samples = Vec::new();
    for (w, workload) in workloads.iter().enumerate() {
        for (a, allocator) in allocators.iter().enumerate() {
            for round in 0..3 {
                let nanos = 1_000_000 + ((w * 7 + a * 13) % 29) as u64 * 100_000 + u64::from(round);
                // One allocator is some hundred times slower on one workload.
                let nanos = if w == 3 && a == 1 { nanos * 300 } else { nanos };
                samples.push(sample(
                    workload,
                    allocator,
                    round,
                    nanos,
                    3000 + (w * 5 + a * 11) as u64 % 23 * 100,
                ));
            }
        }
    }
    let summary = Summary::new(&workloads, &allocators, "mimalloc", &samples, &[]);
    let mut record = Record {
        schema_version: SCHEMA_VERSION,
        kind: kind.to_owned(),
        unix_time: 1_795_270_422,
        command: vec!["hakmem-bench".to_owned(), HOSTILE.to_owned()],
        quick: true,
        rounds: 3,
        machine: Machine {
            cpu: HOSTILE.to_owned(),
            cores: 2,
            kernel: HOSTILE.to_owned(),
            memory_kib: 1 << 24,
            huge_pages: HOSTILE.to_owned(),
            load: HOSTILE.to_owned(),
        },
        build: Build {
            rustc: HOSTILE.to_owned(),
            target: "any".to_owned(),
            profile: "release".to_owned(),
            hakmem_bench: "0".to_owned(),
            allocators: BTreeMap::from([("hakmem".to_owned(), HOSTILE.to_owned())]),
        },
        libraries: vec![("hakmem".to_owned(), HOSTILE.to_owned())],
        summary,
        samples,
        traces: Vec::new(),
        probes: Vec::new(),
        series: Vec::new(),
        targets: targets(),
        ab: None,
        failures: vec![Failure {
            workload: HOSTILE.to_owned(),
            allocator: HOSTILE.to_owned(),
            what: HOSTILE.to_owned(),
        }],
    };
    for (a, allocator) in allocators.iter().enumerate() {
        record.probes.extend(probes(allocator, a));
        record.series.extend(series(allocator, a));
    }
    record
}

fn sample(workload: &str, allocator: &str, round: u32, nanos: u64, max_rss_kib: u64) -> Sample {
    Sample {
        workload: workload.to_owned(),
        allocator: allocator.to_owned(),
        round,
        ops: 10,
        nanos,
        wall_nanos: nanos,
        user_micros: 0,
        system_micros: 0,
        max_rss_kib,
        minor_faults: 5,
        major_faults: 0,
        inside: None,
        outcome: None,
    }
}

fn probes(allocator: &str, a: usize) -> Vec<ProbeSample> {
    let one = |probe: &str, value: f64, unit: &str| ProbeSample {
        probe: probe.to_owned(),
        allocator: allocator.to_owned(),
        round: 0,
        value,
        unit: unit.to_owned(),
    };
    vec![
        one("idle_rss", 40.0 + 120.0 * a as f64, "MB"),
        one("calloc", 4.0 * 8f64.powi(a as i32), "ms"),
        one(HOSTILE, 1.0, HOSTILE),
        one("broken", f64::NAN, "ms"),
    ]
}

fn series(allocator: &str, a: usize) -> Vec<Series> {
    let one = |name: &str, x: &str, points: Vec<(f64, f64)>| Series {
        name: name.to_owned(),
        allocator: allocator.to_owned(),
        x: x.to_owned(),
        y: HOSTILE.to_owned(),
        points,
    };
    let time = (0..200).map(|i| (f64::from(i) * 0.05, 700.0 - f64::from(i) * a as f64));
    let memory: Vec<(f64, f64)> = time.collect();
    let threads = (0..7).map(|i| (2f64.powi(i), 10.0 + a as f64));
    let blocks = (3..8).map(|i| (10f64.powi(i), 10.0 + f64::from(i)));
    vec![
        one(ALL_FREED, "s", memory.clone()),
        one(FEW_KEPT, "s", memory.clone()),
        one(BLOCKED, "s", memory.clone()),
        one(POOL, "s", memory.clone()),
        one(DRIFT, "s", memory),
        one(BY_THREADS, "threads", threads.collect()),
        one(BY_BLOCKS, "blocks", blocks.collect()),
        one(HOSTILE, HOSTILE, vec![(0.0, f64::NAN), (1.0, 2.0)]),
        one("empty", "s", Vec::new()),
    ]
}

fn targets() -> Vec<Target> {
    let one = |name: &str, figure, limit, unit: &str| Target {
        name: name.to_owned(),
        what: HOSTILE.to_owned(),
        figure,
        limit,
        unit: unit.to_owned(),
        against: HOSTILE.to_owned(),
    };
    vec![
        one("time", Some(0.8), 0.9, ""),
        one("idle_rss", Some(54.0), 45.0, "MB"),
        one("calloc", None, 10.0, "ms"),
        one(HOSTILE, Some(1.5), 1.0, HOSTILE),
    ]
}
