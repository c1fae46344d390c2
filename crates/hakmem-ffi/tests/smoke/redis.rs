//! redis-server under redis-benchmark, with a snapshot by a forked child while it runs.

use crate::common::{Reports, find_program, preload, run};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Ends the server, whatever becomes of the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A redis that keeps its data in a folder, and listens there.
struct Redis {
    server: Server,
    socket: PathBuf,
    /// With hakmem.
    reports: Option<Reports>,
}

impl Redis {
    fn start(directory: &Path, hakmem: bool) -> Self {
        let socket = directory.join("socket");
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no"]);
        command.args(["--daemonize", "no", "--enable-debug-command", "yes"]);
        command.arg("--unixsocket").arg(&socket);
        command.arg("--dir").arg(directory);
        let reports = hakmem.then(|| preload(&mut command));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("redis-server runs");
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
        Self {
            server,
            socket,
            reports,
        }
    }

    fn ask(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        let output: Output = run(command.arg("-s").arg(&self.socket).args(arguments));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Writes keys, much of it while a child takes a snapshot.
    fn load(&self) {
        for i in 0..200 {
            let (key, value) = (format!("key{i}"), "v".repeat(i * 37));
            self.ask(&["SET", &key, &value]);
        }
        let mut load = Command::new("redis-benchmark");
        load.arg("-s").arg(&self.socket);
        load.args(["-q", "-n", "5000", "-c", "8", "-P", "4"]);
        load.args(["-t", "set,get,lpush,lpop,sadd,hset"]);
        let loading = load.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut loading = Server(loading.expect("redis-benchmark runs"));
        self.ask(&["BGSAVE"]);
        let status = loading.0.wait().expect("an end");
        assert!(status.success(), "redis-benchmark failed");
    }

    /// Saves in the foreground: the file then holds all of it, and the child of BGSAVE has ended.
    fn save(&self) {
        let is_saving = |text: &str| text.contains("rdb_bgsave_in_progress:1");
        while is_saving(&self.ask(&["INFO", "persistence"])) {
            std::thread::yield_now();
        }
        let status = self.ask(&["INFO", "persistence"]);
        assert!(status.contains("rdb_last_bgsave_status:ok"), "{status}");
        // What redis-benchmark writes is random in places; the digest is of the other keys.
        for key in ["mylist", "myset", "myhash", "key:__rand_int__"] {
            self.ask(&["DEL", key]);
        }
        assert_eq!(self.ask(&["SAVE"]), "OK");
    }

    /// The digest of its data, with which it ends.
    fn digest(mut self) -> String {
        let digest = self.ask(&["DEBUG", "DIGEST"]);
        // It closes the connection without an answer.
        let _ = Command::new("redis-cli")
            .arg("-s")
            .arg(&self.socket)
            .args(["SHUTDOWN", "NOSAVE"])
            .output();
        let status = self.server.0.wait().expect("an end");
        assert!(status.success(), "redis-server: {status}");
        if let Some(reports) = self.reports {
            reports.assert_served();
        }
        digest
    }
}

/// The digest of the data set after the work, and again after it was read back from the snapshot.
fn digests(hakmem: bool) -> (String, String) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let first = Redis::start(directory.path(), hakmem);
    first.load();
    first.save();
    let before = first.digest();
    let after = Redis::start(directory.path(), hakmem).digest();
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
