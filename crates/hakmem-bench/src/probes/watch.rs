//! The parent's side of a probe of memory: looks at a process from outside, at fixed times.

use super::stage::Stage;
use crate::child::{self, Capture, ending};
use std::fs;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const MIB: f64 = (1 << 20) as f64;
/// The time between two looks.
const TICK: Duration = Duration::from_millis(100);

/// Seconds, and resident MiB without the probe's own tables. Time 0 is when the process began its
/// last rest; before, it works.
pub type Points = Vec<(f64, f64)>;

/// What was seen of a process.
#[derive(Debug, PartialEq)]
pub struct Seen {
    /// Memory over time, until the end of its last rest.
    pub points: Points,
    /// What it said at the end of each stage, and the resident MiB without its tables at the end of
    /// its rest.
    pub stages: Vec<(Stage, f64)>,
}

/// Starts a probe of memory and watches it at work and for `idle` of each rest.
pub fn watch(command: &mut Command, idle: Duration) -> Result<Seen, String> {
    let errors = Capture::new().map_err(|e| e.to_string())?;
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(errors.stdio().map_err(|e| e.to_string())?);
    let mut running = child::start(command).map_err(|e| e.to_string())?;
    let seen = follow(&mut running.child, idle);
    if seen.is_err() {
        // It may have ended already, which is no error.
        let _ = running.child.kill();
    }
    let status = running.end().map_err(|e| e.to_string())?.status;
    match seen {
        Ok(seen) if status.success() => Ok(seen),
        Ok(_) => Err(ending(status)),
        Err(error) => {
            let words = errors.text().unwrap_or_default();
            Err(format!("{error} ({}) {}", ending(status), words.trim()))
        }
    }
}

fn follow(child: &mut Child, idle: Duration) -> io::Result<Seen> {
    let mut input = child.stdin.take().expect("it was piped");
    let mut output = child.stdout.take().expect("it was piped");
    let mut looks = Looks::new(child.id());
    let mut stages = Vec::new();
    loop {
        looks.until_readable(&output)?;
        let Some(stage) = Stage::read(&mut output)? else {
            break;
        };
        stages.push((stage, looks.during_rest(stage, idle)?));
        // Ends its rest.
        input.write_all(b"\n")?;
    }
    if stages.is_empty() {
        return Err(io::Error::other("it ended before it had done its work"));
    }
    let points = looks.points();
    Ok(Seen { points, stages })
}

/// Looks at a process at fixed times.
struct Looks {
    process: u32,
    /// Of all stages that have ended, then of the present one.
    seen: Vec<(Instant, f64)>,
    /// How many are of stages that have ended.
    counted: usize,
    /// When the last rest began.
    rest: Instant,
}

impl Looks {
    fn new(process: u32) -> Self {
        Self {
            process,
            seen: Vec::new(),
            counted: 0,
            rest: Instant::now(),
        }
    }

    fn look(&mut self) -> io::Result<()> {
        self.seen
            .push((Instant::now(), resident_mib(self.process)?));
        Ok(())
    }

    /// Looks on while the process works.
    fn until_readable(&mut self, output: &impl AsRawFd) -> io::Result<()> {
        let start = Instant::now();
        for tick in 1.. {
            let due = start + TICK * tick;
            let timeout = due.saturating_duration_since(Instant::now());
            if readable(output.as_raw_fd(), timeout)? {
                break;
            }
            self.look()?;
        }
        Ok(())
    }

    /// Looks on for `idle`; what is resident at its end, without the tables.
    fn during_rest(&mut self, stage: Stage, idle: Duration) -> io::Result<f64> {
        self.rest = Instant::now();
        self.look()?;
        let mut after = Duration::ZERO;
        while after < idle {
            after = (after + TICK).min(idle);
            thread::sleep((self.rest + after).saturating_duration_since(Instant::now()));
            self.look()?;
        }
        let tables = stage.tables as f64 / MIB;
        for (_, mib) in &mut self.seen[self.counted..] {
            // At first the tables are not there yet.
            *mib = (*mib - tables).max(0.0);
        }
        self.counted = self.seen.len();
        Ok(self.seen.last().map_or(f64::NAN, |(_, mib)| *mib))
    }

    fn points(&self) -> Points {
        let seconds = |at: Instant| match at.checked_duration_since(self.rest) {
            Some(after) => after.as_secs_f64(),
            None => -(self.rest - at).as_secs_f64(),
        };
        // What came after the last rest is the end of the process.
        let seen = self.seen[..self.counted].iter();
        seen.map(|(at, mib)| (seconds(*at), *mib)).collect()
    }
}

/// Waits until there is something to read, or nothing more will come. `false` if the time is over
/// before.
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
    Ok(pages as f64 * page as f64 / MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, idle: Duration) -> Result<Seen, String> {
        watch(Command::new("sh").args(["-c", script]), idle)
    }

    #[test]
    fn a_process_is_seen_at_rest_until_the_end_of_the_time() {
        let idle = Duration::from_millis(150);
        let seen = shell("echo 0 0 0; read x; exit 0", idle).expect("it rests and ends");
        let points = seen.points;
        let at_rest: Vec<_> = points.iter().filter(|(at, _)| *at >= 0.0).collect();
        assert_eq!(at_rest.len(), 3, "{points:?}");
        assert!(points.last().is_some_and(|(at, _)| *at >= 0.15));
        assert!(points.iter().all(|(_, mib)| *mib > 0.0));
        assert_eq!(seen.stages.len(), 1);
        assert_eq!(seen.stages[0].1, points.last().expect("a point").1);
    }

    #[test]
    fn a_process_that_ends_too_early_or_badly_is_an_error() {
        let early = shell("echo reason >&2; exit 3", Duration::ZERO);
        let early = early.expect_err("it did no work");
        assert!(
            early.contains("exit 3") && early.contains("reason"),
            "{early}"
        );
        let bad = shell("echo 0 0 0; read x; exit 4", Duration::ZERO);
        assert_eq!(bad, Err("exit 4".to_owned()));
    }

    #[test]
    fn each_stage_is_seen_and_tables_do_not_count() {
        // No shell is so large that anything would remain.
        let script = "echo 1 4096 0; read x; sleep 0.3; echo 2 0 1000000000000; read x; sleep 0.3";
        let seen = shell(script, Duration::ZERO).expect("two stages");
        let live: Vec<u64> = seen.stages.iter().map(|(stage, _)| stage.live).collect();
        assert_eq!(live, [1, 2]);
        assert!(seen.stages[0].1 > 0.0 && seen.stages[1].1 == 0.0);
        let (last, _) = seen.points.last().expect("a point");
        assert!(*last < 0.2, "nothing after the last rest counts");
    }
}
