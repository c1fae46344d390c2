//! `HAKMEM_STATS`: what is reported, where, and what becomes of mistakes.

use crate::common;

use common::{Language, Link, Reports, compile, library, preload, run};
use std::ffi::{CStr, CString, OsStr};
use std::fs::{OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Command;

/// The shell of these tests. Not sh: dash ends by _exit, without exit handlers.
const SHELL: &str = "bash";

/// `script` run on hakmem, with `HAKMEM_STATS=setting`.
fn shell(setting: &str, script: &str) -> (String, String) {
    let mut command = Command::new(SHELL);
    command
        .args(["-c", script])
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_STATS", setting);
    let output = run(&mut command);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (text(output.stdout), text(output.stderr))
}

#[test]
fn lines_for_people() {
    let (stdout, stderr) = shell("1", "echo word");
    assert_eq!(stdout, "word\n");
    assert!(
        stderr.lines().count() >= 3 && stderr.lines().all(|line| line.starts_with("hakmem")),
        "{stderr}"
    );
}

#[test]
fn json_on_stderr() {
    let (_, stderr) = shell("json", "echo word");
    let line: serde_json::Value = serde_json::from_str(&stderr).expect("one JSON line");
    for key in [
        "schema",
        "pid",
        "allocations",
        "frees",
        "live_bytes",
        "live_bytes_upper_bound",
        "peak_live_bytes_upper_bound",
        "reserved_bytes",
        "committed_bytes",
        "dirty_bytes",
        "purged_bytes",
        "foreign_frees",
        "heaps",
        "peak_resident_kib",
        "minor_faults",
        "major_faults",
    ] {
        assert!(line[key].is_u64(), "{key} in {line}");
    }
    assert_eq!(line["event"], "exit");
    assert!(
        line["peak_resident_kib"].as_u64() > Some(100) && line["minor_faults"].as_u64() > Some(10),
        "{line}"
    );
    for call in line["syscalls"].as_array().expect("an array") {
        assert!(call["name"].is_string() && call["calls"].is_u64(), "{call}");
        assert!(
            call["failures"].is_u64() && call["nanos"].is_u64(),
            "{call}"
        );
    }
}

/// coreutils close stderr before they end.
#[test]
fn stderr_closed_by_the_program() {
    let mut command = Command::new("ls");
    command
        .arg("/")
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_STATS", "json");
    let output = run(&mut command);
    assert!(String::from_utf8_lossy(&output.stderr).contains(r#""event":"exit""#));
}

/// Every process of a tree appends its own lines to one file, under its own number.
#[test]
fn a_file_for_all_processes() {
    let mut command = Command::new(SHELL);
    command.args(["-c", "(exit 0); /bin/ls / >/dev/null; exit 0"]);
    let reports = preload(&mut command);
    run(&mut command);
    reports.assert_served();
    let lines = reports.lines();
    let of = |event: &str| {
        lines
            .iter()
            .filter(|line| line.event == event)
            .map(|line| line.pid)
            .collect::<Vec<_>>()
    };
    let (loads, exits) = (of("load"), of("exit"));
    assert_eq!(loads.len(), 2, "the shell and ls load: {lines:?}");
    assert!(
        loads.iter().all(|pid| exits.contains(pid)),
        "and both report: {lines:?}"
    );
}

/// A program that ends without exit handlers was loaded, and that is all that is known.
#[test]
fn no_exit_handlers() {
    let mut command = Command::new(SHELL);
    let reports = preload(command.args(["-c", "kill -KILL $$"]));
    common::finish(&mut command);
    let events: Vec<_> = reports.lines().into_iter().map(|line| line.event).collect();
    assert_eq!(events, ["load"]);
}

/// The report goes where it was meant to, whatever directory the program ends in.
#[test]
fn a_relative_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(SHELL);
    command.args(["-c", "cd /; exit 0"]).current_dir(&directory);
    run(command
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_STATS", "json:here.jsonl"));
    let text = std::fs::read_to_string(directory.path().join("here.jsonl")).expect("the report");
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn a_file_that_cannot_be_written() {
    let (stdout, stderr) = shell("json:/nowhere/report", "echo word");
    assert_eq!(stdout, "word\n");
    let lines: Vec<_> = stderr.lines().collect();
    assert!(
        !lines.is_empty()
            && lines
                .iter()
                .all(|line| line.contains("cannot write /nowhere/report")),
        "{stderr}"
    );
}

#[test]
fn malformed_values_are_named_and_ignored() {
    for value in ["yes", "json:", "JSON", "2", "1 ", "csv:", "xml", ":x"] {
        let (stdout, stderr) = shell(value, "echo word");
        assert_eq!(stdout, "word\n");
        assert!(
            stderr.lines().count() == 1
                && stderr.contains(&format!("HAKMEM_STATS={value} ignored")),
            "{stderr}"
        );
    }
}

#[test]
fn nothing_asked_nothing_said() {
    for value in ["", "0"] {
        assert_eq!(
            shell(value, "echo word"),
            ("word\n".to_owned(), String::new())
        );
    }
}

/// A title written over the environment does not reach the file's name.
#[test]
fn overwritten_environment() {
    let program = compile(Language::C, "overwrite_environment.c", Link::Plain);
    let mut command = Command::new(program);
    let reports: Reports = preload(&mut command);
    run(&mut command);
    reports.assert_served();
}

/// The lists of a JSON report, against its totals.
#[test]
fn json_has_classes_and_heaps() {
    let (_, stderr) = shell("json", "printf -v x '%s ' {1..20000}; echo ${#x}");
    let line: serde_json::Value = serde_json::from_str(&stderr).expect("one JSON line");
    let of = |list: &str, key: &str| -> u64 {
        let items = line[list].as_array().expect("an array");
        items
            .iter()
            .map(|item| item[key].as_u64().expect("a number"))
            .sum()
    };
    let total = |key: &str| line[key].as_u64().expect("a number");
    assert_eq!(
        total("allocations"),
        of("classes", "allocations") + total("large_allocations") + total("whale_allocations")
    );
    assert_eq!(
        of("classes", "list_hits") + total("refills"),
        of("classes", "allocations")
    );
    assert_eq!(
        of("classes", "takes") + of("classes", "carves"),
        total("refills")
    );
    assert_eq!(of("thread_heaps", "carves"), of("classes", "carves"));
    assert_eq!(of("classes", "page_bytes"), total("page_slots") << 16);
    assert_eq!((total("heaps"), total("running_heaps")), (1, 0));
    assert!(
        total("resident_bytes") > 0 && total("cpu_nanos") > 0,
        "{line}"
    );
}

fn figure(rows: &[csv::StringRecord], list: &str, item: &str, name: &str) -> u64 {
    let mut found = rows
        .iter()
        .filter(|row| (&row[2], &row[3], &row[4]) == (list, item, name));
    let row = found
        .next()
        .unwrap_or_else(|| panic!("no {name} of {list} {item}"));
    assert!(
        found.next().is_none(),
        "{name} of {list} {item} comes twice"
    );
    row[5].parse().expect("a number")
}

#[test]
fn csv_on_stderr() {
    let (_, stderr) = shell("csv", "echo word");
    let mut reader = csv::Reader::from_reader(stderr.as_bytes());
    let header: Vec<_> = reader
        .headers()
        .expect("a header")
        .iter()
        .map(str::to_owned)
        .collect();
    assert_eq!(header, ["pid", "event", "list", "item", "name", "value"]);
    let rows: Vec<_> = reader
        .records()
        .map(|row| row.expect("well-formed"))
        .collect();
    assert!(rows.iter().all(|row| &row[1] == "exit"));
    assert_eq!(figure(&rows, "", "", "schema"), 2);
    assert!(figure(&rows, "", "", "allocations") > 0);
    assert!(figure(&rows, "classes", "64", "allocations") > 0);
    assert!(figure(&rows, "syscalls", "mmap", "calls") > 0);
    assert!(figure(&rows, "thread_heaps", "0", "handed") > 0);
}

#[test]
fn a_file_for_each_form() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for form in ["1", "json", "csv"] {
        let file = directory.path().join(form);
        let (stdout, stderr) = shell(&format!("{form}:{}", file.display()), "echo word");
        assert_eq!((stdout.as_str(), stderr.as_str()), ("word\n", ""));
        let text = std::fs::read_to_string(file).expect("the report");
        assert!(text.len() > 500, "{text}");
    }
}

/// malloc_info's XML, by a parser.
#[test]
fn xml_is_well_formed() {
    let program = compile(Language::C, "malloc_info.c", Link::Plain);
    let mut command = Command::new(program);
    let reports = preload(&mut command);
    let output = run(&mut command);
    reports.assert_served();
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let document = roxmltree::Document::parse(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let root = document.root_element();
    assert_eq!(
        (root.tag_name().name(), root.attribute("version")),
        ("malloc", Some("1"))
    );
    let ours = root
        .children()
        .find(|n| n.has_tag_name("hakmem"))
        .expect("our element");
    let number = |node: roxmltree::Node, name: &str| -> u64 {
        node.attribute(name)
            .unwrap_or_else(|| panic!("{name}"))
            .parse()
            .expect("a number")
    };
    let classes = ours
        .children()
        .find(|n| n.has_tag_name("classes"))
        .expect("classes");
    let class = classes
        .children()
        .find(|n| n.attribute("size") == Some("1024"))
        .expect("the class");
    assert!(number(class, "live_bytes") >= 1000 * 1024, "{text}");
    assert!(number(ours, "allocations") >= 1000);
}

/// The signal may come at any time; the report is written then, and the program goes on.
#[test]
fn on_a_signal() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("report");
    let script = "kill -USR2 $$; kill -USR2 $$; echo word";
    for signal in ["USR2", "SIGUSR2", "12"] {
        let mut command = Command::new(SHELL);
        command
            .args(["-c", script])
            .env("LD_PRELOAD", &library().shared)
            .env("HAKMEM_STATS", format!("json:{}", file.display()))
            .env("HAKMEM_STATS_SIGNAL", signal);
        let output = run(&mut command);
        assert_eq!(output.stdout, b"word\n");
        let text = std::fs::read_to_string(&file).expect("the report");
        let events: Vec<_> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
            .map(|line| line["event"].as_str().expect("a word").to_owned())
            .collect();
        assert_eq!(events, ["load", "signal", "signal", "exit"]);
        std::fs::remove_file(&file).expect("the report");
    }
}

#[test]
fn signals_that_will_not_do_are_named_and_ignored() {
    for (stats, signal) in [
        ("1", "KILL"),
        ("1", "9"),
        ("1", "SEGV"),
        ("1", "nonsense"),
        ("1", "99"),
        ("0", "USR2"),
    ] {
        let mut command = Command::new(SHELL);
        command
            .args(["-c", "echo word"])
            .env("LD_PRELOAD", &library().shared)
            .env("HAKMEM_STATS", stats)
            .env("HAKMEM_STATS_SIGNAL", signal);
        let output = run(&mut command);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let named = stderr
            .lines()
            .filter(|line| line.contains("HAKMEM_STATS_SIGNAL") && line.contains("ignored"));
        assert_eq!(
            (named.count(), output.stdout.as_slice()),
            (1, &b"word\n"[..]),
            "{stderr}"
        );
    }
}

/// A full disk, a pipe that nobody reads, a limit on files: the report is lost, the program ends as it would have.
#[test]
fn a_report_that_cannot_be_written_is_lost_alone() {
    let (stdout, stderr) = shell("json:/dev/full", "echo word; exit 0");
    assert_eq!(stdout, "word\n");
    assert!(
        stderr.lines().count() > 0 && stderr.lines().all(|l| l.contains("cannot write /dev/full")),
        "{stderr}"
    );

    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("report");
    let limited = format!(
        "HAKMEM_STATS=json:{} LD_PRELOAD=$LIB perl -e 'exit 7'; echo $?",
        file.display()
    );
    let mut command = Command::new(SHELL);
    command
        .args(["-c", &format!("ulimit -f 1; {limited}")])
        .env("LIB", &library().shared);
    let output = run(&mut command);
    assert_eq!(
        output.stdout,
        b"7\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );

    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new("perl");
    command
        .args(["-e", "exit 7"])
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_STATS", "json")
        .stdin(std::process::Stdio::null())
        .stderr(writer);
    let status = command.status().expect("perl runs");
    assert_eq!(status.code(), Some(7), "{status}");
}

// Whose word the environment is.

/// Whoever starts a program with rights that he does not have chooses nothing, however the library came into it. Only root can
/// make one for the test.
#[test]
fn nothing_acts_in_set_user_id_programs() {
    // SAFETY: no preconditions.
    if unsafe { libc::getuid() } != 0 {
        return common::skipped("a program with another user's rights takes root");
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| directory.path().join(name);
    // The other user finds the program and its library.
    set_mode(directory.path(), 0o755);
    std::fs::copy(&library().shared, at("libhakmem.so")).expect("a copy");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/secure.c");
    let link = |name: &str, arguments: &[&OsStr]| {
        let mut compiler = Command::new("cc");
        compiler.arg("-fno-builtin").arg("-pthread");
        compiler
            .arg("-o")
            .arg(at(name))
            .arg(&source)
            .args(arguments);
        common::finish(&mut compiler).status.success()
    };
    let archive = library().r#static.as_os_str();
    let (by, rpath) = (
        format!("-L{}", at("").display()),
        format!("-Wl,-rpath,{}", at("").display()),
    );
    assert!(link(
        "shared",
        &[by.as_ref(), rpath.as_ref(), "-lhakmem".as_ref()]
    ));
    assert!(link("linked", &[archive]));
    let mut programs = vec!["shared", "linked"];
    if link("static", &["-static".as_ref(), archive]) {
        programs.push("static");
    }
    for name in programs {
        for secure in [false, true] {
            if secure {
                std::os::unix::fs::chown(at(name), Some(65534), None).expect("another owner");
                set_mode(&at(name), 0o4755);
            }
            let mut command = Command::new(at(name));
            command.env_clear().envs([
                ("HAKMEM_STATS", "1"),
                ("HAKMEM_STATS_SIGNAL", "14"),
                ("HAKMEM_PROFILE_SIGNAL", "14"),
                ("HAKMEM_DECAY_MS", "1234"),
                ("HAKMEM_NO_SUCH_OPTION", "1"),
            ]);
            command.env("HAKMEM_PROFILE", at("profile"));
            command.env("HAKMEM_MAP", at("map"));
            let output = common::finish(&mut command);
            let (said, stderr) = (
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr),
            );
            if secure && said.starts_with("0 ") {
                return common::skipped("programs get no rights in the temporary directory");
            }
            let files = ["profile", "map"].map(|file| std::fs::remove_file(at(file)).is_ok());
            if secure {
                assert_eq!((said.as_ref(), stderr.as_ref()), ("1 500\n", ""), "{name}");
                assert_eq!(output.status.signal(), Some(libc::SIGALRM), "{name}");
                assert_eq!(files, [false; 2], "{name}");
            } else {
                assert_eq!(said, "0 1234\n", "{name}");
                assert!(
                    output.status.success() && stderr.contains(" allocations, "),
                    "{stderr}"
                );
                assert_eq!(files, [true; 2], "{name}");
            }
        }
    }
}

// Where reports are written to.

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

fn make_fifo(path: &Path) {
    let name = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
    // SAFETY: a C string.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
}

/// A shell that is asked for a report, a map and a profile in one file, by a signal and at its end.
fn all_to(file: &Path, script: &str) -> Command {
    // Ends what would hang.
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", "env"]);
    command.arg(format!("LD_PRELOAD={}", library().shared.display()));
    command.arg(format!("HAKMEM_STATS=json:{}", file.display()));
    for name in ["HAKMEM_MAP", "HAKMEM_PROFILE"] {
        command.arg(format!("{name}={}", file.display()));
    }
    command.args(["HAKMEM_STATS_SIGNAL=USR2", "HAKMEM_PROFILE_SIGNAL=USR1"]);
    command.args([SHELL, "-c", script]);
    command
}

const SIGNALLED: &str = "kill -USR2 $$; kill -USR1 $$; echo word; exit 0";

/// The program goes on, and says for each of the seven texts that it is lost.
fn all_are_lost(file: &Path) {
    let output = run(&mut all_to(file, SIGNALLED));
    assert_eq!(output.stdout, b"word\n");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let expected = format!("hakmem: report lost: cannot write {}\n", file.display());
    assert_eq!(stderr, expected.repeat(7));
}

#[test]
fn a_pipe_by_name_without_a_reader_is_not_waited_for() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("fifo");
    make_fifo(&file);
    all_are_lost(&file);
}

/// Much more than a pipe holds comes through whole, in order.
#[test]
fn a_pipe_by_name_with_a_reader_gets_everything() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("fifo");
    make_fifo(&file);
    // For writing too, so that it never ends.
    let mut pipe = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&file)
        .expect("the pipe");
    let mut end = pipe.try_clone().expect("another descriptor");
    let reader = std::thread::spawn(move || {
        let (mut text, mut piece) = (Vec::new(), [0; 1000]);
        while !text.ends_with(b"\nthe end\n") {
            let n = pipe.read(&mut piece).expect("something");
            text.extend_from_slice(&piece[..n]);
        }
        String::from_utf8(text).expect("UTF-8")
    });
    let mut command = Command::new("perl");
    command
        .args(["-e", "my @a = map { 'x' x 50000 } 1..2000"])
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_STATS", format!("json:{}", file.display()))
        .env("HAKMEM_MAP", &file);
    let stderr = run(&mut command).stderr;
    end.write_all(b"\nthe end\n").expect("the pipe takes it");
    let text = reader.join().expect("the reader's text");
    assert_eq!(stderr, b"");
    let lines: Vec<serde_json::Value> = text
        .trim_end_matches("\nthe end\n")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str()).collect();
    assert_eq!(events, [Some("load"), Some("exit"), Some("exit")]);
    assert!(text.len() > 80_000, "{}", text.len());
}

