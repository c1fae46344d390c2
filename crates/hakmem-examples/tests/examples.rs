//! Each example runs, and its output is what its first lines promise.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

#[path = "../../hakmem-ffi/tests/common/built.rs"]
mod built;

/// An example in Rust, without `HAKMEM_…` in its environment.
fn example(name: &str) -> Command {
    let mut command = Command::new(built::debugged().example(name));
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"HAKMEM_") {
            command.env_remove(name);
        }
    }
    command.env_remove("LD_PRELOAD");
    command
}

/// What a program prints, which must succeed.
fn printed(command: &mut Command) -> String {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.expect("the program starts");
    assert!(output.status.success(), "{command:?}: {}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn options() {
    let rest = "now: free memory stays for 0 ms\n\
                HUGE_CACHE_MIB=-1: not a whole number from 0 to 1048576, in MiB\n";
    let of_its_own = "default: free memory stays for 500 ms\n\
                      at the start: free memory stays for 100 ms\n";
    let overruled = of_its_own.replace("100 ms", "2000 ms");
    assert_eq!(
        printed(&mut example("options")),
        of_its_own.to_owned() + rest
    );
    let mut command = example("options");
    command.env("HAKMEM_DECAY_MS", "2s");
    assert_eq!(printed(&mut command), overruled + rest);
}

#[test]
fn workers() {
    assert_eq!(
        printed(&mut example("workers")),
        "1000 tasks have run\nless than 1 MiB is in use\n"
    );
}

#[test]
fn plugin_cap() {
    assert_eq!(
        printed(&mut example("plugin_cap")),
        "the plugin remembered 102 notes\nthe program goes on with 10 MiB\n0 bytes are left\n"
    );
}

#[test]
fn components() {
    let text = printed(&mut example("components"));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[3]), (4, "0 bytes are left"), "{text}");
    assert_eq!(lines[0], "cache          1 blocks    128 KiB");
    assert!(lines[1].starts_with("index          1 blocks"), "{text}");
    assert!(lines[2].starts_with("parser     10001 blocks"), "{text}");
}

#[test]
fn heap_profile() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = example("heap_profile");
    let text = printed(command.arg("p").current_dir(&folder));
    let (first, second) = text.trim_end().split_once('\n').expect("two lines");
    assert_eq!(first, "the index has 20000 words");
    let words: Vec<&str> = second.split(' ').collect();
    let [
        file,
        live,
        "samples",
        "are",
        "live,",
        "of",
        all,
        "in",
        "all",
    ] = words[..]
    else {
        panic!("{second}");
    };
    assert_eq!(file, "p:");
    // The index is 22 MB, the lines are 60 MB: a sample for each 64 KiB, give or take five
    // standard deviations.
    let number = |text: &str| text.parse::<u64>().expect("a number");
    assert!((230..460).contains(&number(live)), "{second}");
    assert!((1050..1500).contains(&number(all)), "{second}");
    let profile = std::fs::read_to_string(folder.path().join("p")).expect("it is written");
    assert!(profile.starts_with("heap profile: "), "{profile:.80}");
}

/// A folder as an installation has it: with the names that linkers and programs ask for.
fn installed() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let library = built::released(&[]).of("hakmem", ".so");
    for name in ["libhakmem.so", "libhakmem.so.0"] {
        std::os::unix::fs::symlink(&library, folder.path().join(name)).expect("a link");
    }
    folder
}

/// What a program prints that is compiled so and linked to the shared library.
fn printed_by(compiler: &str, standard: &str, source: &str) -> String {
    let folder = installed();
    let program = folder.path().join("program");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiled = Command::new(compiler)
        .args([standard, "-Wall", "-Wextra", "-Werror", "-O2", "-o"])
        .arg(&program)
        .arg(here.join(source))
        .arg("-I")
        .arg(here.join("../hakmem-ffi/include"))
        .arg("-L")
        .arg(folder.path())
        .arg("-lhakmem")
        .status();
    assert!(compiled.expect("there is a compiler").success());
    printed(Command::new(program).env("LD_LIBRARY_PATH", folder.path()))
}

#[test]
fn statistics_in_c() {
    assert_eq!(
        printed_by("cc", "-std=c11", "examples/statistics.c"),
        "blocks of 1024 bytes: 10000 live, then 0\ntrimmed: 1\n"
    );
}

#[test]
fn containers_in_cpp() {
    let there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    for compiler in ["g++", "clang++"].into_iter().filter(there) {
        for standard in ["-std=c++17", "-std=c++20"] {
            assert_eq!(
                printed_by(compiler, standard, "examples/containers.cpp"),
                "1000 words, 999 of them in the map\n\
                 hakmem served at least 1000 blocks\n\
                 lines of 64 bytes: aligned\n"
            );
        }
    }
}

