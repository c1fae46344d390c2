//! Memory of the host, made ready before each measured run.
//!
//! A virtual machine may give memory that was free for a while back to its host. The next program
//! that touches it pays for that: a fault then costs several times more, whatever the allocator.
//! So a comparison can touch as much memory first, and free it right before the run. How much a
//! run needs is known once the same run has ended before.

use crate::storage;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The least bytes that are touched before each run; 0 if none are.
static LEAST: AtomicUsize = AtomicUsize::new(0);

/// Of the runs of this process.
static PEAKS: Mutex<Peaks> = Mutex::new(Peaks::new());

/// The peak memory of runs that have ended, by the words of their commands. What differs in the
/// environment alone, such as the preloaded library, is the same run here: its largest peak counts.
#[derive(Debug)]
struct Peaks(BTreeMap<Vec<OsString>, usize>);

impl Peaks {
    const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// A run of `command` had this peak, in bytes.
    fn note(&mut self, command: &Command, peak: usize) {
        let largest = self.0.entry(words(command)).or_default();
        *largest = peak.max(*largest);
    }

    /// The largest peak of this command so far, in bytes; 0 before its first run.
    fn of(&self, command: &Command) -> usize {
        self.0.get(&words(command)).copied().unwrap_or(0)
    }
}

/// The program and its arguments.
fn words(command: &Command) -> Vec<OsString> {
    let program = [command.get_program()].into_iter();
    program
        .chain(command.get_args())
        .map(OsStr::to_owned)
        .collect()
}

fn peaks() -> MutexGuard<'static, Peaks> {
    PEAKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has [`touch_for`] do something before each measured run: the value of `--warm-host` in MiB.
pub fn touch_before_each_run(mib: usize) {
    LEAST.store(mib << 20, Ordering::Relaxed);
}

/// A run of `command` has ended, and had this peak of resident KiB.
pub fn note_peak(command: &Command, kib: u64) {
    let bytes = usize::try_from(kib).unwrap_or(0).saturating_mul(1024);
    peaks().note(command, bytes);
}

/// Touches the bytes that were asked for, or as many as `command` took in an earlier run if that is
/// more, and gives them back.
pub fn touch_for(command: &Command) -> io::Result<()> {
    match LEAST.load(Ordering::Relaxed) {
        0 => Ok(()),
        least => touch(least.max(peaks().of(command))),
    }
}

fn touch(bytes: usize) -> io::Result<()> {
    /// One touch makes a huge page ready, as the host has it.
    const STEP: usize = 2 << 20;
    let memory = storage::map(bytes, libc::MAP_NORESERVE)?.as_ptr();
    // SAFETY: the mapping is this function's own, and `bytes` long.
    unsafe {
        libc::madvise(memory.cast(), bytes, libc::MADV_HUGEPAGE);
        for offset in (0..bytes).step_by(STEP) {
            memory.add(offset).write_volatile(1);
        }
        libc::munmap(memory.cast(), bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command
    }

    #[test]
    fn the_largest_peak_of_the_same_words_counts() {
        let mut peaks = Peaks::new();
        let run = command(&["run", "large", "--scale", "full"]);
        assert_eq!(peaks.of(&run), 0);
        for peak in [20, 30, 10] {
            peaks.note(&run, peak);
        }
        assert_eq!(peaks.of(&run), 30);
        // Words do not run together.
        for others in [
            &["run", "large", "--scale", "quick"][..],
            &["run", "large"],
            &["run", "large", "--scale full"],
            &["large", "--scale", "full"],
        ] {
            assert_eq!(peaks.of(&command(others)), 0, "{others:?}");
        }
    }

    #[test]
    fn a_library_in_the_environment_makes_no_other_run() {
        let mut peaks = Peaks::new();
        let mut run = command(&["sort", "words"]);
        peaks.note(run.env("LD_PRELOAD", "/lib/a.so"), 7);
        assert_eq!(peaks.of(run.env("LD_PRELOAD", "/lib/b.so")), 7);
    }
}
