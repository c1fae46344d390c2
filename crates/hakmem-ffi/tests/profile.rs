//! The heap profile by the environment and by hakmem.h, on programs of which every allocation is a
//! sample.

use crate::common;

use common::{Language, Link, assert_aborted, compile, finish, library, run};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile(Language::C, "profile.c", Link::Static))
}

fn profiled(what: &str, to: &str) -> Command {
    let mut command = Command::new("timeout");
    // Ends what would hang.
    command
        .args(["-s", "KILL", "120"])
        .arg(program())
        .arg(what)
        .env("HAKMEM_PROFILE", to)
        .env("HAKMEM_PROFILE_INTERVAL", "1");
    command
}

/// One profile of a file.
#[derive(Debug)]
struct Profile {
    /// Of our own line.
    fields: String,
    /// Size of the block, live, all.
    samples: Vec<(u64, u64, u64)>,
    maps: usize,
}

impl Profile {
    fn field(&self, name: &str) -> &str {
        let mut fields = self.fields.split(' ').filter_map(|f| f.split_once('='));
        fields
            .find(|f| f.0 == name)
            .unwrap_or_else(|| panic!("{name} in {self:?}"))
            .1
    }

    /// Live blocks of a size, and all.
    fn of(&self, size: u64) -> (u64, u64) {
        let of = self.samples.iter().filter(|s| s.0 == size);
        of.fold((0, 0), |sum, s| (sum.0 + s.1, sum.1 + s.2))
    }
}

fn profiles(text: &str) -> Vec<Profile> {
    let mut all: Vec<Profile> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if line.starts_with("heap profile:") {
            all.push(Profile {
                fields: String::new(),
                samples: vec![],
                maps: 0,
            });
            continue;
        }
        let last = all.last_mut().expect("a header");
        if let Some(fields) = line.strip_prefix("# hakmem 2 ") {
            last.fields = fields.into();
        } else if let Some((counts, stack)) = line.split_once('@') {
            let numbers: Vec<u64> = counts
                .split([' ', ':', '[', ']'])
                .filter(|n| !n.is_empty())
                .map(|n| n.parse().expect("a number"))
                .collect();
            last.samples
                .push((numbers[3] / numbers[2], numbers[0], numbers[2]));
            assert!(stack.split_whitespace().count() >= 3, "a stack: {line}");
        } else if line != "MAPPED_LIBRARIES:" {
            let permissions = line.split(' ').nth(1).unwrap_or_default();
            assert!(permissions.contains('x'), "{line}");
            last.maps += 1;
        }
    }
    all
}

fn read(path: &Path) -> Vec<Profile> {
    profiles(&std::fs::read_to_string(path).expect("the profile"))
}

#[test]
fn at_exit() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("profile");
    run(&mut profiled("allocate", &file.display().to_string()));
    let all = read(&file);
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].field("event"), all[0].field("lost")), ("exit", "0"));
    assert_eq!(all[0].of(1024), (50, 100));
    assert!(all[0].maps >= 2);
}

#[test]
fn by_functions() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("profile");
    let mut command = Command::new(program());
    run(command.arg("by_functions").arg(&file));
    let all = read(&file);
    assert_eq!((all.len(), all[0].field("event")), (1, "call"));
    assert_eq!(all[0].of(1024), (50, 100));
    assert_eq!(all[0].of(3072), (0, 0), "it was stopped");
}

#[test]
fn in_program_heaps() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("profile");
    run(&mut profiled("in_heaps", &file.display().to_string()));
    let profile = read(&file).remove(0);
    assert_eq!(profile.field("lost"), "0");
    let of = [1024, 2048, 5120, 131_072].map(|size| profile.of(size));
    assert_eq!(of, [(50, 100), (50, 100), (0, 10), (0, 5)]);
}

