//! Runs single tests, with a watch on what a mutant may do: loop, wait for ever, take all memory.

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
    /// It took more than its time, or waited for ever.
    Hung,
}

/// Writable memory that a test may have; what is only reserved does not count.
const MOST_MEMORY: u64 = 3 << 30;
/// Nobody of a test may sleep through more looks at it with nobody running: two seconds of them. The clock does not
/// count, which goes on where this program is stopped for a while along with the test.
const MOST_ASLEEP: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The names of a program's tests.
pub fn names(program: &Path) -> io::Result<Vec<String>> {
    let output = Command::new(program).args(["--list", "--format", "terse"]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|l| l.strip_suffix(": test").map(str::to_owned)).collect())
}

/// Runs a test with a mutant switched on, or, with 0, none. It may take `seconds` of a processor. `reached`: the file
/// where it notes the mutants that it reaches. Also returns the processor seconds that it took.
pub fn run(
    program: &Path,
    test: &str,
    number: usize,
    seconds: f64,
    reached: Option<&Path>,
) -> io::Result<(Outcome, f64)> {
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
    let watched = watch(&mut child, seconds);
    // SAFETY: the group is the child's own. If nobody is left in it, nothing happens.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    child.wait()?;
    Ok((watched?, seconds_of_children() - before))
}

/// Processor time is what counts: others may use the machine, or stop the test for a while.
fn watch(child: &mut Child, most_seconds: f64) -> io::Result<Outcome> {
    let (mut pause, mut last, mut slept) = (Duration::from_millis(2), -1.0, Duration::ZERO);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(if status.success() { Outcome::Passed } else { Outcome::Failed });
        }
        let (seconds, asleep) = group(child.id());
        if seconds > most_seconds {
            return Ok(Outcome::Hung);
        }
        if seconds != last || !asleep {
            (last, slept) = (seconds, Duration::ZERO);
        } else if slept > MOST_ASLEEP {
            return Ok(Outcome::Hung);
        }
        sleep(pause);
        slept += pause;
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
