//! The probes of the heap profile: tools find them, and a debugger sees each sample there.

use crate::common;

use common::{Language, Link, compile, find_program, library, run};
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

const INTERVAL: u64 = 20_000;

/// The registers of the arguments, as gcc would write them.
const ARGUMENTS: &str = if cfg!(target_arch = "x86_64") {
    "8@%rdi 8@%rsi 8@%rdx"
} else {
    "8@x0 8@x1 8@x2"
};

#[test]
fn readelf_shows_the_probes() {
    if find_program("readelf").is_none() {
        eprintln!("skipped: no readelf");
        return;
    }
    let mut command = Command::new("readelf");
    let output = run(command.arg("-nW").arg(&library().shared));
    let text = String::from_utf8_lossy(&output.stdout);
    for name in ["alloc", "free"] {
        let found = text.split("Provider: otel_memory").filter(|rest| {
            let mut lines = rest.lines().map(str::trim).skip(1);
            lines.next() == Some(&format!("Name: {name}"))
                && lines.nth(1) == Some(&format!("Arguments: {ARGUMENTS}"))
        });
        assert_eq!(found.count(), 1, "{name} in {text}");
    }
}

/// What a probe says.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Hit {
    is_alloc: bool,
    address: u64,
    size: u64,
    weight: u64,
}

/// Runs a program under gdb, which prints what each probe says.
fn hits(program: &Path, profile: &Path) -> Vec<Hit> {
    let mut script = format!(
        "set startup-with-shell off\n\
         set environment HAKMEM_PROFILE={}\n\
         set environment HAKMEM_PROFILE_INTERVAL={INTERVAL}\n",
        profile.display()
    );
    for name in ["alloc", "free"] {
        let arguments = "$_probe_arg0, $_probe_arg1, $_probe_arg2";
        script += &format!(
            "break -probe-stap otel_memory:{name}\ncommands\nsilent\n\
             printf \"hit {name} %lu %lu %lu\\n\", {arguments}\ncontinue\nend\n"
        );
    }
    script += "run\n";
    let file = profile.with_extension("gdb");
    std::fs::write(&file, script).expect("a script");
    let mut command = Command::new("gdb");
    command.args(["-nx", "-q", "-batch", "-x"]).arg(file);
    let output = run(command.arg(program).env_remove("DEBUGINFOD_URLS"));
    let hit = |line: &str| {
        let (name, numbers) = line.strip_prefix("hit ")?.split_once(' ')?;
        let numbers: Vec<u64> = numbers
            .split(' ')
            .map_while(|word| word.parse().ok())
            .collect();
        let [address, size, weight] = numbers[..] else {
            panic!("{line}");
        };
        let is_alloc = name == "alloc";
        Some(Hit {
            is_alloc,
            address,
            size,
            weight,
        })
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("exited normally"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text.lines().filter_map(hit).collect()
}

/// The samples of a profile: live and all, and the bytes that all of them stand for.
fn estimated(profile: &Path) -> (u64, u64, f64) {
    let text = std::fs::read_to_string(profile).expect("the profile");
    let mut sum = (0, 0, 0.0);
    for line in text.lines().filter(|line| !line.starts_with("heap ")) {
        let Some((counts, _)) = line.split_once(" @ ") else {
            continue;
        };
        let numbers: Vec<u64> = counts
            .split([' ', ':', '[', ']'])
            .filter_map(|word| word.parse().ok())
            .collect();
        let [live, _, all, bytes] = numbers[..] else {
            panic!("{line}");
        };
        let p = -(-(bytes as f64 / all as f64) / INTERVAL as f64).exp_m1();
        sum = (sum.0 + live, sum.1 + all, sum.2 + bytes as f64 / p);
    }
    sum
}

/// Asserts that the probes say of allocations what the profile does: as many samples, with the same
/// weights. Returns the live samples, and the bytes that all stand for.
fn assert_agrees(profile: &Path, samples: u64, weights: u64) -> (u64, f64) {
    let (live, all, bytes) = estimated(profile);
    assert!(all > 1000, "{all} samples");
    assert_eq!(samples, all);
    // Each weight is rounded.
    let error = (weights as f64 - bytes).abs();
    assert!(error <= all as f64, "{weights} for {bytes}");
    (live, bytes)
}

/// The probes say the same as the profile, and each free follows its allocation.
#[test]
fn a_debugger_sees_each_sample() {
    if find_program("gdb").is_none() {
        eprintln!("skipped: no gdb");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("profile");
    let program = compile(Language::C, "probes.c", Link::Static);
    let hits = hits(&program, &profile);
    let mut live = HashMap::new();
    let mut allocated = Vec::new();
    for hit in hits {
        if hit.is_alloc {
            allocated.push(hit);
            assert_eq!(live.insert(hit.address, hit), None, "{hit:?}");
        } else {
            let before = live.remove(&hit.address);
            let is_same = |was: Hit| (was.size, was.weight) == (hit.size, hit.weight);
            assert!(before.is_some_and(is_same), "{before:?} {hit:?}");
        }
    }
    let weights = allocated.iter().map(|hit| hit.weight).sum();
    let (alive, bytes) = assert_agrees(&profile, allocated.len() as u64, weights);
    assert_eq!(live.len() as u64, alive);
    // And the profile is of what the program allocated.
    let requested = 600.0 * (100.0 + 2000.0 + 9000.0 + 50_000.0 + 200_000.0);
    assert!((0.8..3.0).contains(&(bytes / requested)), "{bytes}");
}

/// The kernel's tracer counts the samples of the profile, and sums their weights.
#[test]
fn bpftrace_sees_each_sample() {
    if find_program("bpftrace").is_none() {
        eprintln!("skipped: no bpftrace");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("profile");
    let program = compile(Language::C, "probes.c", Link::Static);
    let script = format!(
        "usdt:{}:otel_memory:alloc {{ @samples = count(); @weights = sum(arg2); }}",
        program.display()
    );
    let mut command = Command::new("bpftrace");
    command.args(["-e", &script, "-c"]).arg(&program);
    command.env("HAKMEM_PROFILE", &profile);
    command.env("HAKMEM_PROFILE_INTERVAL", INTERVAL.to_string());
    let output = command.output().expect("bpftrace starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let figure = |name: &str| -> Option<u64> {
        let (_, rest) = text.split_once(name)?;
        rest.split_whitespace().next()?.parse().ok()
    };
    let (Some(samples), Some(weights)) = (figure("@samples: "), figure("@weights: ")) else {
        let why = String::from_utf8_lossy(&output.stderr);
        return eprintln!("skipped: bpftrace cannot attach here: {text}{why}");
    };
    assert_agrees(&profile, samples, weights);
}
