//! `hakmem doctor`: each finding, on folders that stand for a system, on programs, and on this system.

use crate::common;

use common::*;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A system with nothing to say about it, and the process 42 on it.
const HEALTHY: [(&str, &str); 22] = [
    ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
    ("proc/sys/kernel/yama/ptrace_scope", "0\n"),
    ("proc/sys/vm/overcommit_memory", "0\n"),
    ("proc/sys/vm/overcommit_kbytes", "0\n"),
    ("proc/sys/vm/overcommit_ratio", "50\n"),
    ("proc/sys/vm/max_map_count", "65530\n"),
    (
        "proc/meminfo",
        "MemTotal: 9 kB\nCommitLimit: 1000 kB\nCommitted_AS: 500 kB\n",
    ),
    (
        "proc/self/status",
        "Name:\thakmem\nCapEff:\t0000000000000000\n",
    ),
    ("proc/self/limits", LIMITS),
    ("proc/self/cgroup", "0::/user/shell\n"),
    (
        "proc/self/mountinfo",
        "30 1 0:26 / /cg rw,nosuid - cgroup2 cgroup2 rw\n",
    ),
    (
        "proc/42/status",
        "Name:\tprog\nTracerPid:\t0\nVmSize:\t 900 kB\nVmData:\t 900 kB\nSeccomp:\t0\n",
    ),
    ("proc/42/limits", LIMITS),
    ("proc/42/cgroup", "0::/app/web\n"),
    ("proc/42/maps", "one\ntwo\n"),
    ("proc/42/environ", "A=b\0C=d\0"),
    ("cg/app/web/memory.max", "max\n"),
    ("cg/app/web/memory.high", "max\n"),
    ("cg/app/web/memory.events", "oom 0\noom_kill 0\n"),
    ("calls/page_size", "4096"),
    ("calls/42", "served"),
    (
        "sys/kernel/mm/transparent_hugepage/enabled",
        "always [madvise] never\n",
    ),
];
const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units
Max data size             unlimited            unlimited            bytes
Max locked memory         8388608              8388608              bytes
Max address space         unlimited            unlimited            bytes
";

