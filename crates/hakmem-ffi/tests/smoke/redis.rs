//! redis-server under redis-benchmark, with a snapshot by a forked child while it runs.

use crate::common::{find_program, preload, run};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Ends the server, whatever becomes of the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn client(socket: &Path, arguments: &[&str]) -> String {
    let output: Output = run(Command::new("redis-cli")
        .arg("-s")
        .arg(socket)
        .args(arguments));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The digest of the data set after the work, and again after it was read back from the snapshot.
fn digests(hakmem: bool) -> (String, String) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = directory.path().join("socket");
    let start = || {
        let mut command = Command::new("redis-server");
        command.args([
            "--port",
            "0",
            "--save",
            "",
            "--appendonly",
            "no",
            "--daemonize",
            "no",
        ]);
        command
            .arg("--unixsocket")
            .arg(&socket)
            .arg("--dir")
            .arg(directory.path());
        command.args(["--enable-debug-command", "yes"]);
        let reports = hakmem.then(|| preload(&mut command));
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-server runs");
        // It says when it listens; the rest of its log is read away so that the pipe never fills.
        let mut log = BufReader::new(child.stdout.take().expect("a pipe"));
        let server = Server(child);
        let mut line = String::new();
        while !line.to_lowercase().contains("ready to accept connections") {
            line.clear();
            let n = log.read_line(&mut line).expect("a log");
            assert!(n > 0, "redis-server ended before it was ready");
        }
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        (server, reports)
    };
    let end = |(mut server, reports): (Server, Option<crate::common::Reports>)| {
        // It closes the connection without an answer.
        let _ = Command::new("redis-cli")
            .arg("-s")
            .arg(&socket)
            .args(["SHUTDOWN", "NOSAVE"])
            .output();
        let status = server.0.wait().expect("an end");
        assert!(status.success(), "redis-server: {status}");
        if let Some(reports) = reports {
            reports.assert_served();
        }
    };

    let first = start();
    for i in 0..200 {
        let (key, value) = (format!("key{i}"), "v".repeat(i * 37));
        client(&socket, &["SET", &key, &value]);
    }
    let mut load = Command::new("redis-benchmark");
    load.arg("-s").arg(&socket).args([
        "-q",
        "-n",
        "5000",
        "-c",
        "8",
        "-P",
        "4",
        "-t",
        "set,get,lpush,lpop,sadd,hset",
    ]);
    let loading = load.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut loading = Server(loading.expect("redis-benchmark runs"));
    client(&socket, &["BGSAVE"]);
    assert!(
        loading.0.wait().expect("an end").success(),
        "redis-benchmark failed"
    );
    // A foreground save: the file then holds all of it, and the child of BGSAVE has ended.
    while client(&socket, &["INFO", "persistence"]).contains("rdb_bgsave_in_progress:1") {
        std::thread::yield_now();
    }
    let status = client(&socket, &["INFO", "persistence"]);
    assert!(status.contains("rdb_last_bgsave_status:ok"), "{status}");
    // What redis-benchmark writes is random in places; the digest is of the keys above.
    for key in ["mylist", "myset", "myhash", "key:__rand_int__"] {
        client(&socket, &["DEL", key]);
    }
    assert_eq!(client(&socket, &["SAVE"]), "OK");
    let before = client(&socket, &["DEBUG", "DIGEST"]);
    end(first);
    let second = start();
    let after = client(&socket, &["DEBUG", "DIGEST"]);
    end(second);
    (before, after)
}

#[test]
fn redis() {
    let needed = ["redis-server", "redis-cli", "redis-benchmark"];
    if !needed.iter().all(|name| find_program(name).is_some()) {
        return;
    }
    let (plain, with) = (digests(false), digests(true));
    assert_eq!(plain.0.len(), 40, "a digest: {}", plain.0);
    assert_eq!(plain.0, plain.1);
    assert_eq!(with.0, with.1, "the snapshot holds the data");
    assert_eq!(plain, with);
}
