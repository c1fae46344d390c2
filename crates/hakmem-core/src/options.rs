//! The options: `HAKMEM_NAME=value` in the environment, read once when the library starts.

use crate::guard::report;
use crate::os;
use crate::policy::{self, Foreign, Knob};
use core::ffi::{CStr, c_char};

/// What an option's value may be.
enum Values {
    /// A number in a range.
    Number(u32, u32),
    /// One of some words; the knob gets its place in the list.
    Word(&'static [&'static str]),
}

struct Choice {
    name: &'static str,
    knob: &'static Knob,
    values: Values,
}

const fn number(name: &'static str, knob: &'static Knob, from: u32, to: u32) -> Choice {
    Choice { name, knob, values: Values::Number(from, to) }
}

/// `HAKMEM_SCAVENGER=0` forbids the thread, any other number is the MiB at which it is made.
static CHOICES: [Choice; 12] = [
    number("CARVE_BYTES", &policy::CARVE_BYTES, 16, 65536),
    number("WAKE_FRACTION", &policy::WAKE_FRACTION, 1, 1024),
    number("SPARSE_BLOCKS", &policy::SPARSE_BLOCKS, 0, 255),
    number("RETAINED_PAGES", &policy::RETAINED_PAGES, 0, 1024),
    number("BATCH_BYTES", &policy::BATCH_BYTES, 0, 1 << 20),
    number("POPULATE_FROM_PAGES", &policy::POPULATE_FROM_PAGES, 0, u32::MAX),
    number("HUGE_FROM_SEGMENTS", &policy::HUGE_FROM_SEGMENTS, 0, u32::MAX),
    number("DECAY_MS", &policy::DECAY_MS, 0, 86_400_000),
    number("SCAVENGER", &policy::SCAVENGE_MIB, 0, 1 << 20),
    number("PROFILE_INTERVAL", &policy::PROFILE_INTERVAL, 1, 1 << 30),
    number("FOREIGN_REPORT", &policy::FOREIGN_REPORT, 0, u32::MAX),
    Choice { name: "FOREIGN", knob: &policy::FOREIGN, values: Values::Word(&["forward", "leak", "abort"]) },
];
const _: () = assert!(Foreign::Abort as u32 == 2);

/// Options that are not the core's: the statistics' and the C library's.
const OTHERS: [&str; 4] = ["STATS", "STATS_SIGNAL", "PROFILE", "PROFILE_SIGNAL"];

/// Reads the options; an unknown name or a bad value is named on standard error and ignored.
///
/// # Safety
/// `envp` is NULL or a NULL-terminated array of C strings.
pub unsafe fn read(envp: *const *const c_char) {
    if envp.is_null() {
        return;
    }
    let mut at = envp;
    // SAFETY: up to the terminating NULL.
    while let Some(entry) = unsafe { at.read().as_ref() } {
        // SAFETY: a C string of the environment.
        let entry = unsafe { CStr::from_ptr(entry) }.to_bytes();
        if let Some(option) = entry.strip_prefix(b"HAKMEM_") {
            apply(option);
        }
        at = at.wrapping_add(1);
    }
}

fn apply(option: &[u8]) {
    let text = core::str::from_utf8(option).unwrap_or("?");
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    if name == "TIMING" && matches!(value, "0" | "1") {
        return os::set_timing(value == "1");
    }
    if OTHERS.contains(&name) {
        return;
    }
    let Some(choice) = CHOICES.iter().find(|c| c.name == name) else {
        return report(format_args!("unknown option HAKMEM_{name}, ignored"));
    };
    let meant = match &choice.values {
        Values::Number(from, to) => value.parse().ok().filter(|n| (from..=to).contains(&n)),
        Values::Word(words) => words.iter().position(|w| *w == value).map(|i| i as u32),
    };
    match (meant, &choice.values) {
        (Some(n), _) => choice.knob.set(n),
        (None, Values::Number(from, to)) => {
            report(format_args!("HAKMEM_{name}={value} ignored: not a number from {from} to {to}"));
        }
        (None, Values::Word(words)) => {
            report(format_args!("HAKMEM_{name}={value} ignored: not one of {words:?}"));
        }
    }
}
