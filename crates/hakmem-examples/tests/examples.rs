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
                HUGE_CACHE_MIB=-1: not a number from 0 to 1048576\n";
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
fn request_arena() {
    let args = ["-p", "hakmem-examples", "--features", "allocator-api2"];
    let built = built::apart(
        "arena",
        &[&args[..], &["--example", "request_arena"]].concat(),
    );
    let text = printed(&mut Command::new(built.example("request_arena")));
    let lines: Vec<&str> = text.lines().collect();
    // A vector of words for each request, one of those that occur once, and what was outgrown.
    let (blocks, rest) = lines[0].split_once(' ').expect("words");
    assert!(blocks.parse::<u32>().expect("a number") >= 200, "{text}");
    assert_eq!(rest, "blocks came back");
    assert_eq!(lines[1..], ["0 bytes are left", "9900 words occur once"]);
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

#[test]
fn statistics_in_c() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("statistics");
    let library = built::released(&[]).of("hakmem", ".so");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-o"])
        .arg(&program)
        .arg(here.join("examples/statistics.c"))
        .arg("-I")
        .arg(here.join("../hakmem-ffi/include"))
        .arg(&library)
        .status();
    assert!(compiled.expect("there is a compiler").success());
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", library.parent().expect("its folder"));
    assert_eq!(
        printed(&mut command),
        "blocks of 1024 bytes: 10000 live, then 0\ntrimmed: 1\n"
    );
}

/// The server, which ends with this value.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start() -> Self {
        let mut command = example("server");
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

    fn text(&self, what: &str, body: &str) -> String {
        let length = body.len();
        let head = format!("{what} HTTP/1.1\r\ncontent-length: {length}\r\n\r\n");
        let (status, text) = self.send(&(head + body));
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
    let server = Server::start();
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
    let server = Server::start();
    let (status, text) = server.send("GET /nothing HTTP/1.1\r\n\r\n");
    assert_eq!(status, "HTTP/1.1 404 Not Found");
    assert_eq!(text, "no such page\n");
    let large = "PUT /notes HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n";
    let (status, text) = server.send(large);
    assert_eq!(status, "HTTP/1.1 413 Content Too Large");
    assert_eq!(text, "too large\n");
    assert_eq!(server.text("GET /notes", ""), "0\n");
}

#[test]
fn every_example_is_run() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in std::fs::read_dir(here.join("examples")).expect("examples") {
        let path = file.expect("a file").path();
        let name = path.file_stem().and_then(|name| name.to_str());
        let name = name.expect("UTF-8");
        let is_run = match path.extension() {
            Some(end) if end == "c" => format!("\"examples/{name}.c\""),
            _ => format!("example(\"{name}\")"),
        };
        let tests = include_str!("examples.rs");
        assert!(tests.contains(&is_run), "{name} is run by no test");
    }
}
