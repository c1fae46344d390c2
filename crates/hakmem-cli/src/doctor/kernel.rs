//! The kernel: its version, the system calls that hakmem uses where they are there, and who may
//! look into a process.

use super::finding::{Finding, Verdict};
use super::root::{Call, Root};

/// What newer kernels have, the newest first: the version, and what older ones do without it.
const NEWER: [(u32, u32, &str); 4] = [
    (5, 14, "fresh memory is faulted in page by page"),
    (5, 7, "a huge block that grows is copied"),
    (5, 3, "hakmem top, stat --pid and map --pid do not work"),
    (
        4,
        14,
        "the memory of sleeping threads stays in Rust programs",
    ),
];

pub fn findings(root: &Root) -> Vec<Finding> {
    let calls = CALLS.iter().map(|used| call(root, used));
    let all = unmounted(root).into_iter().chain(version(root));
    all.chain(calls).chain(Some(ptrace(root))).collect()
}

fn unmounted(root: &Root) -> Option<Finding> {
    (!root.has_proc()).then(|| {
        Finding::new(
            Verdict::Note,
            "/proc",
            "not mounted",
            "What the kernel says there of itself and of processes is not known here. hakmem \
             serves programs without it. The commands with --pid do not work.",
            "Mount it: mount -t proc proc /proc.",
        )
    })
}

/// The first two numbers.
fn parse(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

fn version(root: &Root) -> Option<Finding> {
    const SUBJECT: &str = "kernel";
    let release = root.read("/proc/sys/kernel/osrelease")?;
    let version = parse(&release)?;
    let lost: Vec<_> = NEWER
        .iter()
        .filter(|&&(major, minor, _)| version < (major, minor))
        .map(|&(.., what)| what)
        .collect();
    Some(match lost.is_empty() {
        true => Finding::ok(
            SUBJECT,
            &release,
            "It has all that hakmem uses (5.14 or later).",
        ),
        false => Finding::new(
            Verdict::Note,
            SUBJECT,
            &release,
            format!("hakmem works. On this version {}.", lost.join(", ")),
            "Linux 5.14 has all that hakmem uses.",
        ),
    })
}

/// A system call: its subject, what hakmem does with it, what it does without.
struct Used {
    call: Call,
    subject: &'static str,
    with: &'static str,
    without: &'static str,
}

const CALLS: [Used; 3] = [
    Used {
        call: Call::Populate,
        subject: "MADV_POPULATE_WRITE",
        with: "One call faults a fresh page of 64 KiB in.",
        without: "Each system page costs a fault of its own. hakmem works all the same.",
    },
    Used {
        call: Call::Membarrier,
        subject: "membarrier",
        with: "hakmem gives back what sleeping threads keep.",
        without: "A preloaded process asks /proc which threads sleep, and a Rust program gives back \
                  whole pages of theirs only. Call hakmem::thread_idle() in its threads that are \
                  about to sleep.",
    },
    Used {
        call: Call::ReadMemory,
        subject: "process_vm_readv",
        with: "hakmem top, stat, map and the heap profile can read memory by it.",
        without: "hakmem top, stat --pid, map --pid and stacks of the heap profile do not work. \
                  Allow the call in the filter of the container.",
    },
];

fn call(root: &Root, used: &Used) -> Finding {
    match root.call(used.call) {
        Ok(()) => Finding::ok(used.subject, "works", used.with),
        Err(e) => {
            let (meaning, advice) = used.without.split_once(". ").expect("two sentences");
            Finding::new(
                Verdict::Note,
                used.subject,
                &e.to_string(),
                format!("{meaning}."),
                advice,
            )
        }
    }
}

/// Whether this process may trace any other, by CAP_SYS_PTRACE.
fn traces_all(root: &Root) -> bool {
    const CAP_SYS_PTRACE: u32 = 19;
    let rights = root.field("/proc/self/status", "CapEff");
    let rights = rights.and_then(|rights| u64::from_str_radix(&rights, 16).ok());
    rights.is_some_and(|rights| rights & 1 << CAP_SYS_PTRACE != 0)
}

fn ptrace(root: &Root) -> Finding {
    const SUBJECT: &str = "kernel.yama.ptrace_scope";
    let Some(scope) = root.number("/proc/sys/kernel/yama/ptrace_scope") else {
        // Without Yama, its folder is missing among the others.
        if root.has("/proc/sys/kernel") && !root.has("/proc/sys/kernel/yama") {
            return Finding::ok(
                SUBJECT,
                "not there",
                "A user may look into all of his own processes.",
            );
        }
        return Finding::unknown(
            SUBJECT,
            "It cannot be read. It may keep hakmem top, stat --pid and map --pid out.",
            "If they say that a process may not be read, use sudo.",
        );
    };
    let found = scope.to_string();
    match scope {
        0 => Finding::ok(
            SUBJECT,
            &found,
            "A user may look into all of his own processes.",
        ),
        1 | 2 if traces_all(root) => Finding::ok(
            SUBJECT,
            &found,
            "You have the right to look into all processes.",
        ),
        1 => Finding::new(
            Verdict::Note,
            SUBJECT,
            &found,
            "You may only look into what you started: hakmem top PROG works, hakmem top PID does \
             not.",
            "For a running process use sudo, or set kernel.yama.ptrace_scope=0.",
        ),
        2 => Finding::new(
            Verdict::Note,
            SUBJECT,
            &found,
            "Only root may look into a process.",
            "Use sudo for hakmem top, stat --pid and map --pid.",
        ),
        _ => Finding::new(
            Verdict::Note,
            SUBJECT,
            &found,
            "Nobody may look into a process until the system starts anew.",
            "Use reports that the program writes itself: HAKMEM_STATS, HAKMEM_MAP, HAKMEM_PROFILE.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(parse("6.18.44-fc-v669"), Some((6, 18)));
        assert_eq!(parse("5.4-rc1"), Some((5, 4)));
        assert_eq!(parse("six"), None);
    }
}