/// The server, which ends with this value.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(mut command: Command) -> Self {
        let command = command.arg("127.0.0.1:0").stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        let read = BufReader::new(out).read_line(&mut line);
        let address = line.trim_end().strip_prefix("listening on ");
        let server = Self {
            child,
            address: address.unwrap_or_default().to_owned(),
        };
        assert!(address.is_some(), "{read:?} {line:?}");
        server
    }

    /// The status line, and the text of the answer to a request.
    fn send(&self, request: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, text) = answer.split_once("\r\n\r\n").expect("headers");
        let status = head.lines().next().unwrap_or_default();
        (status.to_owned(), text.to_owned())
    }

    /// The status line, and the text of the answer to a request with a body.
    fn ask(&self, what: &str, body: &str) -> (String, String) {
        let length = body.len();
        let head = format!(
            "{what} HTTP/1.1\r\nhost: here\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        self.send(&(head + body))
    }

    fn text(&self, what: &str, body: &str) -> String {
        let (status, text) = self.ask(what, body);
        assert_eq!(status, "HTTP/1.1 200 OK", "{what}");
        text
    }

    fn figure(&self, name: &str) -> u64 {
        let text = self.text("GET /stats", "");
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(known, _)| *known == name);
        let (_, number) = found.unwrap_or_else(|| panic!("{name} in {text}"));
        number.parse().expect("a number")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn server() {
    let server = Server::start(example("server"));
    let before = server.figure("live_bytes");
    for n in 1..=10 {
        let kept = server.text("PUT /notes", &"x".repeat(1 << 19));
        assert_eq!(kept, format!("{n}\n"));
    }
    assert_eq!(server.text("GET /notes", ""), "10\n");
    let grown = server.figure("live_bytes") - before;
    assert!((5 << 20..8 << 20).contains(&grown), "{grown}");
    assert!(server.figure("resident_bytes") > 5 << 20);
    let report = server.text("GET /report", "");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert!(
        report["live_bytes"].as_u64() >= Some(before + (5 << 20)),
        "{report}"
    );
}

#[test]
fn server_refuses() {
    let server = Server::start(example("server"));
    let (status, text) = server.send("GET /nothing HTTP/1.1\r\n\r\n");
    assert_eq!(status, "HTTP/1.1 404 Not Found");
    assert_eq!(text, "no such page\n");
    let large = "PUT /notes HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n";
    let (status, text) = server.send(large);
    assert_eq!(status, "HTTP/1.1 413 Content Too Large");
    assert_eq!(text, "too large\n");
    assert_eq!(server.text("GET /notes", ""), "0\n");
}

/// A response's memory ends with it: all blocks come back, also of a request that is refused.
#[test]
fn request_arena() {
    let args = ["-p", "hakmem-examples", "--features", "allocator-api2"];
    let built = built::apart(
        "arena",
        &[&args[..], &["--example", "request_arena"]].concat(),
    );
    let server = Server::start(Command::new(built.example("request_arena")));
    for _ in 0..100 {
        assert_eq!(server.text("POST /words", "a b c b d a"), "2\n");
    }
    let arenas = server.text("GET /arenas", "");
    // Requests came one by one, so the second one found the arena of the first.
    assert_eq!(arenas.lines().count(), 1, "{arenas}");
    let blocks = arenas.strip_prefix("request: ").expect("the name");
    let (blocks, rest) = blocks.split_once(' ').expect("words");
    assert!(blocks.parse::<u32>().expect("a number") >= 100, "{arenas}");
    assert!(
        rest.starts_with("blocks came back, 0 bytes are live, at most "),
        "{arenas}"
    );
    // 16 bytes for each word.
    let (status, _) = server.ask("POST /words", &"a ".repeat(400_000));
    assert_eq!(status, "HTTP/1.1 413 Payload Too Large");
    assert_eq!(server.text("POST /words", "a b c b d a"), "2\n");
    let arenas = server.text("GET /arenas", "");
    assert!(arenas.contains(", 0 bytes are live, at most "), "{arenas}");
}

/// The value of a gauge, in lines such as `memory{gauge=active} 1`, with or without quotes.
fn gauge(text: &str, name: &str) -> u64 {
    let of_name = |line: &&str| line.contains(&format!("gauge={name}}} "));
    let plain = text.replace('"', "");
    let line = plain.lines().find(of_name);
    let line = line.unwrap_or_else(|| panic!("{name} in {text}"));
    let (_, value) = line.rsplit_once(' ').expect("a value");
    value.parse::<f64>().expect("a number") as u64
}

#[test]
fn exporters() {
    for mut command in [example("metrics"), example("opentelemetry")] {
        let text = printed(&mut command);
        let bytes = |name| gauge(&text, name);
        let [allocated, active] = [bytes("allocated"), bytes("active")];
        assert!((10 << 20..14 << 20).contains(&allocated), "{text}");
        assert!(allocated <= active && active <= bytes("resident"), "{text}");
        assert!(bytes("resident") <= bytes("mapped"), "{text}");
        assert!(bytes("metadata") > 0 && bytes("retained") > 0, "{text}");
    }
}

/// Notes of 64 KiB that the server is to keep, and what that is in bytes: 32 MiB.
const NOTES: usize = 512;
const NOTE: usize = 64 << 10;
const KEPT: f64 = (NOTES * NOTE) as f64;

/// What the profile says may differ by a tenth: five standard errors of the samples, one in 4 KiB,
/// are a hundredth, and the server itself keeps less than 1 MiB.
const TOLERANCE: f64 = 0.1;

#[track_caller]
fn is_kept(bytes: f64, what: &str) {
    let off = (bytes / KEPT - 1.0).abs();
    assert!(off < TOLERANCE, "{what}: {bytes} of {KEPT}");
}

/// A server with the profile on from before its load.
fn profiled() -> Server {
    let server = Server::start(example("pprof_server"));
    server.text("PUT /debug/interval/4096", "");
    let note = "x".repeat(NOTE);
    for n in 1..=NOTES {
        assert_eq!(server.text("PUT /notes", &note), format!("{n}\n"));
    }
    server
}

/// A number with its unit, as pprof prints it.
fn bytes_of(text: &str) -> f64 {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let scale = match unit {
        "B" => 0,
        "kB" => 10,
        "MB" => 20,
        _ => panic!("{text}"),
    };
    let number: f64 = text[..text.len() - unit.len()].parse().expect("a number");
    number * f64::from(1 << scale)
}

#[test]
fn the_profile_is_read_by_go_over_http() {
    let server = profiled();
    let go = Path::new("/usr/local/go/bin/go");
    let go = if go.exists() { go } else { Path::new("go") };
    let folder = tempfile::tempdir().expect("a folder");
    let address = format!("http://{}/debug/pprof/heap", server.address);
    let mut command = Command::new(go);
    command
        .args(["tool", "pprof", "-symbolize=none", "-top", &address])
        .env("PPROF_TMPDIR", folder.path())
        .stderr(Stdio::inherit());
    let output = match command.output() {
        Ok(output) => output,
        Err(e) => return eprintln!("skipped: there is no go, which has pprof: {e}"),
    };
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{}: {text}", output.status);
    assert!(text.contains("Type: inuse_space"), "{text}");
    // Showing nodes accounting for 32.1MB, 99.9% of 32.2MB total
    let total = text.split(" of ").nth(1).expect("a total");
    is_kept(bytes_of(total.split(' ').next().expect("bytes")), &text);
    let mut lines = text.lines().skip_while(|line| !line.contains("flat%"));
    let first = lines.nth(1).expect("a function");
    assert!(first.ends_with(" pprof_server::keep"), "{text}");
    let flat = first.split_whitespace().next().expect("bytes");
    is_kept(bytes_of(flat), &text);
}

#[test]
fn the_profile_is_drawn_over_http() {
    let server = profiled();
    let folded = server.text("GET /debug/heap.folded", "");
    let lines = folded
        .lines()
        .map(|line| line.rsplit_once(' ').expect("bytes"));
    let kept = lines.filter(|(stack, _)| stack.ends_with(";pprof_server::keep"));
    let kept = kept.map(|(_, bytes)| bytes.parse::<f64>().expect("a number"));
    is_kept(kept.sum(), &folded);
    let svg = server.text("GET /debug/heap.svg", "");
    let options = roxmltree::ParsingOptions {
        allow_dtd: true,
        ..Default::default()
    };
    let picture = roxmltree::Document::parse_with_options(&svg, options).expect("XML");
    assert_eq!(picture.root_element().tag_name().name(), "svg");
    let mut titles = picture
        .descendants()
        .filter_map(|node| match node.tag_name().name() {
            "title" => node.text(),
            _ => None,
        });
    assert!(titles.any(|title| title.starts_with("pprof_server::keep (")));
}

#[test]
fn the_profile_is_switched_over_http() {
    let server = Server::start(example("pprof_server"));
    let (status, text) =
        server.send("PUT /debug/interval/0 HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    assert!(text.contains("0 bytes are no interval"), "{text}");
    server.text("DELETE /debug/interval", "");
    let note = "x".repeat(1 << 20);
    server.text("PUT /notes", &note);
    let folded = server.text("GET /debug/heap.folded", "");
    assert!(!folded.contains("pprof_server::keep"), "{folded}");
    server.text("PUT /debug/interval/4096", "");
    server.text("PUT /notes", &note);
    let folded = server.text("GET /debug/heap.folded", "");
    assert!(folded.contains("pprof_server::keep"), "{folded}");
}

#[test]
fn every_example_is_run() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in std::fs::read_dir(here.join("examples")).expect("examples") {
        let path = file.expect("a file").path();
        let name = path.file_stem().and_then(|name| name.to_str());
        let name = name.expect("UTF-8");
        let is_run = match path.extension() {
            Some(end) if end == "c" || end == "cpp" => {
                format!("\"examples/{name}.{}\"", end.display())
            }
            _ => format!("example(\"{name}\")"),
        };
        let tests = include_str!("examples.rs");
        assert!(tests.contains(&is_run), "{name} is run by no test");
    }
}
