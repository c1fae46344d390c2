//! What hakmem adds to a process that hardly allocates, against preloading an empty library: system
//! calls and page faults; and to a thread that does, against the system's allocator: memory.

use crate::common;

use common::{Language, Link, compile, find_program, library, preload, run};
use std::path::Path;
use std::process::{Command, Stdio};

/// Copies of each library, and runs with each copy. How much of a file one fault maps depends on
/// the sizes in which the page cache holds it. These differ by up to four faults between copies, so
/// the median of all copies counts. Which addresses the loader chooses differs between runs, so the
/// least of all runs counts.
const COPIES: usize = 21;
const RUNS: usize = 12;

/// System calls of one run under `preload`, as strace counts them.
fn system_calls(program: &Path, preload: &Path) -> usize {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let trace = directory.path().join("trace");
    let mut command = Command::new("strace");
    command.arg("-f").arg("-o").arg(&trace);
    command
        .arg("-E")
        .arg(format!("LD_PRELOAD={}", preload.display()));
    // cargo's library path would add searches.
    run(command
        .arg(program)
        .env_remove("HAKMEM_STATS")
        .env_remove("LD_LIBRARY_PATH"));
    let text = std::fs::read_to_string(trace).expect("a trace");
    let calls = text.lines().filter(|line| line.contains('(')).count();
    assert!(calls > 10, "strace saw nothing:\n{text}");
    println!("{}:\n{text}", preload.display());
    calls
}

/// Minor faults of one run under `preload`.
fn page_faults_once(program: &Path, preload: &Path) -> i64 {
    let mut command = Command::new(program);
    command
        .env("LD_PRELOAD", preload)
        .env_remove("HAKMEM_STATS")
        .stdin(Stdio::null());
    #[allow(
        clippy::zombie_processes,
        reason = "wait4 below takes the place of wait"
    )]
    let child = command.spawn().expect("the program runs");
    let pid = i32::try_from(child.id()).expect("a process number");
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are valid for what wait4 writes; the child is ours and not waited for
    // elsewhere.
    let waited = unsafe { libc::wait4(pid, &mut status, 0, usage.as_mut_ptr()) };
    assert!(
        waited == pid && status == 0,
        "the program failed: {status:#x}"
    );
    // SAFETY: wait4 filled it in.
    unsafe { usage.assume_init() }.ru_minflt
}

/// What each of the two takes, run in turns.
fn page_faults(program: &Path, preloads: [&Path; 2]) -> [i64; 2] {
    let mut of_copies = [const { Vec::new() }; 2];
    for _ in 0..COPIES {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let copies = ["0.so", "1.so"].map(|name| directory.path().join(name));
        for (copy, preload) in copies.iter().zip(preloads) {
            std::fs::copy(preload, copy).expect("a copy");
        }
        let mut least = [i64::MAX; 2];
        for _ in 0..RUNS {
            for (least, copy) in least.iter_mut().zip(&copies) {
                *least = page_faults_once(program, copy).min(*least);
            }
        }
        for (of_copies, least) in of_copies.iter_mut().zip(least) {
            of_copies.push(least);
        }
    }
    of_copies.map(|mut faults| {
        faults.sort_unstable();
        faults[COPIES / 2]
    })
}

/// Asserts that hakmem adds at most `calls` system calls and `faults` page faults to `program`.
fn adds_at_most(program: &Path, calls: usize, faults: i64) {
    let empty = compile(Language::C, "empty.c", Link::Shared);
    let ours = &library().shared;
    let [base, with] = page_faults(program, [&empty, ours]);
    println!("page faults: {base} with an empty library, {with} with hakmem");
    assert!(
        with <= base + faults,
        "{} page faults more, at most {faults} allowed",
        with - base
    );
    if find_program("strace").is_none() {
        return;
    }
    let (base, with) = (system_calls(program, &empty), system_calls(program, ours));
    println!("system calls: {base} with an empty library, {with} with hakmem");
    assert!(
        with <= base + calls,
        "{} system calls more, at most {calls} allowed",
        with.saturating_sub(base)
    );
}

#[test]
#[cfg_attr(feature = "hardened", ignore = "the figures are the default build's")]
fn of_a_program_that_allocates_nothing() {
    // Two calls: see docs/decisions.md. It takes three to five faults: how many of them map pieces
    // of the library's code follows its length.
    adds_at_most(Path::new("/bin/true"), 2, 6);
}

#[test]
#[cfg_attr(feature = "hardened", ignore = "the figures are the default build's")]
fn of_a_program_with_one_malloc() {
    // Six: five more for the first arena, segment, heap and page of blocks, one less for libc's own
    // heap. It takes nine or ten faults: the median of an empty library is one more or less, too.
    adds_at_most(&compile(Language::C, "one_malloc.c", Link::Plain), 6, 10);
}

/// A thousand threads with fifty blocks each, all there at once.
#[test]
fn of_threads_that_allocate_little() {
    let program = compile(Language::C, "many_threads.c", Link::Plain);
    let resident = |command: &mut Command| -> u64 {
        let output = run(command.args(["1000", "50", "1024"]));
        let text = String::from_utf8(output.stdout).expect("text");
        let line = text.lines().find_map(|l| l.strip_prefix("resident_kib "));
        line.expect("what is resident").parse().expect("a number")
    };
    let base = resident(Command::new(&program).env_remove("LD_PRELOAD"));
    let mut command = Command::new(&program);
    let reports = preload(&mut command);
    let with = resident(&mut command);
    reports.assert_served();
    println!("resident: {base} KiB with the system's allocator, {with} with hakmem");
    // A fifth more; and 32 threads have pages of their own, 80 KiB each.
    let most = base + base / 5 + 32 * 80 + 1024;
    assert!(with <= most, "{with} KiB resident, at most {most} allowed");
}