/// A child has what is live from its parent, and counts from there; `%p` gives each a file of its
/// own.
#[test]
fn forked() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    run(&mut profiled(
        "forked",
        &directory.path().join("%p").display().to_string(),
    ));
    let mut all: Vec<_> = std::fs::read_dir(directory.path())
        .expect("the directory")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| {
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            let profile = read(&path).remove(0);
            assert_eq!(profile.field("pid"), name);
            (profile.of(1024), profile.of(2048))
        })
        .collect();
    all.sort();
    // Ten of the fifty went, five of another size came.
    assert_eq!(all, [((40, 50), (5, 5)), ((50, 100), (0, 0))]);

    // In one file they stand one after the other.
    let file = directory.path().join("one");
    run(&mut profiled("forked", &file.display().to_string()));
    assert_eq!(read(&file).len(), 2);
}

#[test]
fn on_a_signal() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("profile");
    let mut command = Command::new("bash");
    command
        .args(["-c", "kill -USR1 $$; kill -USR1 $$; echo word"])
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_PROFILE", &file)
        .env("HAKMEM_PROFILE_SIGNAL", "USR1");
    assert_eq!(run(&mut command).stdout, b"word\n");
    let events: Vec<_> = read(&file)
        .iter()
        .map(|p| p.field("event").to_owned())
        .collect();
    assert_eq!(events, ["signal", "signal", "exit"]);
}

#[test]
fn beside_threads_that_fork_and_sample() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (file, end) = (directory.path().join("call"), directory.path().join("end"));
    for interval in ["1", "5000"] {
        let mut command = profiled("beside_threads", &end.display().to_string());
        run(command.arg(&file).env("HAKMEM_PROFILE_INTERVAL", interval));
        let last = read(&file).remove(0);
        assert_eq!(last.field("lost"), "0");
        let live: u64 = last.samples.iter().map(|s| s.1).sum();
        let all: u64 = last.samples.iter().map(|s| s.2).sum();
        assert!(
            live < 50 && all > 1000,
            "{live} of {all}: what the threads had is freed"
        );
    }
}

#[test]
fn on_a_signal_handlers_own_small_stack() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("profile");
    run(&mut profiled(
        "on_another_stack",
        &file.display().to_string(),
    ));
    let (live, all) = read(&file)[0].of(40960);
    assert_eq!((live, all), (1, 1000));
}

/// Errors of the program are seen where the block is a sample, too.
#[test]
fn misuse_of_samples() {
    for what in ["twice", "inner"] {
        let mut command = Command::new(program());
        command
            .arg(what)
            .env("HAKMEM_PROFILE", "/dev/null")
            .env("HAKMEM_PROFILE_INTERVAL", "1");
        let output = finish(&mut command);
        let pointer = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert_aborted(&output, &pointer);
    }
}

/// A full disk, a directory that is not there, a pipe that nobody reads: the profile is lost, the
/// program ends as it would have.
#[test]
fn a_profile_that_cannot_be_written_is_lost_alone() {
    for (file, why) in [
        ("/dev/full", "No space left on device"),
        ("/nowhere/at/all", "No such file or directory"),
        ("/proc/self/mem/x", "Not a directory"),
    ] {
        let output = run(&mut profiled("allocate", file));
        assert_eq!(output.stdout, b"done\n");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            stderr,
            format!("hakmem: report lost: cannot write {file}: {why}\n")
        );
    }
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = profiled("allocate", "/dev/stderr");
    let status = command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(writer)
        .status();
    assert!(status.expect("it runs").success());
}

#[test]
fn values_that_will_not_do_are_named_and_ignored() {
    for (name, value, others) in [
        ("HAKMEM_PROFILE_INTERVAL", "0", "/dev/null"),
        ("HAKMEM_PROFILE_INTERVAL", "many", "/dev/null"),
        ("HAKMEM_PROFILE_SIGNAL", "KILL", "/dev/null"),
        ("HAKMEM_PROFILE_SIGNAL", "USR1", ""),
    ] {
        let mut command = Command::new(program());
        command
            .arg("allocate")
            .env("HAKMEM_PROFILE", others)
            .env(name, value);
        let output = run(&mut command);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let named = stderr
            .lines()
            .filter(|l| l.contains(name) && l.contains("ignored"));
        assert_eq!(
            (named.count(), output.stdout.as_slice()),
            (1, &b"done\n"[..]),
            "{stderr}"
        );
    }
}
