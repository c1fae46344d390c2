//! `hakmem profile` with the library of this workspace, on programs that say themselves what they
//! allocate.

#[path = "profile/accounts.rs"]
mod accounts;
#[path = "profile/frames.rs"]
mod frames;
use crate::{common, pictures};

use accounts::*;
use common::*;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn profile(folder: &Path, options: &[&str], program: &Path) -> (Output, PathBuf) {
    let prefix = folder.join("out");
    let mut command = hakmem();
    command
        .args(["profile", "--lib"])
        .arg(&*HAKMEM)
        .arg("-o")
        .arg(&prefix);
    (
        command
            .args(options)
            .arg("--")
            .arg(program)
            .output()
            .unwrap(),
        prefix,
    )
}

/// Compiles the C program.
fn compiled(name: &str, flags: &[&str]) -> PathBuf {
    BUILT.compile(
        "profiled.c",
        name,
        &[&["-O2", "-fno-builtin", "-pthread"], flags].concat(),
    )
}

/// A graph that a run before left is not taken for one of this run.
#[test]
fn a_run_without_live_samples_leaves_no_graph_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let graph = folder.path().join("out.live.svg");
    std::fs::write(&graph, "of a run before").unwrap();
    let (output, _) = profile(folder.path(), &[], Path::new("true"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_says(&output, "out.live.folded");
    assert!(!graph.exists());
    let said = |what: &str| format!("  {what}: nothing is live\n");
    let graph = graph.display();
    assert_says(
        &output,
        &said(&format!("removed {graph} of an earlier run")),
    );
    let (output, _) = profile(folder.path(), &[], Path::new("true"));
    assert_says(&output, &said(&format!("no {graph}")));
}

#[test]
fn a_c_program_without_frame_pointers() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled("profiled-tables", &["-g", "-fomit-frame-pointer"]);
    let (output, prefix) = profile(folder.path(), &["--interval", "2048"], &program);
    assert_eq!(
        output.status.code(),
        Some(3),
        "the program's own: {}",
        stderr(&output)
    );
    attributed(&truth(&output), &prefix, str::to_owned);
    let said = stderr(&output);
    for part in [
        "at exit",
        "one in 2.0 KiB",
        "live bytes       %     blocks  by\n",
        "allocated       %     blocks  by\n",
        "keeps_small < main",
        "out.pb.gz",
        "out.live.svg",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(
        !said.contains(" malloc") && !said.contains("hakmem_core"),
        "the allocator's own frames are left out: {said}"
    );
}

/// Nothing but frame pointers leads from frame to frame there, and only symbols have names.
#[test]
fn a_c_program_without_unwind_tables() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(
        "profiled-frames",
        &["-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables"],
    );
    let (output, prefix) = profile(folder.path(), &["--interval", "2048"], &program);
    assert_eq!(output.status.code(), Some(3));
    let mut truth = truth(&output);
    // The C library's sort has tables and no frame pointers, strdup neither of the program's
    // callers' needs.
    truth.remove("called_back");
    for which in ["live", "allocated"] {
        let stacks = folded(&prefix.with_extension(format!("{which}.folded")));
        for name in ["keeps_small", "drops_most", "digs", "grows", "in_thread"] {
            let want = if which == "live" {
                truth[name].live
            } else {
                truth[name].all
            };
            let of = |stack: &[String]| stack.iter().any(|frame| frame == name);
            let got: f64 = stacks
                .iter()
                .filter(|(stack, _)| of(stack))
                .map(|(_, bytes)| bytes)
                .sum();
            assert!(
                (got - want).abs() < 0.07 * want + 1e6,
                "{which} {name}: {got} for {want}"
            );
            if name != "in_thread" {
                let all = stacks.iter().filter(|(stack, _)| of(stack));
                assert!(
                    all.clone()
                        .all(|(stack, _)| stack.iter().any(|f| f == "main")),
                    "{name} is called by main"
                );
            }
        }
    }
}

