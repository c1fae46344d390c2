//! Every command of the pages runs.
//!
//! The test runs a block in a scratch folder, with the command and the library on PATH. The lines
//! of a block that begin with `$ ` are its commands; without any, all lines are. A command
//! `$ cat FILE` stands before the contents of a file that the block needs.
//!
//! Some words stand for something of the reader's: PROG and PID for a program and a process on
//! hakmem, `server` for one that runs until it is killed, `pidof` for a way to its number, `/tmp`
//! and `/var/tmp` for a folder. Commands that go on for ever end when they have shown something.

use crate::book::{Testing, pages, read, repository};
use crate::common;

use common::*;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// The blocks that are not run, of all pages in docs. Whoever adds one says so here.
const NOT_RUN: usize = 2;

/// What the words for the reader's things do. A server that was just started has no handlers yet,
/// and writes what a signal asks for a moment later.
const PRELUDE: &str = r#"
    trap 'jobs -p | xargs -r kill -9 2>/dev/null || true' EXIT
    server() { exec sleep 1000; }
    pidof() { echo "$KNOWN"; }
    # SIGUSR1 or SIGUSR2 has a handler, and not the one of the shell that is to become the server.
    is_ready() {
        [[ $(readlink "/proc/$1/exe") != "$BASH" ]] &&
            awk '/^SigCgt/ { exit substr($2, 14, 1) !~ /[2367-9a-f]/ }' "/proc/$1/status"
    }
    written() { find report tmp -type f -size +0 -printf '%p %s\n' 2>/dev/null || true; }
    until_true() {
        for _ in {1..600}; do
            if "$@" >/dev/null 2>&1; then return; fi
            sleep 0.1
        done
        echo "never came: $*" >&2
        exit 4
    }
    has_written() {
        local before
        before=$(written)
        sleep 0.2
        [[ -n $before && $before == "$(written)" ]]
    }
    kill() {
        until_true is_ready "${@: -1}"
        command kill "$@"
        until_true has_written
    }
    redis-cli() {
        until_true command redis-cli -p 7777 ping
        command redis-cli "$@"
    }
    cargo() {
        if [[ $* == "run --release -p hakmem-examples --example pprof_server "* ]]; then
            exec "$PPROF_SERVER" "${@: -1}"
        fi
        command cargo "$@"
    }
    curl() {
        until_true command curl -s "http://$SERVICE/"
        command curl -fsS "$@"
    }
    # It would open a browser.
    go() {
        if [[ $* != *' -http=: '* ]]; then
            command go "$@"
            return
        fi
        setsid go tool pprof -no_browser -http="$SERVICE" "${@:4}" &> tmp/pprof &
        curl "http://$SERVICE/ui/top" > tmp/top
        command kill -- -$!
        grep -q 'Flat%' tmp/top
    }
    # A person has a terminal, and types q until the program ends.
    typed() { trap '' PIPE; while printf q; do sleep 0.2; done 2>/dev/null; }
    hakmem() {
        if [[ $1 == top && $* != *--batch* ]]; then
            typed | script -qec "stty rows 24 columns 80; hakmem $*" tmp/screen > tmp/shown
            # It took the whole screen.
            grep -aqF '[?1049h' tmp/shown
        else
            command hakmem "$@"
        fi
    }
    # It is told to end when it watches, and again if that was too early for it.
    bpftrace() {
        command bpftrace "$@" > tmp/probes 2>&1 &
        until_true grep -q Attaching tmp/probes
        while command kill $! 2>/dev/null; do sleep 0.2; done
        wait $!
    }
"#;

/// The commands of a block, and the files that it shows by `cat`.
fn parts(block: &str) -> (String, Vec<(&str, String)>) {
    let (mut commands, mut files, mut goes_on) = (Vec::new(), Vec::new(), false);
    let marked = block.lines().any(|line| line.starts_with("$ "));
    for line in block.lines() {
        let command = line.strip_prefix("$ ");
        if !marked || goes_on || command.is_some() {
            let command = command.unwrap_or(line);
            commands.push(command);
            goes_on = line.ends_with('\\');
            files.extend(
                command
                    .strip_prefix("cat ")
                    .map(|name| (name, String::new())),
            );
        } else if let Some((_, text)) = files.last_mut()
            && commands.last().is_some_and(|last| last.starts_with("cat "))
        {
            *text += line;
            text.push('\n');
        }
    }
    (commands.join("\n"), files)
}