/// A folder with the files of a healthy system, changed.
fn system(changes: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in HEALTHY.iter().chain(changes) {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn doctor(root: Option<&Path>, words: &[&str]) -> Output {
    let mut command = hakmem();
    command.args(["doctor", "--json", "--lib"]).arg(&*HAKMEM);
    if let Some(root) = root {
        command.arg("--root").arg(root);
    }
    command.args(words).output().unwrap()
}

/// The findings. The exit status is 1 if there is a problem, and else 0.
fn findings(output: &Output) -> Vec<Value> {
    let all: Value =
        serde_json::from_str(&stdout(output)).unwrap_or_else(|e| panic!("{e}: {}", stderr(output)));
    let findings = all["findings"].as_array().unwrap().clone();
    let problems = findings
        .iter()
        .filter(|f| f["verdict"] == "problem")
        .count();
    assert_eq!(output.status.code(), Some(i32::from(problems > 0)));
    assert_eq!(all["problems"], problems);
    for finding in &findings {
        let advised = finding["advice"].is_string();
        assert_eq!(advised, finding["verdict"] != "ok", "{finding}");
    }
    findings
}

/// Fails unless the finding on this subject has the verdict, and the words in what it says.
#[track_caller]
fn assert_found(findings: &[Value], subject: &str, verdict: &str, words: &str) {
    let finding = findings.iter().find(|f| f["subject"] == subject);
    let finding = finding.unwrap_or_else(|| panic!("nothing on {subject}"));
    assert_eq!(finding["verdict"], verdict, "{finding}");
    let text = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let all = [text("found"), text("meaning"), text("advice")].join(" ");
    assert!(all.contains(words), "{words:?} is not in {all:?}");
}

#[test]
fn a_healthy_system_and_process() {
    let root = system(&[]);
    for words in [&[][..], &["--pid", "42"]] {
        let output = doctor(Some(root.path()), words);
        let findings = findings(&output);
        let others: Vec<_> = findings.iter().filter(|f| f["verdict"] != "ok").collect();
        assert_eq!(others, Vec::<&Value>::new(), "{words:?}");
        assert!(findings.len() > 12);
    }
    let output = doctor(Some(root.path()), &["--pid", "43"]);
    assert_ended(&output, 1, "");
    assert_says(&output, "there is no process 43");
}

/// A file of the system and its text, and the finding: subject, verdict, words.
type Case = (
    &'static [(&'static str, &'static str)],
    &'static str,
    &'static str,
    &'static str,
);

const THP: &str = "sys/kernel/mm/transparent_hugepage/enabled";
const DEFRAG: &str = "sys/kernel/mm/transparent_hugepage/defrag";
const SHMEM: &str = "sys/kernel/mm/transparent_hugepage/shmem_enabled";
const COMMIT: &str = "proc/sys/vm/overcommit_memory";
const YAMA: &str = "proc/sys/kernel/yama/ptrace_scope";

const OF_SYSTEM: [Case; 22] = [
    (
        &[(THP, "[always] madvise never")],
        "huge pages",
        "note",
        "HAKMEM_THP=never",
    ),
    (
        &[(THP, "always madvise [never]")],
        "huge pages",
        "note",
        "gets no huge pages",
    ),
    (
        &[(THP, "")],
        "huge pages",
        "note",
        "no transparent huge pages",
    ),
    (
        &[(DEFRAG, "[always] defer")],
        "making huge pages",
        "note",
        "may wait",
    ),
    (
        &[(DEFRAG, "always [defer]")],
        "making huge pages",
        "ok",
        "No page fault waits",
    ),
    (
        &[(SHMEM, "always [never]")],
        "huge pages of shared memory",
        "ok",
        "never",
    ),
    (
        &[(COMMIT, "2")],
        "vm.overcommit_memory",
        "note",
        "50 % of memory",
    ),
    (
        &[(COMMIT, "2"), ("proc/sys/vm/overcommit_kbytes", "2048")],
        "vm.overcommit_memory",
        "note",
        "2.0 MiB of memory",
    ),
    (
        &[
            (COMMIT, "2"),
            ("proc/meminfo", "CommitLimit: 1000 kB\nCommitted_AS: 951 kB"),
        ],
        "vm.overcommit_memory",
        "problem",
        "951.0 KiB of 1000.0 KiB",
    ),
    (
        &[("proc/sys/vm/max_map_count", "1000")],
        "vm.max_map_count",
        "note",
        "65530",
    ),
    (
        &[("calls/page_size", "16384")],
        "system page",
        "note",
        "less goes back",
    ),
    (
        &[("calls/page_size", "8192")],
        "system page",
        "problem",
        "never tried",
    ),
    (
        &[("proc/sys/kernel/osrelease", "5.10.1")],
        "kernel",
        "note",
        "page by page.",
    ),
    (
        &[("proc/sys/kernel/osrelease", "4.9")],
        "kernel",
        "note",
        "sleeping threads stay",
    ),
    (
        &[("calls/madvise", "22")],
        "MADV_POPULATE_WRITE",
        "note",
        "Invalid argument",
    ),
    (
        &[("calls/membarrier", "38")],
        "membarrier",
        "note",
        "hakmem_thread_idle",
    ),
    (
        &[("calls/process_vm_readv", "1")],
        "process_vm_readv",
        "note",
        "not permitted",
    ),
    (
        &[(YAMA, "1")],
        "kernel.yama.ptrace_scope",
        "note",
        "hakmem top PROG works",
    ),
    (
        &[
            (YAMA, "1"),
            ("proc/self/status", "CapEff:\t0000000000080000"),
        ],
        "kernel.yama.ptrace_scope",
        "ok",
        "right to look",
    ),
    (
        &[(YAMA, "2")],
        "kernel.yama.ptrace_scope",
        "note",
        "Only root",
    ),
    (
        &[(YAMA, "3")],
        "kernel.yama.ptrace_scope",
        "note",
        "HAKMEM_STATS",
    ),
    (
        &[(
            "proc/self/limits",
            "Max address space  1073741824 1073741824 bytes",
        )],
        "RLIMIT_AS",
        "note",
        "1.0 GiB",
    ),
];

const OF_PROCESS: [Case; 16] = [
    (
        &[("proc/42/limits", "Max data size  1048576 9 bytes")],
        "RLIMIT_DATA",
        "note",
        "1.0 MiB",
    ),
    (
        &[("proc/42/limits", "Max data size  1000000 9 bytes")],
        "RLIMIT_DATA",
        "problem",
        "fail",
    ),
    (
        &[("proc/42/limits", "Max address space 921700 9 b")],
        "RLIMIT_AS",
        "problem",
        "900.0 KiB",
    ),
    (
        &[("proc/42/limits", "Max locked memory unlimited")],
        "RLIMIT_MEMLOCK",
        "ok",
        "works",
    ),
    (
        &[
            ("cg/app/memory.max", "1048576"),
            ("cg/app/memory.current", "524288"),
        ],
        "memory.max",
        "note",
        "512.0 KiB of 1.0 MiB",
    ),
    (
        &[
            ("cg/app/web/memory.high", "100"),
            ("cg/app/web/memory.current", "91"),
        ],
        "memory.high",
        "problem",
        "slows",
    ),
    (
        &[("cg/app/web/memory.events", "oom_kill 3")],
        "memory.events",
        "problem",
        "oom_kill 3",
    ),
    (
        &[
            ("proc/42/cgroup", "4:cpu,memory:/docker/1\n0::/"),
            (
                "proc/self/mountinfo",
                "35 31 0:32 /docker/1 /v1 rw - cgroup cgroup rw,memory\n",
            ),
            ("v1/memory.limit_in_bytes", "1048576"),
            ("v1/memory.usage_in_bytes", "1024"),
        ],
        "memory.limit_in_bytes",
        "note",
        "1.0 KiB of 1.0 MiB",
    ),
    (
        &[
            ("proc/42/cgroup", "4:memory:/\n"),
            (
                "proc/self/mountinfo",
                "35 31 0:32 / /v1 rw - cgroup cgroup rw,memory\n",
            ),
            ("v1/memory.limit_in_bytes", "9223372036854771712"),
        ],
        "memory.limit_in_bytes",
        "ok",
        "no limit",
    ),
    (&[("proc/42/cgroup", "")], "control group", "ok", "none"),
    (
        &[("calls/42", "without")],
        "hakmem in the process",
        "problem",
        "does not run on hakmem",
    ),
    (
        &[("calls/42", "forbidden")],
        "hakmem in the process",
        "problem",
        "sudo",
    ),
    (
        &[("proc/42/status", "Name: p\nSeccomp: 2")],
        "filter of system calls",
        "note",
        "clone",
    ),
    (
        &[("proc/42/status", "Name: p\nSeccomp: 1")],
        "filter of system calls",
        "problem",
        "read",
    ),
    (
        &[("proc/42/status", "Name: p\nTracerPid: 7")],
        "tracer",
        "note",
        "process 7",
    ),
    (
        &[("proc/sys/vm/max_map_count", "2")],
        "maps",
        "problem",
        "2 of 2",
    ),
];

#[test]
fn each_finding_on_a_system() {
    for (changes, subject, verdict, words) in OF_SYSTEM {
        let root = system(changes);
        let output = doctor(Some(root.path()), &[]);
        assert_found(&findings(&output), subject, verdict, words);
    }
}

#[test]
fn each_finding_on_a_process() {
    for (changes, subject, verdict, words) in OF_PROCESS {
        let root = system(changes);
        let output = doctor(Some(root.path()), &["--pid", "42"]);
        assert_found(&findings(&output), subject, verdict, words);
    }
}

/// Another allocator that is preloaded, by its file or by its name, before or behind hakmem.
#[test]
fn other_libraries_that_are_preloaded() {
    let other = BUILT.compile(
        "own.c",
        "libother.so",
        &["-shared", "-fPIC", "-fno-builtin", "-DLIBRARY"],
    );
    let (other, ours) = (other.to_str().unwrap(), HAKMEM.to_str().unwrap());
    let harmless = LIBRARY.to_str().unwrap();
    for (value, verdict, words) in [
        (
            other.to_owned(),
            "note",
            "is another allocator. Without hakmem",
        ),
        (
            "libjemalloc.so.2".into(),
            "note",
            "is another allocator. Without hakmem",
        ),
        (
            format!("{ours}:{other}"),
            "note",
            "It stands behind hakmem.",
        ),
        (format!("{other} {ours}"), "note", "Without hakmem"),
        (ours.into(), "ok", "hakmem is among them"),
        ("/no/such/library.so".into(), "note", "cannot be read"),
        (harmless.into(), "ok", "None is an allocator"),
    ] {
        let root = system(&[("etc/ld.so.preload", &format!("# old\n{value}\n"))]);
        let found = findings(&doctor(Some(root.path()), &[]));
        assert_found(&found, "/etc/ld.so.preload", verdict, words);
        let environ = format!("A=b\0LD_PRELOAD={value}\0");
        let root = system(&[("proc/42/environ", &environ)]);
        let found = findings(&doctor(Some(root.path()), &["--pid", "42"]));
        assert_found(&found, "LD_PRELOAD", verdict, words);
    }
    // Of a process in a container, by the names that it has there.
    let root = system(&[("proc/42/environ", "LD_PRELOAD=/only/there.so")]);
    let place = root.path().join("proc/42/root/only");
    fs::create_dir_all(&place).unwrap();
    fs::copy(other, place.join("there.so")).unwrap();
    let found = findings(&doctor(Some(root.path()), &["--pid", "42"]));
    assert_found(
        &found,
        "LD_PRELOAD",
        "note",
        "/only/there.so is another allocator",
    );
    let root = system(&[]);
    let mut command = hakmem();
    command
        .args(["doctor", "--json", "--root"])
        .arg(root.path());
    command
        .arg("--lib")
        .arg(&*HAKMEM)
        .env("LD_PRELOAD", harmless);
    let found = findings(&command.output().unwrap());
    assert_found(&found, "LD_PRELOAD", "ok", "None is an allocator");
}

/// Options that hakmem takes, and others.
#[test]
fn options_in_the_environment() {
    for (value, verdict, words) in [
        ("A=HAKMEM_X=1", "ok", "none set"),
        ("HAKMEM_DECAY_MS=2s\0HAKMEM_STATS=1", "ok", "HAKMEM_STATS=1"),
        ("HAKMEM_DECAY_MS=soon", "note", "not a number from 0"),
        ("HAKMEM_DECAY=1", "note", "no such option"),
    ] {
        let root = system(&[("proc/42/environ", value)]);
        let found = findings(&doctor(Some(root.path()), &["--pid", "42"]));
        assert_found(&found, "options", verdict, words);
    }
    // One whose environment may not be read: nothing is said of it.
    let root = system(&[]);
    fs::remove_file(root.path().join("proc/42/environ")).unwrap();
    let found = findings(&doctor(Some(root.path()), &["--pid", "42"]));
    let unread = ["options", "LD_PRELOAD"];
    assert!(
        !found
            .iter()
            .any(|f| unread.iter().any(|&subject| f["subject"] == subject))
    );
    let root = system(&[]);
    let mut command = hakmem();
    command
        .args(["doctor", "--json", "--root"])
        .arg(root.path());
    command.arg("--lib").arg(&*HAKMEM).env("HAKMEM_WHAT", "1");
    assert_found(
        &findings(&command.output().unwrap()),
        "options",
        "note",
        "HAKMEM_WHAT=1",
    );
}

/// Programs that a preloaded library reaches, and others.
#[test]
fn programs() {
    let folder = tempfile::Builder::new()
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .unwrap();
    let script = folder.path().join("script");
    fs::write(&script, format!("#!{}\n", STATIC.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let by_env = folder.path().join("by-env");
    fs::write(&by_env, "#!/usr/bin/env sh\n").unwrap();
    fs::set_permissions(&by_env, fs::Permissions::from_mode(0o755)).unwrap();
    let musl = BUILT.compile(
        "program.c",
        "musl",
        &["-Wl,--dynamic-linker=/lib/ld-musl-x.so.1"],
    );
    let own = BUILT.compile("own.c", "doctor-own", &["-fno-builtin", "-DPREFIX"]);
    let inside = built::debugged().example("watched");
    for (program, subject, verdict, words) in [
        (&*PROGRAM, "preload", "ok", "nothing that keeps"),
        (&*PROGRAM, "allocator", "ok", "malloc"),
        (&*STATIC, "preload", "problem", "libhakmem.a"),
        (&musl, "preload", "problem", "libhakmem.a for musl"),
        (&script, "program", "ok", "It is a script"),
        (&by_env, "program", "note", "/usr/bin/env looks for"),
        (&script, "preload", "problem", "statically linked"),
        (&own, "allocator", "note", "mimalloc of its own"),
        (&inside, "allocator", "note", "hakmem inside"),
        (&inside, "preload", "ok", "not needed"),
    ] {
        let root = system(&[]);
        let output = doctor(
            Some(root.path()),
            &[program.to_str().unwrap(), "--argument"],
        );
        assert_found(&findings(&output), subject, verdict, words);
    }
    let output = doctor(None, &["no-such-program"]);
    assert_ended(&output, 127, "");
    assert_ended(&doctor(None, &["4711"]), 2, "");
}

#[test]
fn a_setuid_program() {
    // SAFETY: always succeeds.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: only root can make such a file of another user");
    }
    let folder = tempfile::Builder::new()
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .unwrap();
    let copy = folder.path().join("setuid");
    fs::copy(&*PROGRAM, &copy).unwrap();
    chown(&copy, Some(65534), None).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).unwrap();
    let found = findings(&doctor(None, &[copy.to_str().unwrap()]));
    assert_found(&found, "preload", "problem", "the setuid bit");
}

/// Where the library was found, and what is wrong with another file.
#[test]
fn the_library() {
    let found = findings(&doctor(None, &[]));
    let words = format!(
        "{}, version {}",
        HAKMEM.canonicalize().unwrap().display(),
        env!("CARGO_PKG_VERSION")
    );
    assert_found(&found, "library", "ok", &words);
    for (library, words) in [
        (&*LIBRARY, "another library"),
        (&*PROGRAM, "another library"),
        (&"/no/such.so".into(), "library not found"),
    ] {
        let mut command = hakmem();
        let output = command
            .args(["doctor", "--json", "--lib"])
            .arg(library)
            .output()
            .unwrap();
        assert_found(&findings(&output), "library", "problem", words);
    }
}

/// This system and two of its processes, as text: in 80 columns, without colours, with a sum.
#[test]
fn on_this_system() {
    let spawn = |on_hakmem: bool| {
        let mut command = Command::new(&*KNOWN);
        command.stdin(Stdio::piped());
        if on_hakmem {
            command.env("LD_PRELOAD", &*HAKMEM);
        }
        Ready::new(command)
    };
    for on_hakmem in [true, false] {
        let known = spawn(on_hakmem);
        let pid = known.pid().to_string();
        let mut command = hakmem();
        command
            .args(["doctor", "--pid", &pid, "--lib"])
            .arg(&*HAKMEM);
        let output = command.output().unwrap();
        let text = stdout(&output);
        let long = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!(long, None);
        let part = match on_hakmem {
            true => "ok       hakmem in the process: yes\n",
            false => "problem  hakmem in the process: no\n",
        };
        assert!(text.contains(part), "{text}");
        assert!(!text.contains('\x1b') && text.contains("\nproblems: "));
        if !on_hakmem {
            assert_eq!(output.status.code(), Some(1));
        }
        let found = findings(&doctor(None, &["--pid", &pid]));
        assert!(found.iter().any(|f| f["subject"] == "maps"));
    }
}

/// Colours on a terminal alone, and not against NO_COLOR.
#[test]
fn colours() {
    for (value, colours) in [("", true), ("1", false)] {
        let mut command = hakmem();
        command.args(["doctor", "--lib"]).arg(&*HAKMEM);
        let mut terminal = terminal::Terminal::of_kind(command, &[("NO_COLOR", value)]);
        terminal.until_shows("problems: ");
        let screen = terminal.screen.screen();
        let all = (0..40).flat_map(|y| (0..120).map(move |x| (y, x)));
        let plain = |(y, x)| screen.cell(y, x).unwrap().fgcolor() == vt100::Color::Default;
        assert_eq!(!all.into_iter().all(plain), colours, "NO_COLOR={value}");
    }
}