/// The Rust program of hakmem-fixtures, with hakmem inside: it writes the profile itself.
#[test]
fn a_rust_program() {
    let program = built::released(&[]).example("profiled");
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("raw");
    let output = Command::new(program).arg(&raw).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let prefix = folder.path().join("out");
    let made = hakmem()
        .args(["profile", "--file"])
        .arg(&raw)
        .arg("-o")
        .arg(&prefix)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    assert!(stdout(&made).contains("while running"), "{}", stdout(&made));
    attributed(&truth(&output), &prefix, |name| format!("profiled::{name}"));
}

#[path = "../../hakmem-pprof/tests/decoded/mod.rs"]
mod decoded;

#[test]
fn the_file_for_pprof_is_what_its_schema_says() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled("profiled-pprof", &["-g"]);
    let (output, prefix) = profile(folder.path(), &["--interval", "4096"], &program);
    let p = decoded::decode_file(&prefix.with_extension("pb.gz"));
    let name = |i: usize| p.strings[i].as_str();
    let types: Vec<_> = p
        .types
        .iter()
        .map(|&(name_of, unit)| (name(name_of), name(unit)))
        .collect();
    let want = [
        ("alloc_objects", "count"),
        ("alloc_space", "bytes"),
        ("inuse_objects", "count"),
        ("inuse_space", "bytes"),
    ];
    assert_eq!(types, want);
    assert_eq!(
        (name(0), name(p.default_type), p.period),
        ("", "inuse_space", 4096)
    );
    assert!(p.mappings.len() >= 3);
    // Every reference leads somewhere, and the sums are the program's.
    let truth = truth(&output);
    for (function, account) in &truth {
        let mut got = Account::default();
        for (stack, values) in &p.samples {
            let functions = stack
                .iter()
                .flat_map(|id| &p.locations[id])
                .map(|(id, _)| name(p.functions[id]));
            assert_eq!(values.len(), 4);
            if functions.into_iter().any(|f| f == function) {
                got.all += values[1] as f64;
                got.live += values[3] as f64;
            }
        }
        for (got, want) in [(got.live, account.live), (got.all, account.all)] {
            assert!(
                (got - want).abs() < 0.1 * want + 1e6,
                "{function}: {got} for {want}"
            );
        }
    }
    let lines = p
        .locations
        .values()
        .flatten()
        .filter(|(_, line)| *line > 0)
        .count();
    assert!(lines > 10, "lines of the source are there");
}

/// What was sampled at a longer interval counts by that, and not as the line for other readers has
/// it.
#[test]
fn samples_at_several_intervals_are_one_in_the_file_for_pprof() {
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("raw");
    let text = "\
heap profile: 11: 11264 [85: 87040] @ heap_v2/524288
# hakmem 2 pid=5 event=exit on=1 lost=0 own=0x1
1: 1024 [5: 5120] @ 0x5000 0x6000
# at 4194304: 1 [10]
8: 8192 [80: 81920] @ 0x5000 0x6000

MAPPED_LIBRARIES:
";
    std::fs::write(&raw, text).unwrap();
    let output = hakmem()
        .args(["profile", "--file"])
        .arg(&raw)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stdout(&output);
    assert!(
        said.contains("samples    15, one in 512.0 KiB to 4.0 MiB;"),
        "{said}"
    );
    // (5 × 0.5 + 10 × 4)² / (5 × 0.5² + 10 × 4²)
    assert!(
        said.contains("\n             as exact as 11 samples at one interval\n"),
        "{said}"
    );
    let p = decoded::decode_file(&raw.with_extension("pb.gz"));
    let [(_, values)] = &p.samples[..] else {
        panic!("{p:?}")
    };
    let of = |interval: f64| 1.0 / -(-1024.0 / interval).exp_m1();
    let (plain, longer) = (of(524_288.0), of(4_194_304.0));
    let all = 5.0 * plain + 10.0 * longer;
    let live = plain + longer;
    let want = [all, all * 1024.0, live, live * 1024.0].map(|v: f64| v.round() as i64);
    assert_eq!(values[..], want);
    assert_eq!(p.period, 524_288);
}