/// Who holds it open and does not read is waited for, but not for ever.
#[test]
fn a_pipe_by_name_that_is_full_loses_the_report() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("fifo");
    make_fifo(&file);
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK);
    let mut pipe = options.open(&file).expect("the pipe");
    while pipe.write(&[b'x'; 4096]).is_ok() {}
    let (stdout, stderr) = shell(&format!("json:{}", file.display()), "echo word; exit 0");
    assert_eq!(stdout, "word\n");
    let expected = format!("hakmem: report lost: cannot write {}\n", file.display());
    assert_eq!(stderr, expected.repeat(2));
}

#[test]
fn symbolic_links_are_not_followed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (link, file) = (directory.path().join("link"), directory.path().join("file"));
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    all_are_lost(&link);
    assert!(!file.exists(), "nothing is made behind it");
    std::fs::write(&file, "text").expect("a file");
    all_are_lost(&link);
    assert_eq!(std::fs::read(&file).expect("the file"), b"text");
    // On the way there they are.
    let (to, here) = (
        directory.path().join("to"),
        directory.path().join("to/file"),
    );
    std::os::unix::fs::symlink(directory.path(), &to).expect("a link");
    run(&mut all_to(&here, SIGNALLED));
    assert!(std::fs::read(&file).expect("the file").len() > 1000);
}

