//! Runs single tests, and stops a test whose mutant loops, waits for ever, or takes all memory.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed,
    /// The test took more than its time, or waited for ever.
    Hung,
}

/// How much writable memory a test may have. Reserved memory does not count.
const MOST_MEMORY: u64 = 3 << 30;
/// How long all threads of a test may sleep at once.
const MOST_AT_ONCE: Duration = Duration::from_secs(2);
/// The longest time between two checks of a test.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The names of a program's tests.
pub fn names(program: &Path) -> io::Result<Vec<String>> {
    let output = Command::new(program).args(["--list", "--format", "terse"]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|l| l.strip_suffix(": test").map(str::to_owned)).collect())
}

/// Seconds that a test took, or may take.
#[derive(Debug, Clone, Copy)]
pub struct Seconds {
    /// Of a processor. Others may use the machine, or stop the test for a while: the clock does not
    /// count.
    pub busy: f64,
    /// In which it was looked at, and nobody of it wanted a processor.
    pub asleep: f64,
}

/// Runs a test with a mutant switched on, or, with 0, none. `reached`: the file where it notes the
/// mutants that it reaches. Also returns what it took.
pub fn run(
    program: &Path,
    test: &str,
    number: usize,
    most: Seconds,
    reached: Option<&Path>,
) -> io::Result<(Outcome, Seconds)> {
    let mut command = Command::new(program);
    command.args(["--exact", test, "--test-threads=1", "--quiet"]);
    command.env("TEST_HAKMEM_MUTANT", number.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(path) = reached {
        command.env("TEST_HAKMEM_REACHED", path);
    }
    // A group of its own, so that it can be ended with all its children.
    command.process_group(0);
    // SAFETY: setrlimit may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let limit = |most| libc::rlimit { rlim_cur: most, rlim_max: most };
            libc::setrlimit(libc::RLIMIT_CORE, &limit(0));
            libc::setrlimit(libc::RLIMIT_DATA, &limit(MOST_MEMORY));
            Ok(())
        });
    }
    let before = seconds_of_children();
    let mut child = command.spawn()?;
    let watched = watch(&mut child, most);
    // SAFETY: the group is the child's own. If nobody is left in it, nothing happens.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    child.wait()?;
    let (outcome, asleep) = watched?;
    Ok((outcome, Seconds { busy: seconds_of_children() - before, asleep }))
}

/// Also returns the seconds asleep.
fn watch(child: &mut Child, most: Seconds) -> io::Result<(Outcome, f64)> {
    let (mut pause, mut last) = (Duration::from_millis(2), -1.0);
    let (mut slept, mut at_once) = (Duration::ZERO, Duration::ZERO);
    loop {
        if let Some(status) = child.try_wait()? {
            let outcome = if status.success() { Outcome::Passed } else { Outcome::Failed };
            return Ok((outcome, slept.as_secs_f64()));
        }
        let (busy, asleep) = group(child.id());
        at_once = if busy == last && asleep { at_once } else { Duration::ZERO };
        last = busy;
        if busy > most.busy || slept.as_secs_f64() > most.asleep || at_once > MOST_AT_ONCE {
            return Ok((Outcome::Hung, slept.as_secs_f64()));
        }
        sleep(pause);
        if asleep {
            slept += pause;
            at_once += pause;
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Processor seconds of a process group, and whether none of its threads wants a processor.
fn group(id: u32) -> (f64, bool) {
    let (mut seconds, mut asleep) = (0.0, true);
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(stat) = fs::read_to_string(process.path().join("stat")) else { continue };
        // What follows the name, which may have spaces: state, parent, group, …
        let fields: Vec<&str> = stat.rsplit_once(") ").map_or(vec![], |s| s.1.split(' ').collect());
        if fields.get(2).and_then(|g| g.parse().ok()) != Some(id) {
            continue;
        }
        // Its own time and that of its children, as user and as system.
        let ticks: f64 = fields.iter().skip(11).take(4).filter_map(|t| t.parse::<f64>().ok()).sum();
        seconds += ticks / 100.0;
        let threads = fs::read_dir(process.path().join("task")).into_iter().flatten().flatten();
        asleep &= threads
            .map(|t| fs::read_to_string(t.path().join("stat")).unwrap_or_default())
            .all(|stat| stat.contains(") S ") || stat.contains(") Z "));
    }
    (seconds, asleep)
}

/// Processor seconds of the children that have ended.
fn seconds_of_children() -> f64 {
    // SAFETY: all zero bytes are an rusage, and getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
