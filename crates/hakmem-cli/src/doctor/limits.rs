//! The limits of a process: what `ulimit` sets, and what counts against it.

use super::finding::{Finding, Verdict};
use super::root::Root;
use crate::summary::bytes;

/// A process that uses more than so many per cent of a limit is near it.
const NEAR: u64 = 90;

/// A line of /proc/PID/limits, and what counts against it in /proc/PID/status.
struct Limit {
    line: &'static str,
    subject: &'static str,
    used: &'static str,
    meaning: &'static str,
    advice: &'static str,
}

const LIMITS: [Limit; 2] = [
    Limit {
        line: "Max address space",
        subject: "RLIMIT_AS",
        used: "VmSize",
        meaning: "Reserved address space counts against it, so hakmem reserves less here. A block \
                  just over 1 MiB takes 2 MiB of it.",
        advice: "Limit memory by a control group instead, or give a third more than with glibc.",
    },
    Limit {
        line: "Max data size",
        subject: "RLIMIT_DATA",
        used: "VmData",
        meaning: "Memory that can be written counts against it, used or not. Memory that hakmem \
                  gave back counts until a run of eight segments is free.",
        advice: "Limit memory by a control group instead.",
    },
];

/// The limits of a process; `self` is this one.
pub fn findings(root: &Root, process: &str) -> Vec<Finding> {
    let Some(text) = root.read(&format!("/proc/{process}/limits")) else {
        return Vec::new();
    };
    let used = |name| root.kib_field(&format!("/proc/{process}/status"), name);
    let mut all: Vec<_> = LIMITS
        .iter()
        .filter_map(|limit| {
            // What this process uses says nothing of a program that is not running yet.
            let used = (process != "self").then(|| used(limit.used)).flatten();
            Some(of(limit, soft(&text, limit.line)?, used))
        })
        .collect();
    all.extend(soft(&text, "Max locked memory").map(locked));
    all
}

/// The soft limit; `Some(None)`: there is none.
fn soft(text: &str, line: &str) -> Option<Option<u64>> {
    let rest = text.lines().find_map(|l| l.strip_prefix(line))?;
    match rest.split_ascii_whitespace().next()? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

fn of(limit: &Limit, value: Option<u64>, used: Option<u64>) -> Finding {
    let Some(value) = value else {
        return Finding::ok(limit.subject, "unlimited", "It does not concern hakmem.");
    };
    let near = |used: &u64| u128::from(*used) * 100 > u128::from(value) * u128::from(NEAR);
    match used.filter(near) {
        Some(used) => Finding::new(
            Verdict::Problem,
            limit.subject,
            &format!("{} of {} are used", bytes(used), bytes(value)),
            format!("Allocations fail when it is reached. {}", limit.meaning),
            limit.advice,
        ),
        None => Finding::new(
            Verdict::Note,
            limit.subject,
            &bytes(value),
            limit.meaning,
            limit.advice,
        ),
    }
}

fn locked(value: Option<u64>) -> Finding {
    const SUBJECT: &str = "RLIMIT_MEMLOCK";
    match value {
        None => Finding::ok(SUBJECT, "unlimited", "mlockall works."),
        Some(value) => Finding::ok(
            SUBJECT,
            &bytes(value),
            "Programs that lock all their memory (mlockall) need an unlimited one, or root: \
             hakmem's reserved address space counts. Other programs do not notice.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_limits() {
        let text = "Limit  Soft  Hard  Units\nMax data size   4096  unlimited  bytes\n\
                    Max address space   unlimited  unlimited  bytes";
        assert_eq!(soft(text, "Max data size"), Some(Some(4096)));
        assert_eq!(soft(text, "Max address space"), Some(None));
        assert_eq!(soft(text, "Max locked memory"), None);
    }
}