/// Links that stand for a descriptor lead to what is open there.
#[test]
fn links_that_stand_for_descriptors_are_followed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("file");
    for (link, redirection) in [
        ("/dev/stdout", ">"),
        ("/dev/stderr", "2>"),
        ("/dev/fd/7", "7>"),
        ("/proc/self/fd/7", "7>"),
    ] {
        // What is asked has it from its start.
        let mut outer = Command::new(SHELL);
        outer.arg("-c");
        outer.arg(format!(
            "LD_PRELOAD={} HAKMEM_STATS=json:{link} perl -e 1 {redirection}{}",
            library().shared.display(),
            file.display()
        ));
        let output = run(&mut outer);
        assert_eq!(output.stderr, b"", "{link}");
        let text = std::fs::read_to_string(&file).expect("the report");
        assert!(text.contains(r#""event":"exit""#), "{link}: {text}");
    }
    // A pipe.
    let (stdout, stderr) = shell("json:/dev/stdout", "exit 0");
    assert!(
        stdout.contains(r#""event":"exit""#) && stderr.is_empty(),
        "{stderr}"
    );
    // What only looks like one of them.
    for name in ["/dev/fd/x", "/dev/fd/", "/proc/self/fd/99", "/dev/fd/1/2"] {
        let (stdout, stderr) = shell(&format!("json:{name}"), "echo word; exit 0");
        assert_eq!(stdout, "word\n");
        assert!(stderr.lines().all(|line| line.contains("cannot write")) && !stderr.is_empty());
    }
}

#[test]
fn a_directory_is_no_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    all_are_lost(directory.path());
}

/// Nobody else reads addresses.
#[test]
fn files_are_their_owners_alone() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("%p");
    let open = format!("umask 0; exec {SHELL} -c '{SIGNALLED}'");
    for script in [SIGNALLED, &open] {
        run(&mut all_to(&file, script));
        for entry in std::fs::read_dir(directory.path()).expect("the directory") {
            let path = entry.expect("an entry").path();
            let mode = path.metadata().expect("a file").permissions().mode();
            assert_eq!(mode & 0o7777, 0o600);
            std::fs::remove_file(path).expect("the file");
        }
    }
}

