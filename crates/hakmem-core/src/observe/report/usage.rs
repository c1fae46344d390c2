//! The figures of the process that the system keeps.

use crate::api::c;
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
    /// Asks the system. All figures are 0 in a process with a filter, which may end it for asking.
    pub fn now() -> Self {
        if c::is_filtered() {
            return Self::default();
        }
        let mut usage = core::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: `usage` is a local with room for the struct that getrusage writes.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
        // SAFETY: all fields are integers, and all bytes were zeroed. So it is valid in any case.
        let usage = unsafe { usage.assume_init() };
        Self {
            // ru_maxrss survives execve, so it may be a large parent's. VmHWM is this program's
            // own.
            peak_resident_kib: field::<2048>(b"VmHWM:").unwrap_or(usage.ru_maxrss as u64),
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
            cpu_nanos: nanos(usage.ru_utime) + nanos(usage.ru_stime),
        }
    }
}

fn nanos(t: libc::timeval) -> u64 {
    t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000
}

/// True unless the process is known to have no filter for its system calls.
pub fn may_be_filtered() -> bool {
    field::<8192>(b"Seccomp:") != Some(0)
}

/// The number after a name in the first `N` bytes of /proc/self/status. None: no such name there.
fn field<const N: usize>(name: &[u8]) -> Option<u64> {
    let mut buffer = [0u8; N];
    let fd = os::open(c"/proc/self/status", libc::O_RDONLY | libc::O_CLOEXEC).ok()?;
    let read = os::read(fd, &mut buffer);
    os::close(fd);
    let text = buffer.get(..read.ok()?)?;
    let line = text.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(name))?;
    let digits = line.iter().filter(|b| b.is_ascii_digit());
    Some(digits.fold(0, |n, &b| n * 10 + u64::from(b - b'0')))
}
