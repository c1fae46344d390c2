//! Programs under filters for system calls.

use super::{Language, Link, compile};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// sandbox.c.
pub fn sandbox() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile(Language::C, "sandbox.c", Link::Plain))
}

/// systemd's `@resources`. Units of services leave them out: that of redis in Debian does.
const RESOURCES: [&str; 13] = [
    "ioprio_set",
    "mbind",
    "migrate_pages",
    "move_pages",
    "nice",
    "sched_setaffinity",
    "sched_setattr",
    "sched_setparam",
    "sched_setscheduler",
    "set_mempolicy",
    "set_mempolicy_home_node",
    "setpriority",
    "setrlimit",
];

/// A file with the numbers of the calls that services commonly make.
fn system_service() -> &'static Path {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| make_list("system-service", &RESOURCES))
}

/// A file with the numbers of these calls, but for some.
fn make_list(name: &str, without: &[&str]) -> PathBuf {
    let numbers: HashMap<String, String> =
        std::fs::read_to_string("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
            .or_else(|_| std::fs::read_to_string("/usr/include/asm/unistd_64.h"))
            .expect("the kernel's header")
            .lines()
            .filter_map(|line| line.strip_prefix("#define __NR_")?.split_once(' '))
            .map(|(name, number)| (name.to_owned(), number.to_owned()))
            .collect();
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/system-service.txt");
    let list = std::fs::read_to_string(list).expect("the list");
    let kept = list.lines().filter(|name| !without.contains(name));
    let calls: Vec<_> = kept.filter_map(|name| numbers.get(name)).collect();
    assert!(calls.len() > 250, "{}", calls.len());
    let file =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let text: String = calls.iter().map(|number| format!("{number}\n")).collect();
    std::fs::write(&file, text).expect("a file of numbers");
    file
}

/// A program under a filter that ends it for all other calls.
pub fn under(program: &Path) -> Command {
    let mut command = Command::new(sandbox());
    command.arg("under").arg(system_service()).arg(program);
    command
}

/// A program under a filter that also ends it for the calls by which hakmem asks for figures and
/// stacks, and reaches other threads, where there is no filter.
pub fn under_narrow(program: &Path) -> Command {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    const LEFT_OUT: [&str; 5] = [
        "getrusage",
        "process_vm_readv",
        "prctl",
        "mincore",
        "membarrier",
    ];
    let file = FILE.get_or_init(|| make_list("narrow", &LEFT_OUT));
    let mut command = Command::new(sandbox());
    command.arg("under").arg(file).arg(program);
    command
}
