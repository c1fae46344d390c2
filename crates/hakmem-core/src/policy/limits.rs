//! The limits of the memory that hakmem holds, and the pressure on the system's memory.
//!
//! Rules
//! 1. Files are read at the start, when the program sets an option, and by the scavenger, never on
//!    a slow path of the program: a sandbox that was made for glibc's malloc may forbid it.
//! 2. What the files said last holds until they are read again.

use super::{DECAY_MS, HARD_LIMIT_MIB, LIMIT_PERCENT, PRESSURE_PERCENT, SOFT_LIMIT_MIB};
use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::{AtomicBool, AtomicU32, AtomicUsize};
use crate::os::{self, cgroup};

/// What the cgroups allow, in bytes; `usize::MAX`: no limit, or unknown.
static ALLOWED: AtomicUsize = AtomicUsize::new(usize::MAX);
/// True while tasks wait for memory.
#[unsafe(link_section = ".data.hakmem")]
static PRESSED: AtomicBool = AtomicBool::new(false);
/// When the files were read last, in coarse milliseconds. 0: never.
static READ: AtomicU32 = AtomicU32::new(0);

/// The milliseconds between two readings of the files.
const PACE_MS: u32 = 1_000;
/// Under pressure the decay is so many times shorter.
const SHORTER: u32 = 20;

/// The bytes that `mib` stand for; `usize::MAX` for 0, which is no limit.
#[inline(always)]
fn limit_of(mib: u32) -> usize {
    if mib == 0 { usize::MAX } else { (mib as usize) << 20 }
}

/// The hard limit in bytes; `usize::MAX`: none.
#[inline(always)]
pub fn hard() -> usize {
    limit_of(HARD_LIMIT_MIB.get())
}

/// The soft limit in bytes, the lower one if there are two; `usize::MAX`: none.
#[inline(always)]
pub fn soft() -> usize {
    let own = limit_of(SOFT_LIMIT_MIB.get());
    match LIMIT_PERCENT.get() {
        0 => own,
        percent => own.min(share(percent)),
    }
}

/// `percent` of what the cgroups allow; `usize::MAX`: no limit, or unknown.
#[cold]
fn share(percent: u32) -> usize {
    match ALLOWED.load(Relaxed) {
        usize::MAX => usize::MAX,
        allowed => allowed / 100 * percent as usize,
    }
}

/// The decay in ms: the option, or a part of it while there is pressure.
pub fn decay() -> u32 {
    let decay = DECAY_MS.get();
    if PRESSED.load(Relaxed) { decay / SHORTER } else { decay }
}

/// Reads the files that options ask for (rule 1).
pub fn read() {
    read_from(&cgroup::Real);
}

/// [`read`], if the last reading is long enough ago.
pub fn read_at_times(now: u32) {
    let last = READ.load(Relaxed);
    if last == 0 || os::age(now, last) >= PACE_MS {
        READ.store(now.max(1), Relaxed);
        read();
    }
}

fn read_from(files: &impl cgroup::Files) {
    if LIMIT_PERCENT.get() != 0 {
        let allowed = cgroup::memory_limit(files).and_then(|bytes| usize::try_from(bytes).ok());
        ALLOWED.store(allowed.unwrap_or(usize::MAX), Relaxed);
    }
    let percent = PRESSURE_PERCENT.get();
    let is_pressed =
        percent != 0 && cgroup::pressure(files).is_some_and(|now| now >= percent * 100);
    PRESSED.store(is_pressed, Relaxed);
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    use super::*;
    use crate::testing::in_child;
    use core::ffi::CStr;

    /// A system with one cgroup.
    struct System {
        max: &'static str,
        pressure: &'static str,
    }

    impl cgroup::Files for System {
        fn each_line(&self, name: &CStr, f: &mut dyn FnMut(&[u8])) {
            match name.to_bytes() {
                b"/proc/self/cgroup" => f(b"0::/"),
                b"/proc/self/mountinfo" => f(b"1 1 0:1 / /cg rw - cgroup2 none rw"),
                b"/cg/memory.max" => f(self.max.as_bytes()),
                b"/proc/pressure/memory" => f(self.pressure.as_bytes()),
                _ => {}
            }
        }
    }

    #[test]
    fn the_lower_soft_limit_counts() {
        in_child(|| {
            let read = |max| read_from(&System { max, pressure: "" });
            assert_eq!((soft(), hard()), (usize::MAX, usize::MAX), "no limit unless asked");
            read("1000");
            LIMIT_PERCENT.set(80);
            assert_eq!(soft(), usize::MAX, "unknown yet");
            read("209715200");
            assert_eq!(soft(), 160 << 20);
            SOFT_LIMIT_MIB.set(100);
            assert_eq!(soft(), 100 << 20);
            SOFT_LIMIT_MIB.set(200);
            assert_eq!(soft(), 160 << 20);
            read("max");
            assert_eq!(soft(), 200 << 20);
            HARD_LIMIT_MIB.set(3);
            assert_eq!(hard(), 3 << 20);
        });
    }

    #[test]
    fn pressure_makes_the_decay_short() {
        in_child(|| {
            let read = |pressure| read_from(&System { max: "max", pressure });
            read("some avg10=99.00 avg60=0.00");
            assert_eq!(decay(), 500, "not asked for");
            PRESSURE_PERCENT.set(10);
            read("some avg10=9.99 avg60=0.00");
            assert_eq!(decay(), 500);
            read("some avg10=10.00 avg60=0.00");
            assert_eq!(decay(), 25);
            read("nothing");
            assert_eq!(decay(), 500);
        });
    }
}
