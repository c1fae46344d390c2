//! `hakmem doctor`: each finding, on folders that stand for a system, on programs, and on this
//! system.

mod cases;

use crate::common;

use cases::{HEALTHY, OF_PROCESS, OF_SYSTEM};
use common::*;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

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

/// In the text and in JSON: problems, notes, and what is well, each in the order of what was looked
/// at.
#[test]
fn what_is_wrong_comes_first() {
    let root = system(&[]);
    let of = |words: &[&str]| {
        let mut command = hakmem();
        command.args(["doctor", "--root"]).arg(root.path());
        command.args(words).env("HAKMEM_DECAY", "1");
        command.output().unwrap()
    };
    let output = of(&["--json", "--lib", "/no/such/library"]);
    assert_eq!(output.status.code(), Some(1));
    let found = findings(&output);
    let verdicts: Vec<_> = found
        .iter()
        .map(|f| f["verdict"].as_str().unwrap())
        .collect();
    assert_eq!(verdicts[..2], ["problem", "note"], "{found:?}");
    assert!(
        verdicts[2..].iter().all(|&verdict| verdict == "ok"),
        "{found:?}"
    );
    let subject = |n: usize| found[n]["subject"].as_str().unwrap();
    assert_eq!([0, 1, 2].map(subject), ["library", "options", "kernel"]);

    let text = stdout(&of(&["--lib", "/no/such/library"]));
    let heads = text.lines().filter(|line| !line.starts_with(' '));
    let heads: Vec<_> = heads.map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(heads[..verdicts.len()], verdicts, "{text}");
}

/// What cannot be read is not well for that reason.
#[test]
fn a_system_without_proc() {
    let root = system(&[]);
    fs::remove_dir_all(root.path().join("proc")).unwrap();
    let found = findings(&doctor(Some(root.path()), &[]));
    assert_found(&found, "/proc", "note", "not mounted");
    for subject in [
        "kernel.yama.ptrace_scope",
        "control group",
        "filter of system calls",
    ] {
        assert_found(&found, subject, "note", "not known");
    }
    let output = doctor(Some(root.path()), &["--pid", "42"]);
    assert_ended(&output, 1, "");
    assert_says(&output, "cannot look into process 42: /proc is not mounted");
}

/// What a kernel was built without has no file. That is known.
#[test]
fn a_kernel_without_yama_and_control_groups() {
    let root = system(&[]);
    fs::remove_dir_all(root.path().join("proc/sys/kernel/yama")).unwrap();
    for process in ["self", "42"] {
        fs::remove_file(root.path().join(format!("proc/{process}/cgroup"))).unwrap();
    }
    for words in [&[][..], &["--pid", "42"]] {
        let found = findings(&doctor(Some(root.path()), words));
        assert_found(&found, "kernel.yama.ptrace_scope", "ok", "not there");
        assert_found(&found, "control group", "ok", "none for memory");
    }
}

/// Runs the command on a system without /proc; None: that takes rights.
fn without_proc(words: &[&str]) -> Option<Output> {
    let mut command = Command::new("unshare");
    command.args([
        "-m",
        "sh",
        "-c",
        "umount -l /proc && echo gone && exec \"$@\"",
    ]);
    command
        .args(["sh", env!("CARGO_BIN_EXE_hakmem")])
        .args(words);
    let output = command.env_remove("LD_PRELOAD").output().ok()?;
    output.stdout.starts_with(b"gone\n").then_some(output)
}

#[test]
fn commands_without_proc() {
    let library = HAKMEM.to_str().unwrap();
    let Some(output) = without_proc(&["doctor"]) else {
        return println!("skipped: only root can take /proc away");
    };
    let text = stdout(&output);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("/proc: not mounted"), "{text}");
    assert!(
        words.contains("--lib PATH") && !words.contains("?."),
        "{text}"
    );
    let output = without_proc(&["doctor", "--lib", library]).unwrap();
    assert!(
        stdout(&output).contains("note     library: "),
        "{}",
        stdout(&output)
    );
    let output = without_proc(&["stat", "--pid", "1"]).unwrap();
    assert_says(
        &output,
        "cannot look into process 1: /proc is not mounted\n",
    );
    let output = without_proc(&["run", "true"]).unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert_says(&output, "/proc is not mounted");
    assert_says(&output, "--lib PATH");
    let output = without_proc(&["run", "--lib", library, "true"]).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