/// The commands of a block, to run in `folder`. What stands for something of the reader's is
/// replaced.
fn script(block: &str, pid: u32, folder: &Path) -> String {
    let (text, _) = parts(block);
    let text = text.replace("/var/tmp/", "/tmp/").replace("/tmp/", "\0");
    let text = text.replace('\0', &format!("{}/tmp/", folder.display()));
    let text = text.replace("/path/to/libhakmem.so", HAKMEM.to_str().unwrap());
    let text = text.replace("127.0.0.1:8080", &SERVICE);
    words(&text, "PID", &pid.to_string(), "PROG", "./prog")
}

/// The text with two words replaced, where they stand alone.
fn words(text: &str, one: &str, by: &str, other: &str, by_other: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let parts = text.split_inclusive(|c: char| !is_part(c));
    let replaced = parts.map(|part| {
        let word = part.trim_end_matches(|c: char| !is_part(c));
        let rest = &part[word.len()..];
        match word {
            w if w == one => format!("{by}{rest}"),
            w if w == other => format!("{by_other}{rest}"),
            _ => part.to_owned(),
        }
    });
    replaced.collect()
}

/// What PROG stands for.
static PROG: LazyLock<PathBuf> =
    LazyLock::new(|| BUILT.compile("book.c", "book-prog", &["-fno-builtin", "-pthread"]));

/// Where a service of a page listens.
static SERVICE: LazyLock<String> = LazyLock::new(|| {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().to_string()
});

/// Programs that a command of a page may name, and that `look` stands for.
const LOOKED_AT: [&str; 6] = [
    "bin/cargo",
    "bin/hakmem",
    "bin/musl-gcc",
    "target/release/hakmem-bench",
    "target/release/hakmem-trials",
    "target/x86_64-unknown-linux-musl/release/hakmem-run-hakmem",
];

fn link(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::hard_link(from, to)
        .or_else(|_| fs::copy(from, to).map(drop))
        .unwrap();
}

/// A folder with what a block may need.
fn scratch(block: &str, how: &Testing) -> tempfile::TempDir {
    let folder = tempfile::Builder::new()
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("tmp")).unwrap();
    if *how == Testing::LookedAt {
        let look = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/look");
        let scripts = fs::read_dir(repository().join("ci")).unwrap();
        let scripts = scripts.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let scripts = scripts.map(|name| format!("ci/{name}"));
        for name in scripts.chain(LOOKED_AT.map(str::to_owned)) {
            link(&look, &at(&name));
        }
    } else {
        link(Path::new(env!("CARGO_BIN_EXE_hakmem")), &at("bin/hakmem"));
        link(&HAKMEM.canonicalize().unwrap(), &at("bin/libhakmem.so"));
        link(&PROG, &at("prog"));
        fs::write(
            at("work.py"),
            "print(len([bytes(1000) for _ in range(1000)]))\n",
        )
        .unwrap();
        for source in ["memchr/src/lib.rs", "text/a.py", "target/release/server"] {
            fs::create_dir_all(at(source).parent().unwrap()).unwrap();
        }
        fs::write(at("memchr/src/lib.rs"), "#![no_std]\n").unwrap();
        fs::write(at("text/a.py"), "a text\n").unwrap();
        std::os::unix::fs::symlink("/bin/true", at("target/release/server")).unwrap();
        fs::write(at("README.md"), "a note\n").unwrap();
    }
    for (name, text) in parts(block).1 {
        fs::write(at(name), text).unwrap();
    }
    folder
}

/// True if a program is on `PATH`.
fn is_there(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// True if there are the programs of redis.
fn has_redis() -> bool {
    ["redis-server", "redis-cli", "redis-benchmark"]
        .into_iter()
        .all(is_there)
}

/// The folder with the project's programs, as tests have them.
static PROGRAMS: LazyLock<PathBuf> = LazyLock::new(|| {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--bins"])
        .args(["-p", "hakmem-bench", "-p", "hakmem-trials"])
        .current_dir(repository())
        .status();
    assert!(built.unwrap().success());
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("debug")
});

/// Runs a block in a folder of its own, beside a process on hakmem that writes a report at SIGUSR2.
/// What went wrong, if anything did.
fn run_block(block: &str, how: &Testing) -> Option<String> {
    let folder = scratch(block, how);
    let mut command = Command::new(&*KNOWN);
    command
        .env("LD_PRELOAD", &*HAKMEM)
        .env("HAKMEM_STATS", "json:report")
        .env("HAKMEM_STATS_SIGNAL", "USR2")
        .current_dir(folder.path())
        .stdin(Stdio::piped());
    let process = Ready::new(command);
    let script = script(block, process.pid() as u32, folder.path());
    let mut paths = vec![folder.path().join("bin")];
    let path = std::env::var_os("PATH").unwrap_or_default();
    paths.extend(std::env::split_paths(&path));
    let mut command = Command::new("bash");
    command
        .args(["-euo", "pipefail", "-c", &format!("{PRELUDE}{script}")])
        .current_dir(folder.path())
        .env("PATH", std::env::join_paths(paths).unwrap())
        .env("KNOWN", process.pid().to_string())
        .env("SERVICE", &*SERVICE)
        .env("PPROF_TMPDIR", folder.path())
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null());
    if block.contains("pprof_server") {
        command.env("PPROF_SERVER", built::debugged().example("pprof_server"));
    }
    if *how == Testing::LookedAt {
        command
            .env("BUILT", &*PROGRAMS)
            .env("LIBRARY", &*HAKMEM)
            .env("ROOT", repository())
            .env("CARGO", env!("CARGO"));
    }
    let output = command.output().unwrap();
    // The doctor may find a problem of this machine.
    let is_doctors = block
        .trim_end()
        .lines()
        .all(|line| line.starts_with("hakmem doctor"));
    let text = stderr(&output);
    let failed = match output.status.code() {
        Some(0) => false,
        Some(1) => !is_doctors,
        _ => true,
    };
    let did_not = text.contains("did NOT run on hakmem");
    (failed || did_not).then(|| format!("{script}\n{}\n{text}", output.status))
}

