//! The figures of the process, as lines for people and as JSON.

use crate::out::Text;
use core::fmt::{self, Display, Write};
use hakmem_core::stats::Stats;

/// Room for either form: eight kinds of system calls at under 100 bytes, and the totals.
pub type Buffer = Text<3072>;

/// What the system says about the process.
#[derive(Clone, Copy, Default)]
pub struct Usage {
    pub peak_resident_kib: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
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
            peak_resident_kib: high_water_mark().unwrap_or(usage.ru_maxrss as u64),
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
        }
    }
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

fn pid() -> i32 {
    // SAFETY: no preconditions.
    unsafe { libc::getpid() }
}

/// The line of the constructor: hakmem is in the process. One without an exit line ended without running exit handlers.
pub fn load_line() -> Buffer {
    let mut text = Buffer::new();
    let _ = writeln!(text, r#"{{"schema":1,"event":"load","pid":{}}}"#, pid());
    text
}

/// The line of the exit handler.
pub fn exit_line(stats: &Stats, usage: &Usage) -> Buffer {
    let mut text = Buffer::new();
    // Writing into a Text never fails.
    let _ = json(&mut text, stats, usage);
    text
}

fn json(out: &mut Buffer, s: &Stats, usage: &Usage) -> fmt::Result {
    write!(out, r#"{{"schema":1,"event":"exit","pid":{}"#, pid())?;
    for (name, value) in [
        ("allocations", s.allocations),
        ("frees", s.frees),
        ("live_bytes", s.live_bytes),
        ("peak_live_bytes", s.peak_live_bytes),
        ("reserved_bytes", s.reserved_bytes),
        ("committed_bytes", s.committed_bytes),
        ("dirty_bytes", s.dirty_bytes),
        ("purged_bytes", s.purged_bytes),
        ("foreign_frees", s.foreign_frees),
        ("heaps", s.heaps),
        ("peak_resident_kib", usage.peak_resident_kib),
        ("minor_faults", usage.minor_faults),
        ("major_faults", usage.major_faults),
    ] {
        write!(out, r#","{name}":{value}"#)?;
    }
    out.write_str(r#","syscalls":["#)?;
    let mut comma = "";
    for call in s.syscalls.iter().filter(|call| !call.name.is_empty()) {
        let (name, calls, failures, nanos) = (call.name, call.calls, call.failures, call.nanos);
        write!(
            out,
            r#"{comma}{{"name":"{name}","calls":{calls},"failures":{failures},"nanos":{nanos}}}"#
        )?;
        comma = ",";
    }
    out.write_str("]}\n")
}

/// Bytes in a unit that suits them, with one decimal.
struct Bytes(u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shift, unit) = match self.0 {
            0..1024 => return write!(f, "{} B", self.0),
            0x400..0x10_0000 => (10, "KiB"),
            0x10_0000..0x4000_0000 => (20, "MiB"),
            _ => (30, "GiB"),
        };
        write!(
            f,
            "{}.{} {unit}",
            self.0 >> shift,
            ((self.0 >> (shift - 10)) & 1023) * 10 / 1024
        )
    }
}

/// The report for people.
pub fn human_lines(s: &Stats, usage: &Usage) -> Buffer {
    let mut text = Buffer::new();
    // Writing into a Text never fails.
    let _ = human(&mut text, s, usage);
    text
}

fn human(out: &mut Buffer, s: &Stats, usage: &Usage) -> fmt::Result {
    let version = env!("CARGO_PKG_VERSION");
    writeln!(
        out,
        "hakmem {version}, process {}: {} allocations, {} frees, {} frees of foreign pointers",
        pid(),
        s.allocations,
        s.frees,
        s.foreign_frees
    )?;
    let (live, peak) = (Bytes(s.live_bytes), Bytes(s.peak_live_bytes));
    writeln!(
        out,
        "hakmem: live {live}, at most {peak}; thread heaps made: {}",
        s.heaps
    )?;
    writeln!(
        out,
        "hakmem: committed {} of {} reserved; free but kept {}, given back so far {}",
        Bytes(s.committed_bytes),
        Bytes(s.reserved_bytes),
        Bytes(s.dirty_bytes),
        Bytes(s.purged_bytes)
    )?;
    writeln!(
        out,
        "hakmem: peak resident {}; page faults: {} minor, {} major",
        Bytes(usage.peak_resident_kib << 10),
        usage.minor_faults,
        usage.major_faults
    )?;
    out.write_str("hakmem: system calls:")?;
    let mut separator = "";
    for call in s.syscalls.iter().filter(|call| !call.name.is_empty()) {
        write!(out, "{separator} {} {}", call.name, call.calls)?;
        if call.failures != 0 {
            write!(out, " ({} failed)", call.failures)?;
        }
        if call.nanos != 0 {
            write!(out, " in {} µs", call.nanos / 1000)?;
        }
        separator = ",";
    }
    out.write_str(if separator.is_empty() {
        " none\n"
    } else {
        "\n"
    })
}