/// The command runs under a filter that lets every call through.
#[test]
fn a_filter_that_was_inherited() {
    use std::os::unix::process::CommandExt;
    const ALLOW: u32 = 0x7fff_0000;
    let filtered = || {
        let mut filter = libc::sock_filter {
            code: (libc::BPF_RET | libc::BPF_K) as u16,
            jt: 0,
            jf: 0,
            k: ALLOW,
        };
        let program = libc::sock_fprog {
            len: 1,
            filter: &mut filter,
        };
        // SAFETY: system calls with numbers and a live program.
        let made = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program)
        };
        match made {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    let mut command = hakmem();
    command.args(["doctor", "--json", "--lib"]).arg(&*HAKMEM);
    // SAFETY: the closure only makes system calls.
    let output = unsafe { command.pre_exec(filtered) }.output().unwrap();
    let found = findings(&output);
    assert_found(&found, "filter of system calls", "note", "inherits it");
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
        ("HAKMEM_DECAY_MS=soon", "note", "not a whole number from 0"),
        ("HAKMEM_DECAY=1", "note", "no such option"),
        (
            "HAKMEM_HARDENED=high",
            "note",
            "The default build ignores HAKMEM_HARDENED",
        ),
        ("HAKMEM_HARDENED=default", "ok", "HAKMEM_HARDENED=default"),
        ("HAKMEM_GUARD_SAMPLE=9", "ok", "HAKMEM_GUARD_SAMPLE=9"),
        (
            "HAKMEM_LIMIT_PERCENT=80",
            "note",
            "HAKMEM_LIMIT_PERCENT has nothing to act on",
        ),
        ("HAKMEM_LIMIT_PERCENT=0", "ok", "HAKMEM_LIMIT_PERCENT=0"),
    ] {
        let root = system(&[("proc/42/environ", value)]);
        let found = findings(&doctor(Some(root.path()), &["--pid", "42"]));
        assert_found(&found, "options", verdict, words);
    }
    let limited = ("cg/app/memory.high", "1048576");
    let environ = ("proc/42/environ", "HAKMEM_LIMIT_PERCENT=80");
    let root = system(&[limited, environ]);
    let found = findings(&doctor(Some(root.path()), &["--pid", "42"]));
    assert_found(&found, "options", "ok", "HAKMEM_LIMIT_PERCENT=80");
    let hardened = ("calls/42", "served hardened");
    for (value, verdict, words) in [
        ("HAKMEM_HARDENED=high", "ok", "HAKMEM_HARDENED=high"),
        (
            "HAKMEM_GUARD_SAMPLE=9",
            "note",
            "The hardened build ignores HAKMEM_GUARD_SAMPLE",
        ),
    ] {
        let root = system(&[hardened, ("proc/42/environ", value)]);
        let found = findings(&doctor(Some(root.path()), &["--pid", "42"]));
        assert_found(&found, "options", verdict, words);
        assert_found(&found, "hakmem in the process", "ok", "the hardened build");
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
    let found = findings(&command.output().unwrap());
    assert_found(&found, "options", "note", "HAKMEM_WHAT=1");
    command
        .env_remove("HAKMEM_WHAT")
        .env("HAKMEM_HARDENED", "high");
    let found = findings(&command.output().unwrap());
    assert_found(&found, "options", "note", "The default build ignores");
}

