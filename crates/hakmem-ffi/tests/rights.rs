//! Changes of rights, namespaces and sandboxes, and processes under filters for system calls.

use crate::common::filter::{sandbox, under, under_narrow};
use crate::common::{Language, Link, compile, finish, library, preload, run, skipped};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

fn rights() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile(Language::C, "rights.c", Link::Plain))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The report on standard error has blocks of the program.
fn assert_served(output: &Output, kind: &str) {
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(
        report.contains(r#""event":"exit""#) && !report.contains(r#""allocations":0,"#),
        "{kind}: {report}"
    );
}

/// Whether only root can do what the test is about, and this is not root.
fn lacks_root() -> bool {
    // SAFETY: no preconditions.
    let lacks = unsafe { libc::getuid() } != 0;
    if lacks {
        skipped("changing rights takes root");
    }
    lacks
}

// What the functions do.

const KINDS: [&str; 5] = [
    "each",
    "in_a_child_of_vfork",
    "in_a_handler",
    "all_threads",
    "neighbours",
];

/// Those that this user can try.
fn kinds() -> impl Iterator<Item = &'static str> {
    let root = !lacks_root();
    KINDS
        .into_iter()
        .filter(move |kind| root || *kind != "all_threads")
}

/// Every function and every number has the C library's result and errno, wherever it is called.
#[test]
fn the_functions_are_the_c_librarys() {
    for kind in kinds() {
        let plain = text(&run(Command::new(rights()).arg(kind)));
        let mut command = Command::new(rights());
        // A process that gives its rights up cannot write a report to a file of root's at its end.
        command.arg(kind).env("LD_PRELOAD", &library().shared);
        command
            .env("HAKMEM_STATS", "json")
            .env("HAKMEM_SCAVENGER", "0");
        let output = run(&mut command);
        assert_eq!(text(&output), plain, "{kind}");
        assert_served(&output, kind);
    }
}