#[test]
fn the_picture_can_be_read_in_librsvg() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled("profiled-drawn", &["-g"]);
    let (_, prefix) = profile(folder.path(), &["--interval", "4096"], &program);
    for which in ["live", "allocated"] {
        let svg = prefix.with_extension(format!("{which}.svg"));
        pictures::flames_can_be_read(&svg, "profiled-drawn");
    }
}

#[test]
fn the_picture_is_an_svg_with_every_function_that_is_wide_enough() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled("profiled-picture", &["-g"]);
    let (output, prefix) = profile(folder.path(), &["--interval", "4096"], &program);
    for which in ["live", "allocated"] {
        let svg = std::fs::read_to_string(prefix.with_extension(format!("{which}.svg"))).unwrap();
        let tree = roxmltree::Document::parse_with_options(
            &svg,
            roxmltree::ParsingOptions {
                allow_dtd: true,
                ..Default::default()
            },
        );
        let tree = tree.unwrap();
        assert_eq!(tree.root_element().tag_name().name(), "svg");
        let titles: Vec<_> = tree
            .descendants()
            .filter(|n| n.has_tag_name("title"))
            .filter_map(|n| n.text())
            .collect();
        let root = titles.iter().find(|title| title.ends_with(" bytes, 100%)"));
        let root = root.expect("a root");
        assert!(root.starts_with("profiled-picture ("), "{root}");
        let texts = tree.descendants().filter(|n| n.has_tag_name("text"));
        let texts: Vec<_> = texts.filter_map(|n| n.text()).collect();
        assert!(texts.contains(&"profiled-picture"), "without a script, too");
        let begins = |text: &str| texts.iter().any(|t| t.starts_with(text));
        assert!(begins("profiled-picture: "), "{texts:?}");
        let said = stderr(&output);
        let head = if which == "live" {
            "live "
        } else {
            "allocated "
        };
        let whole = said.lines().find_map(|line| line.trim().strip_prefix(head));
        let whole = whole.unwrap().trim().split(" in ").next().unwrap();
        let whole = format!("{whole} in all, ");
        assert!(texts.iter().any(|text| text.starts_with(&whole)), "{whole}");
        assert!(
            !svg.contains("var(--"),
            "some that draw it know no variables"
        );
        let truth = truth(&output);
        // What has less than 0.2 % is left out: so may be a part of what is called at many depths
        // of a sort.
        let wide: Vec<_> = truth.keys().filter(|name| *name != "called_back").collect();
        for name in &wide {
            assert!(
                titles
                    .iter()
                    .any(|title| title.starts_with(&format!("{name} "))),
                "{which}: {name}"
            );
        }
        assert_eq!(wide.len(), 6);
        let links = tree
            .descendants()
            .flat_map(|n| n.attributes())
            .filter(|a| a.value().starts_with("http"));
        assert_eq!(links.count(), 0, "it needs nothing else");
    }
}

#[test]
fn what_cannot_be_had_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let text = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    for (file, why) in [
        (folder.path().join("missing"), "cannot read"),
        (text("empty", ""), "there is no heap profile"),
        (
            text("nonsense", "he\x1b[2Jllo\n"),
            "nonsense: line 1 cannot be read as one of a heap profile\n",
        ),
    ] {
        let output = hakmem()
            .args(["profile", "--file"])
            .arg(&file)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_says(&output, why);
    }
    let whole = text(
        "whole",
        "heap profile: 0: 0 [0: 0] @ heap_v2/1\n# hakmem 2 pid=5 event=exit on=1 lost=0 own=0x1\n\n\
         MAPPED_LIBRARIES:\n",
    );
    let run = |arguments: &[&str]| {
        hakmem()
            .args(["profile", "--file"])
            .arg(&whole)
            .args(arguments)
            .output()
            .unwrap()
    };
    let shown = run(&[]);
    assert!(shown.status.success());
    assert_eq!(stderr(&shown), "", "the list is on standard output");
    assert!(stdout(&shown).contains("heap profile of process 5, at exit"));
    let other = run(&["--pid", "6"]);
    assert_eq!(other.status.code(), Some(1));
    assert_says(
        &other,
        "no heap profile of process 6; it has one of process 5\n",
    );
    let unwritable = run(&["-o", "/nowhere/at/all"]);
    assert_eq!(unwritable.status.code(), Some(1));
    assert!(stderr(&unwritable).contains("cannot write /nowhere/at/all.pb.gz"));
    // A program that ends without its exit handlers has no profile, and its own status.
    let output = hakmem()
        .args(["profile", "--lib"])
        .arg(&*HAKMEM)
        .arg("-o")
        .arg(folder.path().join("none"))
        .args(["--", "sh", "-c", "kill -TERM $$"])
        .output()
        .unwrap();
    assert_says(
        &output,
        "sh left no heap profile: SIGTERM killed the process before it could report; ",
    );
    assert_says(&output, "hakmem profile --pid PID takes one before the end");
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&output.status),
        Some(15)
    );
    let output = hakmem()
        .args(["profile", "--lib"])
        .arg(&*HAKMEM)
        .arg("-o")
        .arg(folder.path().join("none"))
        .args(["--", "perl", "-MPOSIX", "-e", "POSIX::_exit(3)"])
        .output()
        .unwrap();
    assert_ended(&output, 3, "");
    assert_says(
        &output,
        "perl left no heap profile: it ended without exit handlers (_exit,",
    );
}