/// A program that is linked to a library of this name. It calls no function of jemalloc's own.
fn needs_jemalloc(folder: &Path) -> PathBuf {
    let flags = ["-shared", "-fPIC", "-fno-builtin", "-DLIBRARY"];
    let flags = [&flags[..], &["-Wl,-soname,libjemalloc.so.2"]].concat();
    let library = BUILT.compile("own.c", "libdoctor-needed.so", &flags);
    let library = library.to_str().unwrap();
    let program = BUILT.compile("called.c", "doctor-needs", &["-fno-builtin", library]);
    copied(&program, folder)
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
    fs::write(&by_env, "#!/usr/bin/env -S A=b sh -e\n").unwrap();
    fs::set_permissions(&by_env, fs::Permissions::from_mode(0o755)).unwrap();
    let musl = BUILT.compile(
        "program.c",
        "musl",
        &["-Wl,--dynamic-linker=/lib/ld-musl-x.so.1"],
    );
    let own = BUILT.compile("own.c", "doctor-own", &["-fno-builtin", "-DPREFIX"]);
    let needs = needs_jemalloc(folder.path());
    let inside = built::debugged().example("watched");
    for (program, subject, verdict, words) in [
        (&*PROGRAM, "preload", "ok", "nothing that keeps"),
        (&*PROGRAM, "allocator", "ok", "malloc"),
        (&*STATIC, "preload", "problem", "libhakmem.a"),
        (&musl, "preload", "problem", "libhakmem.a for musl"),
        (&script, "program", "ok", "It is a script"),
        (&by_env, "program", "note", "/usr/bin/env looks for"),
        (&by_env, "program", "note", "instead: hakmem doctor sh."),
        (
            &by_env,
            "program",
            "note",
            "A wrapper, such as pyenv's, hides",
        ),
        (&script, "preload", "problem", "statically linked"),
        (&own, "allocator", "note", "mimalloc of its own"),
        (&needs, "allocator", "note", "libjemalloc.so.2"),
        (&needs, "allocator", "note", "hakmem's malloc comes first"),
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
fn programs_with_rights_of_their_own() {
    // SAFETY: always succeeds.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: only root can make such a file of another user");
    }
    let folder = tempfile::Builder::new()
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .unwrap();
    for (mode, owner, group, words) in [
        (0o4755, Some(65534), None, "the setuid bit"),
        (0o2755, None, Some(65534), "the setgid bit"),
    ] {
        let copy = folder.path().join(format!("{mode:o}"));
        fs::copy(&*PROGRAM, &copy).unwrap();
        chown(&copy, owner, group).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(mode)).unwrap();
        let found = findings(&doctor(None, &[copy.to_str().unwrap()]));
        assert_found(&found, "preload", "problem", words);
    }
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
            true => "ok       hakmem in the process: yes, the default build\n",
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

/// Files that make no sense: the doctor goes on, in 80 columns that a terminal only shows.
#[test]
fn files_that_make_no_sense() {
    let garbage = [
        "",
        "\u{1b}[2J\u{202e}\r\n",
        "[",
        "99999999999999999999999999",
        "-1",
        ":::::::::::::",
        "0::/../../../..\n",
        "1 2 3 4 5 - cgroup2 x memory",
        "Name: \u{1b}c\nTracerPid: x\nSeccomp: 9\nVmSize: 99999999999999999999 kB\nVmData: 1 kB",
        "Max data size 0 0\nMax address space\nMax locked memory x",
    ];
    let long = "LD_PRELOAD=/x:".repeat(100_000);
    let paths = HEALTHY.map(|(path, _)| path);
    for text in garbage.into_iter().chain([long.as_str()]) {
        let changes = paths.map(|path| (path, text));
        let named = ("proc/42/status", "Name: \u{1b}c\nVmData: 9 kB");
        for (changes, words) in [
            (&changes[..], &[][..]),
            (&[changes.as_slice(), &[named]].concat(), &["--pid", "42"]),
        ] {
            let root = system(changes);
            let mut command = hakmem();
            command.args(["doctor", "--lib"]).arg(&*HAKMEM);
            command.arg("--root").arg(root.path()).args(words);
            let output = command.output().unwrap();
            assert!(matches!(output.status.code(), Some(0 | 1)), "{text:?}");
            assert_eq!(stderr(&output), "");
            for line in stdout(&output).lines() {
                assert!(line.chars().count() <= 80, "{line}");
                assert!(!line.chars().any(char::is_control), "{line:?}");
            }
        }
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
