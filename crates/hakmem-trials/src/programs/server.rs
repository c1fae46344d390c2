//! A server under load: started, driven by its own benchmark, stopped.

use crate::executables::find;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Until so long after its start a server may be deaf; under a tracer all takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `serve`, which starts a Redis server in `folder` and returns when it has ended. Meanwhile
/// another thread drives that server, and stops it.
pub fn drive<T>(folder: &Path, serve: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let driver = scope.spawn(|| {
            let result = load(folder, &ended);
            // Whatever happened, the server must not outlive its run.
            stop(folder, &ended);
            result
        });
        let served = serve();
        ended.store(true, Ordering::Release);
        let driven = driver
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the driver of the server panicked")));
        served.and_then(|served| driven.map(|()| served))
    })
}

fn load(folder: &Path, ended: &AtomicBool) -> io::Result<()> {
    let start = Instant::now();
    while UnixStream::connect(folder.join("redis.sock")).is_err() {
        if ended.load(Ordering::Acquire) {
            return Err(io::Error::other(
                "the server ended before it was asked for anything",
            ));
        }
        if start.elapsed() > PATIENCE {
            return Err(io::Error::other("the server does not listen"));
        }
        thread::sleep(Duration::from_millis(5));
    }
    let output = client(folder, "redis-benchmark")?
        .args([
            "-q", "-n", "100000", "-c", "8", "-P", "16", "-r", "50000", "-d", "120",
        ])
        .args([
            "-t",
            "set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,mset",
        ])
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io::Error::other(format!(
        "redis-benchmark: {}: {errors}",
        output.status
    )))
}

/// Asks the server to end, and ends it if it does not listen.
fn stop(folder: &Path, ended: &AtomicBool) {
    if ended.load(Ordering::Acquire) {
        return;
    }
    let asked = client(folder, "redis-cli").and_then(|mut command| {
        command
            .args(["shutdown", "nosave"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
    });
    // It says nothing when it obeys; a server that cannot be reached is deaf or gone.
    let obeyed = asked.is_ok_and(|status| status.success());
    if obeyed || ended.load(Ordering::Acquire) {
        return;
    }
    let id = std::fs::read_to_string(folder.join("redis.pid"))
        .ok()
        .and_then(|text| text.trim().parse().ok());
    if let Some(id) = id.filter(|id| *id > 1) {
        // SAFETY: takes two numbers. The process wrote its id into this run's own folder, and has
        // not been reaped: `ended` would be set. Without an id, the alarm that the run was started
        // with ends it.
        unsafe { libc::kill(id, libc::SIGKILL) };
    }
}

/// A client of the server, on the system's allocator.
fn client(folder: &Path, name: &str) -> io::Result<Command> {
    let path = find(name).ok_or_else(|| io::Error::other(format!("{name} is not installed")))?;
    let mut command = Command::new(path);
    // A relative path: the whole one may be longer than the address of a socket can be.
    command
        .current_dir(folder)
        .args(["-s", "redis.sock"])
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null());
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_ends_at_once_does_not_hold_up_its_driver() {
        let folder = tempfile::tempdir().expect("a folder");
        let result = drive(folder.path(), || Ok(()));
        let error = result.expect_err("nobody was there to be driven");
        assert!(error.to_string().contains("ended before"), "{error}");
    }
}