/// A daemon that reports to a terminal does not become that terminal's.
#[test]
fn a_terminal_does_not_become_the_processs_own() {
    let (mut master, mut slave, mut name) = (-1, -1, [0 as libc::c_char; 100]);
    // SAFETY: all are valid for the writes; the name has room.
    let made = unsafe {
        libc::openpty(
            &mut master,
            &mut slave,
            name.as_mut_ptr(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
    if made != 0 {
        return common::skipped("there are no terminals");
    }
    // SAFETY: openpty filled it in.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }
        .to_str()
        .expect("a name")
        .to_owned();
    let script = "kill -USR2 $$; read -r line </proc/$$/stat; set -- ${line##*) }; echo $5";
    let mut command = Command::new(SHELL);
    command
        .args(["-c", script])
        .env("LD_PRELOAD", &library().shared)
        .env("HAKMEM_STATS", format!("csv:{name}"))
        .env("HAKMEM_STATS_SIGNAL", "USR2");
    // SAFETY: one system call.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        });
    }
    // Somebody reads what comes.
    let mut screen = std::fs::File::from(
        // SAFETY: the descriptor is this test's own.
        unsafe { std::os::fd::OwnedFd::from_raw_fd(master) },
    );
    let reader = std::thread::spawn(move || {
        let (mut text, mut piece) = (Vec::new(), [0; 1000]);
        while let Ok(n @ 1..) = screen.read(&mut piece) {
            text.extend_from_slice(&piece[..n]);
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    let output = run(&mut command);
    // SAFETY: as above; the reader ends when the last one is closed.
    unsafe { libc::close(slave) };
    assert_eq!(output.stdout, b"0\n", "{output:?}");
    let text = reader.join().expect("the reader's text");
    assert!(
        text.contains(",signal,") && text.contains(",exit,"),
        "{text}"
    );
}
