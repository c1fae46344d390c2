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

/// Faults and processor time from `/proc/self/stat`. 0 if there is no /proc.
fn by_file() -> Usage {
    /// The unit of the file's times is the same on all processors.
    const NANOS_PER_TICK: u64 = 10_000_000;
    let mut usage = Usage::default();
    os::each_line_of(c"/proc/self/stat", &mut |line| {
        // The program's name may have anything but a parenthesis at its end.
        let Some(end) = line.iter().rposition(|&b| b == b')') else { return };
        // The process's state is the first field behind it.
        let field = |i: usize| line[end + 1..].split(|&b| b == b' ').nth(i + 1).map_or(0, number);
        usage.minor_faults = field(7);
        usage.major_faults = field(9);
        usage.cpu_nanos = (field(11) + field(12)) * NANOS_PER_TICK;
    });
    usage
}

fn number(text: &[u8]) -> u64 {
    let digits = text.iter().filter(|b| b.is_ascii_digit());
    digits.fold(0, |n, &b| n * 10 + u64::from(b - b'0'))
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    extern crate std;
    use super::*;
    use std::{fs, vec};

    #[test]
    fn the_file_and_the_call_agree() {
        let file = "/proc/self/stat";
        assert!(fs::read_to_string(file).is_ok());
        let touched = vec![1_u8; 20 << 20];
        let (before, call, after) = (by_file(), Usage::now(), by_file());
        assert!(std::hint::black_box(&touched).len() > 1 && before.minor_faults > 0);
        assert!((before.minor_faults..=after.minor_faults).contains(&call.minor_faults));
        assert!((before.major_faults..=after.major_faults).contains(&call.major_faults));
        // The file counts whole ticks.
        assert!(before.cpu_nanos <= call.cpu_nanos + 20_000_000);
        assert!(call.cpu_nanos <= after.cpu_nanos + 20_000_000);
        assert!(call.peak_resident_kib >= 20 << 10);
    }
}