/// Whatever a file has in it, and the files that it names, the one who reads it is not harmed.
#[test]
fn a_forged_profile_is_refused_or_shown_without_harm() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profile");
    let pipe = folder.path().join("pipe");
    let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
    // SAFETY: a string that ends in NUL.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let broken = folder.path().join("broken");
    let mut program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let mut state = 7u64;
    for byte in program.iter_mut().skip(4096) {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        if state >> 56 == 0 {
            *byte = (state >> 48) as u8;
        }
    }
    std::fs::write(&broken, program).unwrap();
    let read = |text: &str| {
        std::fs::write(&file, text).unwrap();
        bounded(hakmem().args(["profile", "--file"]).arg(&file))
    };
    let head = "heap profile: 1: 1 [1: 1] @ heap_v2/524288\n# hakmem 2 pid=7 event=\x1b[2J on=1 \
        lost=18446744073709551615 own=0x0\n";
    let places: String = (1..400).map(|n| format!(" 0x{:x}", n * 5000)).collect();
    let maps = format!(
        "MAPPED_LIBRARIES:\n0-10000 r-xp 00000000 0 0 {}\n10000-20000 r-xp 0 0 0 \
         /dev/zero\n20000-30000 r-xp 0 0 0 /\x1b[2J\u{9b}\n\
         40000-4000000 r-xp 0 0 0 {}\n",
        pipe.display(),
        broken.display()
    );
    let output = read(&format!("{head}5: 5 [5: 5] @{places}\n{maps}"));
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("pipe+0x"), "{}", stdout(&output));
    for kind in ["live.svg", "allocated.folded"] {
        let text = std::fs::read_to_string(format!("{}.{kind}", file.display())).unwrap();
        assert!(!text.contains(['\x1b', '\u{9b}']), "{text}");
    }
    let said = stderr(&output) + &stdout(&output);
    assert!(!said.contains(['\x1b', '\u{9b}']));
    for line in [
        "5: 5 [1099511627776: 18446744073709551615] @ 0x1".to_owned(),
        "18446744073709551615: 5 [18446744073709551615: 5] @ 0x1".to_owned(),
        format!("5: 5 [5: 5] @{}", " 1".repeat(1 << 20)),
        format!("5: 5 [5: 5] @{}\n", " 1".repeat(1 << 18)).repeat(20),
        "1: 1 [1: 1] @ 1\n".repeat(600_000),
        "# at 72057594037927936: 1 [1099511627776]\n5: 5 [5: 5] @ 0x1".to_owned(),
    ] {
        let output = read(&format!("{head}{line}\n"));
        assert!(refused_or_done(&output, &line[..line.len().min(40)]));
    }
    let output = bounded(hakmem().args(["profile", "-o", "/nowhere/x", "--file", "/dev/zero"]));
    assert!(refused_or_done(&output, "/dev/zero"));
}
