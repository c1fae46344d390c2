//! What the system says about the process.

use crate::cancel;

/// What the system says about the process.
#[derive(Clone, Copy, Default)]
pub struct Usage {
    pub peak_resident_kib: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// Time on processors, of the program and of the kernel for it.
    pub cpu_nanos: u64,
}

impl Usage {
    pub fn now() -> Self {
        let mut usage = core::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is valid for the struct to be written.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
        // SAFETY: all of its fields are integers; zeroes are valid.
        let usage = unsafe { usage.assume_init() };
        Self {
            // ru_maxrss survives execve, so it may be that of a large parent; VmHWM is this program's own.
            peak_resident_kib: cancel::held_off(high_water_mark).unwrap_or(usage.ru_maxrss as u64),
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
            cpu_nanos: nanos(usage.ru_utime) + nanos(usage.ru_stime),
        }
    }
}

fn nanos(t: libc::timeval) -> u64 {
    t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000
}

/// VmHWM of /proc/self/status, in KiB.
fn high_water_mark() -> Option<u64> {
    let mut buffer = [0u8; 2048];
    // SAFETY: open takes a C string; the read stays within the buffer; the descriptor is ours to close.
    let read = unsafe {
        let fd = libc::open(
            c"/proc/self/status".as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC,
        );
        if fd < 0 {
            return None;
        }
        let read = libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len());
        libc::close(fd);
        read
    };
    let text = buffer.get(..usize::try_from(read).ok()?)?;
    let line = text
        .split(|&b| b == b'\n')
        .find_map(|line| line.strip_prefix(b"VmHWM:"))?;
    let digits = line.iter().filter(|b| b.is_ascii_digit());
    Some(digits.fold(0, |n, &b| n * 10 + u64::from(b - b'0')))
}
