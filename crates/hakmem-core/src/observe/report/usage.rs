//! The figures of the process that the system keeps.

use crate::os;

/// The figures of the process that the system keeps.
#[derive(Clone, Copy, Default)]
pub struct Usage {
    pub peak_resident_kib: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// Processor time of the program, and of the kernel on its behalf.
    pub cpu_nanos: u64,
}

impl Usage {
    /// Asks the system. All figures are 0 in a process that made a filter, which may end it for
    /// asking. In one that inherited a filter, `cpu_nanos` is exact to 10 ms.
    pub fn now() -> Self {
        if os::is_filtered() {
            return Self::default();
        }
        if os::is_careful() {
            return Self { peak_resident_kib: peak().unwrap_or(0), ..by_file() };
        }
        let mut usage = core::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: `usage` is a local with room for the struct that getrusage writes.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
        // SAFETY: all fields are integers, and all bytes were zeroed. So it is valid in any case.
        let usage = unsafe { usage.assume_init() };
        Self {
            // ru_maxrss survives execve, so it may be a large parent's. VmHWM is this program's
            // own.
            peak_resident_kib: peak().unwrap_or(usage.ru_maxrss as u64),
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
            cpu_nanos: nanos(usage.ru_utime) + nanos(usage.ru_stime),
        }
    }
}

fn nanos(t: libc::timeval) -> u64 {
    t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000
}

/// The most KiB of the program that were ever resident. None: there is no /proc.
fn peak() -> Option<u64> {
    let mut peak = None;
    os::each_line_of(c"/proc/self/status", &mut |line| {
        if let Some(value) = line.strip_prefix(b"VmHWM:") {
            peak = Some(number(value));
        }
    });
    peak
}

/// The unit of the file's times, on x86-64 and aarch64.
const NANOS_PER_TICK: u64 = 10_000_000;

/// Faults and processor time from `/proc/self/stat`. 0 if there is no /proc.
fn by_file() -> Usage {
    // The program's name may have an end of a line: the figures are in the last one.
    let mut usage = Usage::default();
    os::each_line_of(c"/proc/self/stat", &mut |line| usage = in_line(line));
    usage
}

/// The figures in a line of that file. 0 if it has none.
fn in_line(line: &[u8]) -> Usage {
    // The program's name may have parentheses. What is behind it has none.
    let Some(end) = line.iter().rposition(|&b| b == b')') else { return Usage::default() };
    // The process's state is the first field behind it.
    let field = |i: usize| line[end + 1..].split(|&b| b == b' ').nth(i + 1).map_or(0, number);
    Usage {
        peak_resident_kib: 0,
        minor_faults: field(7),
        major_faults: field(9),
        cpu_nanos: (field(11) + field(12)) * NANOS_PER_TICK,
    }
}

fn number(text: &[u8]) -> u64 {
    let digits = text.iter().filter(|b| b.is_ascii_digit());
    digits.fold(0, |n, &b| n * 10 + u64::from(b - b'0'))
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    use super::*;
    use crate::testing::in_child;

    #[test]
    fn each_figure_has_its_own_field() {
        let line = b"123 (a) (b)) S 1 2 3 4 5 6 70 8 90 10 110 120 13 14 15 16 17 18";
        let usage = in_line(line);
        assert_eq!((usage.minor_faults, usage.major_faults), (70, 90));
        assert_eq!(usage.cpu_nanos, 2_300_000_000);
        assert_eq!(in_line(b"no such line").minor_faults, 0);
    }

    /// In a child: no other thread faults meanwhile.
    #[test]
    fn the_file_and_the_call_agree() {
        in_child(|| {
            let by_call = || {
                // SAFETY: all fields are integers, so all zero bytes are valid ones.
                let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
                // SAFETY: `usage` is a local with room for the struct that getrusage writes.
                assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) }, 0);
                (usage.ru_minflt as u64, nanos(usage.ru_utime) + nanos(usage.ru_stime))
            };
            while by_call().1 < 100_000_000 {}
            let (file, call) = (by_file(), by_call());
            assert!(file.minor_faults.abs_diff(call.0) <= 16, "{} {}", file.minor_faults, call.0);
            assert!(file.cpu_nanos.abs_diff(call.1) <= 30_000_000, "{} {}", file.cpu_nanos, call.1);
        });
    }
}
