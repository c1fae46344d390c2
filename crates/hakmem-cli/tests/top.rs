//! `hakmem top` in lines, with the library of this workspace.

use crate::common;

use common::*;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

/// The program of known figures, under preload, stopped between two parts.
struct Known {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Known {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(&*KNOWN);
        command.args(arguments).env("LD_PRELOAD", &*HAKMEM);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut known = Self { child, lines };
        known.ready();
        known
    }

    fn ready(&mut self) {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }

    fn go_on(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    fn top(&self, options: &[&str]) -> Output {
        top(self.child.id(), options)
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn top(pid: u32, options: &[&str]) -> Output {
    let mut command = hakmem();
    command.arg("top").args(options).arg(pid.to_string());
    command.output().unwrap()
}

/// The text of one look.
fn look(output: &Output) -> String {
    assert_eq!(
        (output.status.code(), stderr(output).as_str()),
        (Some(0), "")
    );
    stdout(output)
}

/// The cells of the line that begins with `name`, without it.
fn row<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let line = text.lines().find_map(|l| l.trim().strip_prefix(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
    line.split("  ")
        .map(str::trim)
        .filter(|c| !c.is_empty())
        .collect()
}

#[test]
fn figures_of_a_program_at_rest_are_exact() {
    let mut known = Known::start(&[]);
    let text = look(&known.top(&["--batch", "1"]));
    // 500 are out, of which 100 are on their way home.
    let class = row(&text, "3072 ");
    assert_eq!(
        (class[0], class[3], class[5], class[6]),
        ("1.5 MiB", "700", "200", "0.0 %"),
        "{text}"
    );
    assert_eq!(row(&text, "freed by others")[0], "100");
    assert!(row(&text, "free and kept")[0].ends_with("other threads: 100 blocks"));
    // 1.46 MiB in the class, 256 KiB in a large block, three segments of a huge block: what was
    // freed is not among it.
    let live = row(&text, "live")[0];
    let on_their_way = "7.7 MiB, of it 100 blocks on their way, never more than ";
    assert!(live.starts_with(on_their_way), "{text}");
    assert_eq!(row(&text, "large blocks")[0], "1");
    assert_eq!(row(&text, "huge")[0], "1");
    assert_eq!(row(&text, "heaps")[0], "2, of which threads have 2");
    assert!(text.starts_with(&format!("process {} (known), 2 threads", known.child.id())));
    assert_eq!(row(&text, "allocations")[1], "-", "no rate after one look");

    known.go_on();
    known.ready();
    let text = look(&known.top(&["--batch", "2", "--interval", "0.05"]));
    let last = &text[text.rfind("process ").unwrap()..];
    let class = row(last, "3072 ");
    assert_eq!(
        class[..8],
        [
            "1.6 MiB", class[1], class[2], "850", "0.0", "300", "33.3 %", class[7]
        ],
        "{last}"
    );
    assert_eq!(row(last, "allocations")[1], "0.0", "it is at rest");
    assert_eq!(row(last, "heaps")[0], "2, of which threads have 1");
    assert!(!row(last, "live")[0].contains("on their way"), "{last}");
    assert_eq!(text.matches("process ").count(), 2);

    known.go_on();
    assert_eq!(known.child.wait().unwrap().code(), Some(7));
}

fn object(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))
}

/// Each reading is a line. The first has no rates.
#[test]
fn readings_as_json() {
    let known = Known::start(&[]);
    let text = look(&known.top(&["--json", "--batch", "2", "--interval", "0.05"]));
    let all: Vec<_> = text.lines().map(object).collect();
    assert_eq!(all.len(), 2, "{text}");
    for reading in &all {
        assert_eq!(
            (&reading["schema"], &reading["kind"]),
            (&1.into(), &"top".into())
        );
        assert_eq!(reading["pid"], known.child.id());
        assert_eq!(reading["remote_frees"], 100);
    }
    let time = |reading: &Value| reading["unix_ms"].as_u64().unwrap();
    assert!(time(&all[1]) > time(&all[0]), "{text}");
    let of_3072 = |reading: &Value| {
        let classes = reading["classes"].as_array().unwrap();
        let class = classes.iter().find(|class| class["size"] == 3072);
        class.unwrap()["allocations_per_second"].clone()
    };
    assert_eq!(
        (&all[0]["rates"], of_3072(&all[0])),
        (&Value::Null, Value::Null)
    );
    let rates = &all[1]["rates"];
    assert!(rates["seconds"].as_f64() > Some(0.04), "{text}");
    assert_eq!(rates["allocations_per_second"], 0.0, "it is at rest");
    assert_eq!(rates["busy_processors"], 0.0);
    assert_eq!(of_3072(&all[1]), 0.0);
    assert_eq!(all[1]["thread_heaps"][0]["listed_per_second"], 0.0);
    assert_eq!(all[1]["syscalls"][0]["calls_per_second"], 0.0);
}

/// Without --batch readings come until the process ends. What cannot be read is no line of them.
#[test]
fn readings_as_json_until_the_end() {
    let known_path = KNOWN.to_str().unwrap();
    let mut known = Known::start(&["env", "-u", "LD_PRELOAD", known_path]);
    let mut command = hakmem();
    command
        .args(["top", "--json", "-i", "0.02"])
        .arg(known.child.id().to_string());
    let mut watch = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    object(&lines.next().unwrap().unwrap());
    known.go_on();
    known.ready();
    let mut errors = BufReader::new(watch.stderr.take().unwrap()).lines();
    let said = errors.next().unwrap().unwrap();
    assert!(said.contains("does not run on hakmem"), "{said}");
    drop(known);
    for line in lines {
        object(&line.unwrap());
    }
    assert!(errors.all(|line| line.is_ok()));
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}

/// Nothing is asked of the process, so that one which cannot answer is seen, too.
#[test]
fn a_stopped_program() {
    let known = Known::start(&[]);
    // SAFETY: the child is not reaped, so the pid is its own.
    unsafe { libc::kill(known.child.id() as i32, libc::SIGSTOP) };
    assert_eq!(row(&look(&known.top(&["--batch", "1"])), "3072 ")[3], "700");
}

/// A Rust program that has the allocator in it, without the library, and in it the debugging form
/// of all.
#[test]
fn a_program_of_rust() {
    for built in [built::debugged(), built::released(&[])] {
        let program = built.example("watched");
        let mut child = Command::new(&program)
            .env("HAKMEM_MODE", "learn")
            .env("HAKMEM_DECAY_MS", "500")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut line).unwrap();
        let text = look(&top(child.id(), &["--batch", "1"]));
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        let class = row(&text, "3072 ");
        assert_eq!(
            (class[3], class[5]),
            ("1,000", "10"),
            "{}:\n{text}",
            program.display()
        );
        assert!(text.contains(" s ago  HUGE_CACHE_MIB 32 to "), "{text}");
    }
}

#[test]
fn forks_are_two_programs() {
    let mut known = Known::start(&["fork"]);
    known.go_on();
    known.ready();
    let parent = known.child.id();
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let child = children.unwrap().trim().parse().unwrap();
    // The child counts anew, and has what lives in its parent.
    let text = look(&top(child, &["--batch", "1"]));
    assert_eq!(row(&text, "3072 ")[3], "1", "{text}");
    let text = look(&top(parent, &["--batch", "1"]));
    assert_eq!(row(&text, "3072 ")[3], "700", "{text}");
    known.go_on();
    known.ready();
    known.go_on();
    assert!(known.child.wait().unwrap().success());
}

/// The process goes on as other programs, on hakmem and not, while it is watched.
#[test]
fn an_exec_is_noticed() {
    let known_path = KNOWN.to_str().unwrap();
    let mut known = Known::start(&["env", known_path, "env", "-u", "LD_PRELOAD", known_path]);
    let pid = known.child.id();
    let mut command = hakmem();
    command
        .args(["top", "--batch", "0", "-i", "0.02"])
        .arg(pid.to_string());
    let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut wait_for = |what: &str| {
        let found = lines.by_ref().any(|line| line.unwrap().contains(what));
        assert!(found, "no line with {what}");
    };
    wait_for("(known), 2 threads");
    known.go_on();
    known.ready();
    // Another process image: the first look at it has no rates.
    wait_for("(known), 2 threads");
    known.go_on();
    known.ready();
    wait_for("does not run on hakmem");
    drop(known);
    // It ends with the process. Before that it may have looked again.
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let same = |line: &String| line.is_empty() || line.contains("does not run on hakmem");
    assert!(rest.iter().all(same), "{rest:?}");
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}

#[test]
fn what_cannot_be_watched_is_said() {
    let failed = |output: Output, what: &str| {
        let text = stderr(&output);
        assert_eq!(
            (output.status.code(), stdout(&output).as_str()),
            (Some(1), "")
        );
        assert!(text.contains(what) && text.lines().count() == 1, "{text}");
    };
    let mut plain = Command::new("sleep").arg("1000").spawn().unwrap();
    failed(
        top(plain.id(), &[]),
        "(sleep) does not run on hakmem: start it by",
    );
    plain.kill().unwrap();
    plain.wait().unwrap();
    failed(top(plain.id(), &[]), "there is no process");
    for bad in ["0", "-3", "4294967295"] {
        let output = hakmem().args(["top", bad]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    }
    for bad in ["0", "-1", "x", "1e9", "nan"] {
        let output = hakmem()
            .args(["top", "--interval", bad, "1"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    }
}

/// Of another user.
#[test]
fn what_may_not_be_read_is_said() {
    use std::os::unix::process::CommandExt;
    let known = Known::start(&[]);
    let mut command = hakmem();
    // SAFETY: asks for a number.
    let own = unsafe { libc::geteuid() };
    let pid = if own == 0 {
        command = Command::new(for_nobody().0);
        command.uid(65534).gid(65534);
        known.child.id()
    } else {
        1
    };
    let output = command.arg("top").arg(pid.to_string()).output().unwrap();
    if own == 0 {
        let copy = std::path::PathBuf::from(command.get_program());
        std::fs::remove_dir_all(copy.parent().unwrap()).unwrap();
    }
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("may not be read: it is root's, and you are "),
        "{text}"
    );
}

#[test]
fn a_program_is_watched_from_its_beginning_to_its_end() {
    let mut command = hakmem();
    command
        .args(["top", "--interval", "0.05", "--lib"])
        .arg(&*HAKMEM)
        .args(["--", "perl", "-e"])
        .arg("my @a = map { \"x$_\" } 1..100000; print $#a; select undef, undef, undef, 1; exit 7");
    let output = command.output().unwrap();
    let text = stderr(&output);
    assert_ended(&output, 7, "99999");
    let last = &text[text.rfind("process ").unwrap()..];
    let of_16: u64 = row(last, "16 ")[3].replace(',', "").parse().unwrap();
    assert!(of_16 >= 100_000, "{last}");

    let mut command = hakmem();
    command
        .args(["top", "--batch", "1", "-i", "0.01", "--lib"])
        .arg(&*HAKMEM);
    let output = command
        .args(["--", "sh", "-c", "kill -TERM $$"])
        .output()
        .unwrap();
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(output.status.signal(), Some(libc::SIGTERM));
    let mut command = hakmem();
    command.args(["top", "--lib"]).arg(&*HAKMEM);
    let output = command.args(["--", "no-such-program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
}

/// What cannot be written is lost, and the program goes on to its end.
#[test]
fn a_broken_pipe_and_a_full_disk() {
    let full = || {
        std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap()
    };
    let known = Known::start(&[]);
    let pid = known.child.id().to_string();
    let mut command = hakmem();
    command.args(["top", "--batch", "2", "-i", "0.01", &pid]);
    let output = command
        .stdout(full())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_says(&output, "cannot write");
    let mut command = hakmem();
    command.args(["top", "--batch", "0", "-i", "0.01", &pid]);
    let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(watch.stdout.take());
    assert_eq!(
        watch.wait().unwrap().code(),
        Some(0),
        "a reader has seen enough"
    );

    let mut command = hakmem();
    command.args(["top", "-i", "0.01", "--lib"]).arg(&*HAKMEM);
    command.args([
        "--",
        "perl",
        "-e",
        "select undef, undef, undef, 0.3; print 5; exit 3",
    ]);
    let output = command.stderr(full()).output().unwrap();
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(3), "5")
    );
}

/// What the allocator's note, its heaps and its arenas may be made to say by the program they lie
/// in.
const GARBAGE: &[&[&str]] = &[
    // Divisors and what follows from sizes.
    &["slot_bytes=0"],
    &["segment_bytes=0"],
    &["slot_bytes=1"],
    &["segment_bytes=100000000"],
    &["slot_bytes=100000000", "segment_bytes=100000000"],
    &[
        "decision_bytes=0",
        "word",
        "@decisions",
        "decisions.made",
        "1",
    ],
    &[
        "decision_bytes=1000",
        "decisions_kept=100000000",
        "word",
        "@decisions",
        "decisions.made",
        "1",
    ],
    // Sizes of what is allocated, offsets that lie behind it, counts.
    &["heap_bytes=100000000"],
    &["heap_bytes=0"],
    &["heap.next=ffffffffffffffff"],
    &["heap.next=fff"],
    &["heap.lists=fffffff8"],
    &["heap.events=ffffffff"],
    &["arena_bytes=100000000"],
    &["meta_bytes=100000000"],
    &["meta_bytes=0"],
    &["meta.kind=fffffff0"],
    &["group_bytes=100000000"],
    &[
        "group_bytes=100000000",
        "word",
        "@arenas",
        "arena.top",
        "ffffffffffffffff",
    ],
    &[
        "group_bytes=0",
        "word",
        "@arenas",
        "arena.top",
        "ffffffffffffffff",
    ],
    &["before_bytes=100000000"],
    &["syscall_bytes=100000000"],
    &["syscall_bytes=ffffffff", "syscall_kinds=40"],
    &["syscall.mmap=ffffffffffffffff"],
    &["classes=0"],
    &["classes=40"],
    &["classes=ffffffff"],
    &["events=ffffffff"],
    &["events=0"],
    &["half=100000000"],
    &["event.listed=100000000"],
    &["segments_of_group=0"],
    &["segments_of_group=ffffffff"],
    // Addresses.
    &["@heaps=0"],
    &["@heaps=7ffffffff000"],
    &["@heaps=fffffffffffffffc"],
    &["@arenas=fffffffffffffff0"],
    &["@arenas=8000000000000000"],
    &["@sizes=ffffffffffffffff"],
    &["heap", "heap.next", "fffffffffffffff9"],
    &["heap", "heap.lists", "fffffffffffffff8"],
    &["heap", "heap.lists", "3"],
    &["word", "@arenas", "arena.data", "ffffffffffffffff"],
    &["word", "@arenas", "arena.metas", "ffffffffffffffff"],
    &["word", "@arenas", "arena.groups", "ffffffffffffffff"],
    &["word", "@arenas", "arena.top", "ffffffffffffffff"],
    &["span", "ffffffff"],
    &["span", "0"],
    // Without end.
    &["loop"],
    &["cycle"],
    &["heaps", "8000"],
    &["segments"],
    // Counters that do not fit together.
    &["heap", "heap.sent", "ffffffffffffffff"],
    &["heap", "heap.large_fresh", "ffffffffffffffff"],
    &["heap", "heap.existing", "7fffffffffffffff"],
    &["@live=0"],
    // Names.
    &["slot_bytes:slot%1b%5b2Jes"],
    &["syscall.mmap:syscall.%1b%5b2J"],
    &["name", "\x1b]0;x\x07\u{9b}2J\u{202e}"],
];

/// Whatever a process has in its memory, the one who looks is not harmed.
#[test]
fn a_forged_process_is_refused_or_shown_without_harm() {
    let mut refused = 0;
    for changes in GARBAGE {
        let forged = forged(changes);
        let pid = forged.pid().to_string();
        for arguments in [
            &["top", "--batch", "2", "-i", "0.01"][..],
            &["map", "-o", "-", "--pid"],
            &["map", "-o", "-", "--json", "--pid"],
        ] {
            if ["heaps", "segments"].contains(&changes[0]) && arguments[0] == "map" {
                continue; // Takes as long, and is read by the same code.
            }
            let output = bounded(hakmem().args(arguments).arg(&pid));
            refused += usize::from(refused_or_done(
                &output,
                &format!("{changes:?}, {arguments:?}"),
            ));
        }
    }
    assert!((60..GARBAGE.len() * 3).contains(&refused), "{refused}");
}

#[test]
fn a_forged_name_is_shown_without_what_a_terminal_obeys() {
    let name = "\x1b]0;x\x07\u{9b}y";
    let forged = forged(&["name", name]);
    let text = look(&top(forged.pid() as u32, &["--batch", "1"]));
    assert!(text.contains("(?]0;x??y), 1 thread"), "{text}");
    let mut command = Command::new("perl");
    command.args([
        "-e",
        "$0 = \"\\e]0;x\\a\"; $| = 1; print \"ready\\n\"; <STDIN>",
    ]);
    command.stdin(Stdio::piped());
    let plain = Ready::new(command);
    let output = top(plain.pid() as u32, &[]);
    assert!(refused_or_done(&output, "a name"));
    assert!(stderr(&output).contains("(?]0;x?) does not run on hakmem"));
}

/// As the words of `$(pidof PROG)` may be.
#[test]
fn one_process_is_watched_at_a_time() {
    for words in [&["23", "24"][..], &["23", "24", "25"]] {
        let output = hakmem().arg("top").args(words).output().unwrap();
        assert_ended(&output, 2, "");
        assert_says(
            &output,
            "top watches one process at a time: hakmem top 23\n",
        );
    }
    let output = hakmem().args(["top", "23", "--batch", "1"]).output();
    assert_says(&output.unwrap(), "hakmem top --batch 1 23\n");
}
