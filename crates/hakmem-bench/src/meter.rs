//! The measured part of a workload: time, faults, and marks that a tracer can see.

use std::fs;
use std::time::{Duration, Instant};

/// First argument of the marking system call: nothing else passes it.
pub const MARK: u64 = 0x6861_6b6d_656d;
/// Second argument of the mark where the measurement starts.
pub const MARK_START: u64 = 1;
/// Second argument of the mark where it ends.
pub const MARK_STOP: u64 = 2;

/// Takes one measurement. What a workload does before and after is not in it.
#[derive(Debug, Default)]
pub struct Meter {
    /// How long the measured part took.
    pub time: Duration,
    /// Page faults in it, minor and major.
    pub faults: u64,
    /// Resident KiB when it began.
    pub rss_start_kib: u64,
    /// Further figures, if the workload has any.
    pub figures: Vec<(&'static str, f64)>,
}

impl Meter {
    /// Runs and measures `work`.
    pub fn measure<R>(&mut self, work: impl FnOnce() -> R) -> R {
        self.rss_start_kib = status_kib("VmRSS:").unwrap_or(0);
        let faults = page_faults();
        mark(MARK_START);
        let start = Instant::now();
        let result = work();
        self.time = start.elapsed();
        mark(MARK_STOP);
        self.faults = page_faults() - faults;
        result
    }
}

/// A system call without effect that a tracer recognises by its arguments (the call itself takes
/// none).
fn mark(phase: u64) {
    // SAFETY: getppid reads nothing from its caller.
    unsafe { libc::syscall(libc::SYS_getppid, MARK, phase) };
}

fn page_faults() -> u64 {
    // SAFETY: rusage is plain data, for which zeroes are a value; getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    (usage.ru_minflt + usage.ru_majflt) as u64
}

/// A field of `/proc/self/status` that is given in kB; `None` where there is no such file.
pub fn status_kib(field: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_the_measured_part_are_counted() {
        let mut meter = Meter::default();
        meter.measure(|| {
            let mut block = crate::heap::Heap::<std::alloc::System>::new().block(8 << 20);
            block.write_every(0, 4096);
        });
        // With huge pages there may be few, but never none.
        assert!(meter.faults > 0);
        assert!(meter.rss_start_kib > 0);
    }
}
