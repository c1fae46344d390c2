//! The parent's side of a probe of memory: looks at a process from outside, at fixed times.

use crate::child::{Capture, ending};
use crate::host;
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The time between two looks.
const TICK: Duration = Duration::from_millis(100);

/// What was seen: seconds, and resident MiB. Time 0 is when the process began to rest; before, it works.
pub type Points = Vec<(f64, f64)>;

/// Starts a probe of memory, watches it at work and for `idle` of its rest, and ends it. The last point is the one at
/// the end.
pub fn watch(command: &mut Command, idle: Duration) -> Result<Points, String> {
    let errors = Capture::new().map_err(|e| e.to_string())?;
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(errors.stdio().map_err(|e| e.to_string())?);
    host::touch().map_err(|e| e.to_string())?;
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let seen = follow(&mut child, idle);
    // Ends its rest; whatever it does instead, it gets no further.
    drop(child.stdin.take());
    if seen.is_err() {
        // It may have ended already, which is no error.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|e| e.to_string())?;
    match seen {
        Ok(points) if status.success() => Ok(points),
        Ok(_) => Err(ending(status)),
        Err(error) => {
            let words = errors.text().unwrap_or_default();
            Err(format!("{error} ({}) {}", ending(status), words.trim()))
        }
    }
}

fn follow(child: &mut Child, idle: Duration) -> io::Result<Points> {
    let start = Instant::now();
    let mut looks: Vec<(Instant, f64)> = Vec::new();
    let mut output = child.stdout.take().expect("it was piped");
    for tick in 1.. {
        let due = start + TICK * tick;
        if readable(
            output.as_raw_fd(),
            due.saturating_duration_since(Instant::now()),
        )? {
            break;
        }
        looks.push((Instant::now(), resident_mib(child.id())?));
    }
    if output.read(&mut [0])? == 0 {
        return Err(io::Error::other("it ended before it had done its work"));
    }
    let rest = Instant::now();
    looks.push((rest, resident_mib(child.id())?));
    let mut after = Duration::ZERO;
    while after < idle {
        after = (after + TICK).min(idle);
        thread::sleep((rest + after).saturating_duration_since(Instant::now()));
        looks.push((Instant::now(), resident_mib(child.id())?));
    }
    let seconds = |at: Instant| match at.checked_duration_since(rest) {
        Some(after) => after.as_secs_f64(),
        None => -(rest - at).as_secs_f64(),
    };
    Ok(looks
        .into_iter()
        .map(|(at, mib)| (seconds(at), mib))
        .collect())
}

/// Waits until there is something to read, or nothing more will come. `false` if the time is over before.
fn readable(fd: i32, timeout: Duration) -> io::Result<bool> {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure, alive during the call.
    let ready = unsafe { libc::poll(&raw mut poll, 1, timeout.as_millis() as libc::c_int) };
    if ready >= 0 {
        return Ok(ready > 0);
    }
    match io::Error::last_os_error() {
        e if e.kind() == io::ErrorKind::Interrupted => Ok(false),
        e => Err(e),
    }
}

/// The resident memory of a process.
fn resident_mib(process: u32) -> io::Result<f64> {
    let statm = fs::read_to_string(format!("/proc/{process}/statm"))?;
    let pages = statm
        .split_whitespace()
        .nth(1)
        .and_then(|f| f.parse::<u64>().ok());
    let pages = pages.ok_or_else(|| io::Error::other("statm cannot be read"))?;
    // SAFETY: takes a number and returns one.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Ok(pages as f64 * page as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, idle: Duration) -> Result<Points, String> {
        watch(Command::new("sh").args(["-c", script]), idle)
    }

    #[test]
    fn a_process_is_seen_at_rest_until_the_end_of_the_time() {
        let idle = Duration::from_millis(150);
        let points = shell("echo; read x; exit 0", idle).expect("it rests and ends");
        let at_rest: Vec<_> = points.iter().filter(|(at, _)| *at >= 0.0).collect();
        assert_eq!(at_rest.len(), 3, "{points:?}");
        assert!(points.last().is_some_and(|(at, _)| *at >= 0.15));
        assert!(points.iter().all(|(_, mib)| *mib > 0.0));
    }

    #[test]
    fn a_process_that_ends_too_early_or_badly_is_an_error() {
        let early = shell("echo reason >&2; exit 3", Duration::ZERO);
        let early = early.expect_err("it did no work");
        assert!(
            early.contains("exit 3") && early.contains("reason"),
            "{early}"
        );
        let bad = shell("echo; read x; exit 4", Duration::ZERO);
        assert_eq!(bad, Err("exit 4".to_owned()));
    }
}
