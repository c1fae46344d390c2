//! The processes that come from one: found, looked into, ended.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Nothing is started any more, and no result counts.
static STOPPING: AtomicBool = AtomicBool::new(false);
/// Held while a process is started, so that none starts after the last was ended.
static STARTING: Mutex<()> = Mutex::new(());

/// Starts a process, unless all are being ended: then this thread goes no further.
pub fn start(command: &mut Command) -> io::Result<Child> {
    {
        let _held = STARTING.lock().unwrap_or_else(|e| e.into_inner());
        if !STOPPING.load(Ordering::SeqCst) {
            return command.spawn();
        }
    }
    stay_if_stopping();
    Err(io::Error::other("being ended"))
}

/// Waits for the end of this process if that has been decided.
pub fn stay_if_stopping() {
    while STOPPING.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// Ends all processes below this one, and sees that no further one is started.
pub fn stop() {
    STOPPING.store(true, Ordering::SeqCst);
    let _held = STARTING.lock().unwrap_or_else(|e| e.into_inner());
    end_all();
}

/// What one look at a tree of processes showed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Processes whose maps could be read.
    pub processes: usize,
    /// Maps of that which has most.
    pub maps: usize,
    /// Peak resident KiB of that with most.
    pub peak_rss_kib: u64,
    /// Whether one of them has the library mapped.
    pub mapped: bool,
}

impl Look {
    /// Keeps the larger of each.
    pub fn merge(&mut self, other: Self) {
        self.processes = self.processes.max(other.processes);
        self.maps = self.maps.max(other.maps);
        self.peak_rss_kib = self.peak_rss_kib.max(other.peak_rss_kib);
        self.mapped |= other.mapped;
    }
}

/// All processes below `process`, parents before children. Those that end or begin meanwhile may be
/// missed.
pub fn below(process: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut next = vec![process];
    while let Some(parent) = next.pop() {
        let Ok(tasks) = fs::read_dir(format!("/proc/{parent}/task")) else {
            continue;
        };
        for task in tasks.flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            for child in children.split_whitespace().filter_map(|id| id.parse().ok()) {
                found.push(child);
                next.push(child);
            }
        }
    }
    found
}

/// Looks at all processes below this one.
pub fn look(library: Option<&Path>) -> Look {
    let mut all = Look::default();
    for process in below(std::process::id()) {
        // Paths in maps can be any bytes.
        let Ok(maps) = fs::read(format!("/proc/{process}/maps")) else {
            continue;
        };
        if maps.is_empty() {
            continue;
        }
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        all.merge(Look {
            processes: 0,
            maps: maps.iter().filter(|b| **b == b'\n').count(),
            peak_rss_kib: high_water(&status).unwrap_or(0),
            mapped: library.is_some_and(|path| has(&maps, path.as_os_str().as_encoded_bytes())),
        });
        all.processes += 1;
    }
    all
}

fn high_water(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

fn has(maps: &[u8], path: &[u8]) -> bool {
    maps.split(|b| *b == b'\n').any(|line| line.ends_with(path))
}

/// Makes this process the parent of all below it whose own parent ends: nothing that was started
/// gets away.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: a system call that takes numbers.
    match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends all processes below this one and waits for them. Returns how many there were.
pub fn end_all() -> usize {
    let mut ended = 0;
    loop {
        let left = below(std::process::id());
        for process in &left {
            // SAFETY: takes two numbers. The process is a descendant: its id is not given out again
            // before its parent has waited for it, and if that has happened since, the worst is a
            // signal to nobody we know of; both lie microseconds apart.
            unsafe { libc::kill(*process as libc::pid_t, libc::SIGKILL) };
        }
        // Those of which this process is the parent, or became it.
        // SAFETY: asks for no status; takes numbers and a null pointer, which is allowed.
        while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {
            ended += 1;
        }
        if left.is_empty() {
            return ended;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_by_the_end_of_a_line() {
        let maps = b"7f00-7f01 r-xp 0 fe:00 12 /lib/libx.so\n7f02-7f03 rw-p 0 00:00 0\n";
        assert!(has(maps, b"/lib/libx.so"));
        assert!(!has(maps, b"/lib/liby.so"));
        assert!(!has(maps, b"/lib/libx"));
    }

    #[test]
    fn a_peak_is_read() {
        assert_eq!(
            high_water("VmPeak:\t 9 kB\nVmHWM:\t    5312 kB\n"),
            Some(5312)
        );
        assert_eq!(high_water("Name: x\n"), None);
    }
}