/// In a program without a C library beside it, too, whose functions carry a change to all threads.
#[test]
fn the_functions_are_the_c_librarys_in_a_static_program() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/rights.c");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let build = |name: &str, with: &[&Path]| {
        let program = directory.path().join(name);
        let mut compiler = Command::new("cc");
        compiler.args(["-static", "-std=gnu11", "-O1", "-fno-builtin", "-pthread"]);
        compiler.arg("-o").arg(&program).arg(&source).args(with);
        finish(&mut compiler).status.success().then_some(program)
    };
    let Some(plain) = build("plain", &[]) else {
        return skipped("there is no static C library");
    };
    let ours = build("ours", &[&library().r#static]).expect("it links with hakmem too");
    for kind in kinds() {
        let expected = text(&run(Command::new(&plain).arg(kind)));
        let mut command = Command::new(&ours);
        let output = run(command
            .arg(kind)
            .env("HAKMEM_STATS", "json")
            .env("HAKMEM_SCAVENGER", "0"));
        assert_eq!(text(&output), expected, "{kind}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(r#""event":"exit""#));
    }
}

// What becomes of the thread that gives memory back.

/// Runs one kind by itself and preloaded; by itself it proves that it is right.
fn beside_the_scavenger(kind: &str) {
    run(Command::new(rights()).arg(kind));
    preloaded(kind);
}

fn preloaded(kind: &str) {
    let mut command = Command::new(rights());
    command
        .arg(kind)
        .env("HAKMEM_STATS", "json")
        .env("LD_PRELOAD", &library().shared);
    assert_served(&run(&mut command), kind);
}

#[test]
fn no_thread_keeps_the_user_that_was_given_up() {
    if !lacks_root() {
        beside_the_scavenger("user_changes");
    }
}

/// `RLIMIT_NPROC` counts the user's threads, but not root's.
#[test]
fn memory_goes_back_where_no_thread_is_left() {
    if !lacks_root() {
        preloaded("no_thread_is_left");
    }
}

#[test]
fn no_thread_keeps_the_groups_that_were_given_up() {
    if !lacks_root() {
        beside_the_scavenger("groups_change");
    }
}

#[test]
fn all_threads_have_the_same_capabilities() {
    beside_the_scavenger("capabilities_are_equal");
}

#[test]
fn namespaces_change_as_without_the_scavenger() {
    if !lacks_root() {
        beside_the_scavenger("namespaces_change");
    }
}

#[test]
fn a_fork_leaves_a_program_of_one_thread_with_one() {
    beside_the_scavenger("fork_leaves_one_thread");
}

#[test]
fn a_program_that_ends_its_last_thread_has_its_status() {
    beside_the_scavenger("the_last_thread_has_the_status");
}

#[test]
fn there_is_no_scavenger_behind_a_filter() {
    beside_the_scavenger("filter_of_another");
}

#[test]
fn memory_goes_back_behind_a_filter() {
    preloaded("filtered_and_idle");
}

/// The program gives up what it needs to open its report. A line says which report is lost.
#[test]
fn a_process_that_gives_up_its_rights_says_that_its_report_is_lost() {
    if lacks_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("report.%p");
    let mut command = Command::new(rights());
    command
        .arg("is_confined")
        .env("HAKMEM_STATS", format!("json:{}", name.display()))
        .env("LD_PRELOAD", &library().shared);
    let output = run(&mut command);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let lost = said
        .strip_prefix("hakmem: report lost: cannot write ")
        .expect(&said);
    let (file, _) = lost.split_once(": No such file").expect(&said);
    let report = std::fs::read_to_string(file).expect(file);
    assert!(
        report.contains(r#""event":"load""#) && report.lines().count() == 1,
        "{report}"
    );
}

/// Python 3.12 and later warns of a fork in a process with several threads.
#[test]
fn python_does_not_warn_of_threads() {
    let script = "import os, sys, warnings\n\
        if sys.version_info < (3, 12): print('old'); sys.exit()\n\
        warnings.simplefilter('error')\n\
        for i in range(5):\n\
        \x20   blocks = [bytes(1 << 20) for _ in range(64)]; del blocks\n\
        \x20   pid = os.fork()\n\
        \x20   if pid == 0: os._exit(0)\n\
        \x20   os.waitpid(pid, 0)\n\
        print('new')\n";
    let Some(python) = crate::common::find_program("python3") else {
        return;
    };
    let mut command = Command::new(python);
    command.args(["-c", script]).env("PYTHONMALLOC", "malloc");
    let reports = preload(&mut command);
    let output = run(&mut command);
    reports.assert_served();
    if text(&output) == "old\n" {
        skipped("this Python does not warn");
    }
}

// Filters.

/// Runs a kind of sandbox.c preloaded, with variables.
fn sandboxed(kind: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(sandbox());
    command.arg(kind).env("LD_PRELOAD", &library().shared);
    finish(command.envs(variables.iter().copied()))
}

fn check(kind: &str, output: &Output) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{kind}: {}: {stderr}",
        output.status
    );
}

/// A server's child that has shut itself in: no report ends it, and those to what it had open come
/// through.
fn locked_in(scavenger: &str) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let (report, map, profile) = (at("report"), at("map"), at("profile"));
    let to_file = format!("json:{report}");
    let reads = |name: &str| std::fs::read_to_string(name).expect("what was asked for");
    for kind in ["privsep", "young"] {
        let said = |variables: &[(&str, &str)]| {
            let all = [&[("HAKMEM_SCAVENGER", scavenger)], variables].concat();
            let output = sandboxed(kind, &all);
            check(kind, &output);
            assert_eq!(text(&output), "done\n");
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        assert_eq!(said(&[]), "");
        let lines = said(&[("HAKMEM_STATS", "1")]);
        assert!(lines.contains(" allocations, "), "{lines}");
        assert_eq!(said(&[("HAKMEM_STATS", &to_file)]), "");
        let lines: Vec<serde_json::Value> = reads(&report)
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(
            (&lines[0]["event"], &lines[1]["event"]),
            (&"load".into(), &"exit".into())
        );
        assert!(lines[1]["allocations"].as_u64() > Some(640_000));
        for unknown in [
            "minor_faults",
            "peak_resident_bytes",
            "peak_resident_kib",
            "resident_bytes",
            "cpu_nanos",
        ] {
            assert_eq!(lines[1][unknown], 0, "{unknown}");
        }
        assert_eq!(
            said(&[("HAKMEM_MAP", &map), ("HAKMEM_PROFILE", &profile)]),
            ""
        );
        let drawn: serde_json::Value = serde_json::from_str(&reads(&map)).expect("JSON");
        assert_eq!(drawn["event"], "exit");
        assert!(reads(&profile).contains("event=exit"));
        for file in [&report, &map, &profile] {
            std::fs::remove_file(file).expect("the file");
        }
        // Nowhere to write, which is said once, and before.
        let lines = said(&[("HAKMEM_STATS", "json:/nowhere/at/all")]);
        assert!(
            lines.lines().all(|line| line.contains("report lost")),
            "{lines}"
        );
    }
}

#[test]
fn a_process_that_shuts_itself_in_reports() {
    locked_in("0");
}

/// The scavenger does not come to it, as its system call would end the process.
#[test]
fn a_process_that_shuts_itself_in_may_have_had_a_scavenger() {
    locked_in("16");
}

/// A pipe that nobody reads ends nobody: not at the end, and not where a signal's handler returns
/// to.
#[test]
fn a_lost_report_does_not_end_a_process_with_a_filter() {
    for kind in ["privsep", "signalled"] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(sandbox());
        command
            .arg(kind)
            .env("LD_PRELOAD", &library().shared)
            .env("HAKMEM_SCAVENGER", "0")
            .env("HAKMEM_STATS", "json")
            .env("HAKMEM_STATS_SIGNAL", "USR2")
            .stdin(std::process::Stdio::null())
            .stderr(writer);
        // As programs find it, not as Rust's do.
        // SAFETY: sets a signal's disposition in the child.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                Ok(())
            });
        }
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{kind}: {}", output.status);
        assert_eq!(text(&output), "done\n");
    }
}

