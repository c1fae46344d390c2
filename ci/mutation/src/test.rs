//! Runs single tests, with a watch on what a mutant may do: loop, wait for ever, take all memory.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A test of a test program.
#[derive(Debug, Clone)]
pub struct Test {
    pub program: PathBuf,
    pub name: String,
    /// Processor seconds that it takes without a mutant.
    pub seconds: f64,
    /// The mutants that it reaches.
    pub reached: Vec<bool>,
    /// Mutants that it was tried on, and those of them that it caught.
    pub tried: u32,
    pub caught: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed,
    /// It took ten times as long as without a mutant, or waited for ever.
    Hung,
}

const MOST_MEMORY: u64 = 3 << 30;

pub fn names(program: &Path) -> Vec<String> {
    let out = Command::new(program).args(["--list", "--format", "terse"]).output().expect("a test program lists its tests");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.lines().filter_map(|l| l.strip_suffix(": test").map(str::to_owned)).collect()
}

impl Test {
    /// What it catches in a second, as far as is known: the best is tried first.
    pub fn worth(&self) -> f64 {
        f64::from(self.caught + 1) / f64::from(self.tried + 1) / (self.seconds + 0.05)
    }

    /// Runs it with `number` on; 0: with none. `reached`: where to write what it reached. Also returns the processor
    /// seconds it took.
    pub fn run(&self, number: usize, under: &[String], reached: Option<&Path>) -> (Outcome, f64) {
        let mut words = under.iter().map(String::as_str).chain(self.program.to_str());
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).args(["--exact", &self.name, "--test-threads=1", "--quiet"]);
        command.env("HAKMEM_MUTANT", number.to_string()).env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(path) = reached {
            command.env("HAKMEM_REACHED", path);
        }
        command.process_group(0);
        // SAFETY: setrlimit may be called between fork and exec.
        unsafe {
            command.pre_exec(|| {
                let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
                // Of writable memory; what is only reserved does not count.
                let most = libc::rlimit { rlim_cur: MOST_MEMORY, rlim_max: MOST_MEMORY };
                libc::setrlimit(libc::RLIMIT_DATA, &raw const most);
                Ok(())
            });
        }
        let before = of_children();
        let mut child = command.spawn().expect("the test program starts");
        let outcome = self.watch(&mut child, if number == 0 { 1e9 } else { self.seconds * 10.0 + 3.0 });
        (outcome, of_children() - before)
    }

    fn watch(&self, child: &mut Child, most_seconds: f64) -> Outcome {
        let pid = child.id();
        let (mut pause, mut last, mut since, mut seconds) = (2, -1.0, Instant::now(), 0.0);
        let end = |child: &mut Child, outcome| {
            // SAFETY: the group is the child's own, which is not waited for yet.
            unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
            let _ = child.wait();
            outcome
        };
        loop {
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                return if status.success() { Outcome::Passed } else { Outcome::Failed };
            }
            if let Some(used) = usage(pid) {
                seconds = used;
            }
            let is_it = fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == self.program);
            if is_it {
                if seconds > most_seconds {
                    return end(child, Outcome::Hung);
                }
            }
            if !is_it || seconds != last || !all_asleep(pid) {
                (last, since) = (seconds, Instant::now());
            } else if since.elapsed() > Duration::from_secs(3) {
                return end(child, Outcome::Hung);
            }
            sleep(Duration::from_millis(pause));
            pause = (pause * 2).min(50);
        }
    }
}

/// Processor seconds so far, from /proc/PID/stat.
fn usage(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks / 100.0)
}

/// Processor seconds of the children that have ended.
fn of_children() -> f64 {
    // SAFETY: all zero bytes are an rusage, and getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// True if no thread wants a processor.
fn all_asleep(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.map(|t| fs::read_to_string(t.path().join("stat")).unwrap_or_default()).all(|stat| stat.contains(") S "))
}