#[test]
fn every_command_runs() {
    let docs = repository().join("docs");
    let mut paths = Vec::new();
    pages(&docs, &mut paths);
    let (mut run, mut looked_at, mut not_run) = (0, 0, 0);
    let mut failures = Vec::new();
    for (path, page) in read(paths) {
        for (block, how) in page.blocks {
            match &how {
                Testing::NotRun(why) => {
                    let page = path.display();
                    assert!(why.len() > 10, "{page}: {why:?} is no reason");
                    not_run += 1;
                    continue;
                }
                Testing::Run
                    if block.contains("hakmem profile -o redis redis-server") && !has_redis() =>
                {
                    println!("skipped: no redis-server and redis-tools here:\n{block}");
                    continue;
                }
                Testing::Needs(program) if !is_there(program) => {
                    println!("skipped: no {program} here:\n{block}");
                    continue;
                }
                Testing::LookedAt => looked_at += 1,
                Testing::Run | Testing::Needs(_) => run += 1,
            }
            let failure = run_block(&block, &how);
            failures.extend(failure.map(|why| format!("{}:\n{why}", path.display())));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(run >= 30, "{run} blocks were run");
    assert!(looked_at >= 15, "{looked_at} blocks were looked at");
    assert_eq!(not_run, NOT_RUN, "blocks that are not run");
}

/// What a block that fails comes to, and which of its lines are commands.
#[test]
fn commands_that_fail_are_found() {
    let run = |block| run_block(block, &Testing::Run);
    assert_eq!(
        run("hakmem options DECAY_MS\nhakmem top --batch 1 PID\n./prog"),
        None
    );
    for block in [
        "false\ntrue",
        "hakmem run --no-such-option PROG",
        "false | true",
    ] {
        assert!(run(block).is_some(), "{block}");
    }
    let block = "$ a PROG \\\n    PID\noutput PROG\n$ cat x\ny\nz\n$ b PIDS /tmp/c";
    assert_eq!(
        script(block, 7, Path::new("/d")),
        "a ./prog \\\n    7\ncat x\nb PIDS /d/tmp/c"
    );
    assert_eq!(parts(block).1, [("x", "y\nz\n".to_owned())]);
}

/// The same of blocks that are looked at.
#[test]
fn commands_that_nobody_understands_are_found() {
    let look = |block| run_block(block, &Testing::LookedAt);
    for block in [
        "cargo run --release -p hakmem-bench -- compare --only larson",
        "target/release/hakmem-trials programs --rounds 11",
        "cargo run -p hakmem-trials -- preload --lib a=b.so -- git --version",
        "cargo test -p hakmem-cli --test suite options::",
        "ci/fmt",
    ] {
        assert_eq!(look(block), None);
    }
    for block in [
        "cargo run --release -p hakmem-bench -- compare --no-such",
        "cargo run --release -p hakmem-bench -- compare --only no-such",
        "cargo run -p hakmem-bench --features no-such -- compare",
        "cargo run -p hakmem-bench --no-such -- compare",
        "cargo run -p no-such -- compare",
        "target/release/hakmem-trials no-such",
        "target/release/no-such programs",
        "cargo test -p hakmem-cli --test suite no_such::",
        "ci/no-such",
        "ci/soak 1 --no-such",
    ] {
        assert!(look(block).is_some(), "{block}");
    }
}