/// A thread that is writing a report on a signal follows, too, although nobody reads the report.
/// The thread that changes the rights waits for it.
#[test]
fn rights_change_beside_a_report_that_nobody_reads() {
    let (_reader, writer) = std::io::pipe().expect("a pipe");
    let flags = |flags: i32| {
        // SAFETY: sets the flags of a descriptor that this function has.
        let done = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, flags) };
        assert_eq!(done, 0);
    };
    flags(libc::O_NONBLOCK);
    let is_full = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
    while !(&writer).write(&[0; 1]).is_err_and(is_full) {}
    flags(0);
    let mut command = Command::new(rights());
    command
        .arg("beside_a_report")
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_STATS", "json")
        .env("HAKMEM_STATS_SIGNAL", "USR2")
        .stdin(std::process::Stdio::null())
        .stderr(writer.try_clone().expect("a descriptor"));
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", output.status);
    assert_eq!(text(&output), "setgid(getgid()) = 0, errno 77\n");
}

/// What docs/c-abi.md lists for each feature is enough, where the library knows of no filter.
#[test]
fn each_feature_needs_the_calls_that_are_listed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let (map, profile) = (at("map"), at("profile"));
    let alone = ("HAKMEM_SCAVENGER", "0");
    for (kind, variables) in [
        ("first_block", vec![alone]),
        ("allocation", vec![alone]),
        ("giving_back", vec![alone]),
        ("scavenger", vec![]),
        ("statistics", vec![alone, ("HAKMEM_STATS", "1")]),
        ("map", vec![alone, ("HAKMEM_MAP", &map)]),
        (
            "profile",
            vec![
                alone,
                ("HAKMEM_PROFILE", &profile),
                ("HAKMEM_PROFILE_INTERVAL", "1"),
            ],
        ),
    ] {
        let output = sandboxed(kind, &variables);
        check(kind, &output);
        if kind == "statistics" {
            assert!(String::from_utf8_lossy(&output.stderr).contains(" allocations, "));
        }
    }
    let drawn = std::fs::read_to_string(map).expect("the map");
    assert!(drawn.contains(r#""program":"sandbox"#), "{drawn}");
    let profile = std::fs::read_to_string(profile).expect("the profile");
    assert!(
        profile.contains("event=exit") && profile.contains("libhakmem.so"),
        "{profile}"
    );
}

/// What threads that sleep keep goes back under a filter that came with the program, too.
#[test]
fn memory_of_sleeping_threads_goes_back_under_an_inherited_filter() {
    let program = compile(Language::C, "asleep.c", Link::Plain);
    let run = |mode: &str, variables: &[(&str, &str)]| {
        let mut command = under_narrow(&program);
        command
            .arg(mode)
            .env("LD_PRELOAD", &library().shared)
            .env("HAKMEM_STATS", "json")
            .envs(variables.iter().copied());
        assert_served(&run(&mut command), mode);
    };
    for mode in ["idle", "forked"] {
        run(mode, &[]);
    }
    // Passes come often, while blocks are allocated and freed.
    run(
        "at_work",
        &[("HAKMEM_SCAVENGER", "1"), ("HAKMEM_DECAY_MS", "1")],
    );
}

/// A filter that came with the program takes nothing away from reports: they ask by files.
#[test]
fn a_process_that_inherited_a_filter_reports() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let (map, profile) = (at("map"), at("profile"));
    let mut command = under_narrow(Path::new("/usr/bin/python3"));
    command
        .args(["-c", "a = [bytes(1000) for _ in range(100000)]"])
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_SCAVENGER", "0")
        .env("HAKMEM_STATS", "json")
        .env("HAKMEM_MAP", &map)
        .env("HAKMEM_PROFILE", &profile);
    let output = run(&mut command);
    assert_served(&output, "python3");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let figure = |name: &str| {
        let (_, rest) = stderr.split_once(&format!("\"{name}\":")).expect(name);
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().expect(name)
    };
    assert!(figure("minor_faults") > 1000, "{stderr}");
    assert!(figure("peak_resident_kib") > 90_000, "{stderr}");
    assert!(figure("resident_bytes") > 0, "{stderr}");
    let drawn = std::fs::read_to_string(map).expect("the map");
    assert!(drawn.contains(r#""program":"python3"#), "{drawn}");
    let profile = std::fs::read_to_string(profile).expect("the profile");
    let stacks = profile.lines().filter(|line| line.contains(" @ "));
    let deepest = stacks.map(|line| line.matches(" 0x").count()).max();
    assert!(deepest > Some(8), "{profile}");
}

/// One of the calls that the program tries has no such number in any list.
#[test]
fn a_filter_ends_who_makes_another_call() {
    let output = finish(under(rights()).arg("each"));
    assert_eq!(output.status.signal(), Some(libc::SIGSYS), "{output:?}");
}
