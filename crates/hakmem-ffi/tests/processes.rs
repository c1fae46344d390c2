//! Threads and processes: how they are made, interrupted and ended while everything allocates. Each
//! program keeps a ledger of its blocks outside the heap, and counts what it did, which is asserted
//! here. `TEST_HAKMEM_TORTURE=N` makes each do N times as much: see `ci/torture`.

use crate::common;

#[path = "processes/watch.rs"]
mod watch;

use common::{Language, Link, compile, preload};
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;
use watch::watched;

/// How many times as much as the quick form.
fn times() -> u64 {
    std::env::var("TEST_HAKMEM_TORTURE")
        .map_or(1, |n| n.parse().expect("TEST_HAKMEM_TORTURE is a number"))
}

/// What a program says it did.
struct Counts(HashMap<String, u64>);

impl Counts {
    fn of(text: &str) -> Self {
        let line = |line: &str| {
            let (name, n) = line.split_once(' ')?;
            Some((name.to_owned(), n.parse().ok()?))
        };
        Self(text.lines().filter_map(line).collect())
    }

    #[track_caller]
    fn get(&self, name: &str) -> u64 {
        self.0[name]
    }

    #[track_caller]
    fn exactly(&self, name: &str, n: u64) -> &Self {
        assert_eq!(self.get(name), n, "{name}");
        self
    }

    #[track_caller]
    fn at_most(&self, name: &str, n: u64) -> &Self {
        println!("{name}: {}", self.get(name));
        assert!(self.get(name) <= n, "{name}: {}", self.get(name));
        self
    }

    #[track_caller]
    fn at_least(&self, name: &str, n: u64) -> &Self {
        assert!(
            self.get(name) >= n,
            "{name}: {}, not {n}: {:?}",
            self.get(name),
            self.0
        );
        self
    }
}

#[track_caller]
fn succeeds(command: &mut Command) -> Counts {
    let (status, out, err) = watched(command);
    assert!(status.success(), "{command:?}: {status}\n{out}\n{err}");
    Counts::of(&out)
}

/// Compiled once for each way to link it.
fn program(source: &'static str, link: Link) -> PathBuf {
    static MADE: std::sync::Mutex<Vec<(&str, Link, PathBuf)>> = std::sync::Mutex::new(Vec::new());
    let mut made = MADE.lock().expect("no test panics while it compiles");
    if let Some((.., path)) = made.iter().find(|(s, l, _)| *s == source && *l == link) {
        return path.clone();
    }
    let language = if source.ends_with(".cpp") {
        Language::Cpp
    } else {
        Language::C
    };
    let path = compile(language, &format!("processes/{source}"), link);
    made.push((source, link, path.clone()));
    path
}

/// Runs a scenario of a program under preload.
#[track_caller]
fn preloaded(source: &'static str, scenario: &str, n: u64, options: &[(&str, &str)]) -> Counts {
    let mut command = Command::new(program(source, Link::Plain));
    command
        .args([scenario, &n.to_string()])
        .envs(options.iter().copied());
    let reports = preload(&mut command);
    let counts = succeeds(&mut command);
    reports.assert_served();
    counts
}

/// Runs it with libhakmem.a in it.
#[track_caller]
fn linked(source: &'static str, scenario: &str, n: u64, options: &[(&str, &str)]) -> Counts {
    let mut command = Command::new(program(source, Link::Static));
    command
        .args([scenario, &n.to_string()])
        .envs(options.iter().copied());
    succeeds(&mut command)
}

/// The scavenger comes and goes all the time.
const RESTLESS: &[(&str, &str)] = &[("HAKMEM_SCAVENGER", "1"), ("HAKMEM_DECAY_MS", "20")];

/// Every other KiB is a sample of the heap profile.
const PROFILED: &[(&str, &str)] = &[
    ("HAKMEM_PROFILE", "/dev/null"),
    ("HAKMEM_PROFILE_INTERVAL", "2048"),
];

/// The learner is told of everything.
const LEARNING: &[(&str, &str)] = &[("HAKMEM_MODE", "learn"), ("HAKMEM_SCAVENGER", "1")];

// ---- fork and its relatives ---------------------------------------------------------------------

fn assert_forks(counts: &Counts, n: u64) {
    counts
        .exactly("forks", n)
        .at_least("grandchildren", n / 8)
        .at_least("child_threads", n / 2);
}

#[test]
fn fork_from_churning_threads() {
    let n = 200 * times();
    assert_forks(&preloaded("forks.c", "from_churning_threads", n, &[]), n);
}

#[test]
fn fork_from_churning_threads_with_a_restless_scavenger() {
    let n = 100 * times();
    assert_forks(
        &preloaded("forks.c", "from_churning_threads", n, RESTLESS),
        n,
    );
}

#[test]
fn fork_from_churning_threads_with_the_profile_and_with_the_learner() {
    let n = 50 * times();
    for options in [PROFILED, LEARNING] {
        assert_forks(
            &preloaded("forks.c", "from_churning_threads", n, options),
            n,
        );
    }
}

#[test]
fn fork_from_churning_threads_linked_statically() {
    let n = 100 * times();
    assert_forks(&linked("forks.c", "from_churning_threads", n, &[]), n);
}

/// Whatever the signal interrupts, locks held included; the child ends, or returns from the handler
/// and goes on.
#[test]
fn fork_in_signal_handlers_of_churning_threads() {
    let n = 300 * times();
    let counts = preloaded("forks.c", "in_handlers", n, &[]);
    counts
        .at_least("handler_forks", n)
        .at_least("returned", n / 3);
}

/// The locks of the profile and of the learner among them.
#[test]
fn fork_in_signal_handlers_with_the_profile_and_with_the_learner() {
    let n = 100 * times();
    for options in [PROFILED, LEARNING] {
        preloaded("forks.c", "in_handlers", n, options)
            .at_least("handler_forks", n)
            .at_least("returned", n / 3);
    }
}

/// No moment is left to chance: at one instruction after the other of a few allocations and frees.
/// With the profile, few of them are samples, and many refills are cut before one.
#[test]
fn fork_at_each_instruction() {
    const SAMPLED: &[(&str, &str)] = &[
        ("HAKMEM_PROFILE", "/dev/null"),
        ("HAKMEM_PROFILE_INTERVAL", "163840"),
    ];
    // There are not many more places.
    let n = 30 * times().min(66);
    for options in [&[][..], SAMPLED] {
        preloaded("stepped.c", "each", n, options).exactly("forks", n);
    }
}

/// A thread that reads a line holds its stream and allocates; a flusher holds the list of streams
/// and waits for that one; and fork waits for the list.
#[test]
fn fork_beside_threads_that_read_lines_and_flush() {
    let n = 40 * times();
    preloaded("deadlocks.c", "forks_beside_streams", n, &[])
        .exactly("forks", n)
        .at_least("lines", 1)
        .at_least("flushes", 1);
}

/// Pages pinned for input and output are copied at another moment than the rest. What the forking
/// thread has is whole all the same; what another thread was writing meanwhile may not be
/// (docs/limits.md).
#[test]
fn fork_while_pages_are_pinned() {
    let n = 40 * times();
    let counts = preloaded("pinned.c", "alone", n, &[]);
    if counts.get("pinned") == 0 {
        return println!("this kernel refuses to pin pages by io_uring");
    }
    counts.exactly("forks", n).exactly("ended_well", n);
    let counts = preloaded("pinned.c", "with_a_thread", n, &[]);
    counts.exactly("forks", n);
    println!(
        "children that made a thread: {} of {n} ended well",
        counts.get("ended_well")
    );
}

#[test]
fn vfork_beside_churning_threads() {
    let n = 150 * times();
    preloaded("forks.c", "vforks", n, &[]).exactly("forks", n);
}

#[test]
fn posix_spawn_from_threads() {
    let n = 100 * times();
    preloaded("forks.c", "spawns", n, &[]).exactly("forks", n);
}

#[test]
fn daemons_and_double_forks() {
    let n = 24 * times();
    preloaded("forks.c", "daemons", n, &[]).exactly("forks", n);
}

#[test]
fn fork_while_the_scavenger_comes_and_goes() {
    let n = 40 * times();
    preloaded("scavenged.c", "forks", n, RESTLESS)
        .exactly("forks", n)
        .at_least("scavengers_seen", n / 2);
}

#[test]
fn memory_that_is_free_at_a_fork_comes_back() {
    preloaded("scavenged.c", "idle", 2, &[]).exactly("forks", 2);
}

/// Handlers that were registered before the first allocation run inside the allocator's own.
#[test]
fn fork_handlers_older_than_the_allocators_allocate() {
    let n = 10 * times();
    linked("scavenged.c", "forks", n, RESTLESS)
        .exactly("forks", n)
        .at_least("handled", 3 * n);
}

#[test]
fn vfork_children_that_free_much() {
    let n = 20 * times();
    preloaded("scavenged.c", "vforks", n, RESTLESS).exactly("forks", n);
}

#[test]
fn rights_dropped_beside_the_scavenger() {
    let n = 10 * times();
    preloaded("scavenged.c", "drop_rights", n, RESTLESS).exactly("forks", n);
}

// ---- a library that carries the allocator -------------------------------------------------------

/// Builds the Rust plug-in once.
fn plugin() -> PathBuf {
    common::released().of("plugin", ".so")
}

/// In a program on the system's allocator, and in one that runs on hakmem already: then there are
/// two copies of it.
fn with_plugin(scenario: &str, n: u64) -> [Counts; 2] {
    let path = plugin();
    let path = path.to_str().expect("a path in UTF-8");
    let mut alone = Command::new(program("plugins.c", Link::Plain));
    alone
        .args([scenario, &n.to_string()])
        .env("PLUGIN", path)
        .env_remove("LD_PRELOAD");
    let options = [RESTLESS, &[("PLUGIN", path)]].concat();
    [
        succeeds(&mut alone),
        preloaded("plugins.c", scenario, n, &options),
    ]
}

#[test]
fn a_plugin_with_the_allocator_is_loaded_and_unloaded_repeatedly() {
    let n = 20 * times().min(20);
    for counts in with_plugin("load_and_unload", n) {
        counts
            .exactly("loaded", n)
            .exactly("served", n)
            .exactly("outlived", 2 * n);
    }
}

/// The address space would end after some hundred, and memory some time, if each load left its
/// reservation behind.
#[test]
fn a_plugin_with_the_allocator_is_loaded_two_thousand_times() {
    for counts in with_plugin("load_often", 2000) {
        counts
            .at_least("served", 2000)
            .at_most("kib_left", 8 << 10)
            .at_most("resident_kib_left", 100);
    }
}

/// Threads that used it run their last functions while its code goes.
#[test]
fn a_plugin_is_unloaded_while_threads_that_used_it_end() {
    let n = 60 * times();
    for counts in with_plugin("unload_beside_ending_threads", n) {
        counts.exactly("outlived", n);
    }
}

#[test]
fn fork_during_the_first_use_of_a_plugin() {
    let n = 10 * times().min(20);
    for counts in with_plugin("forked_at_first_use", n) {
        counts.exactly("served", n).at_least("forks", 2 * n);
    }
}

// ---- how threads end ----------------------------------------------------------------------------

#[test]
fn cancellation_inside_and_outside_of_allocation() {
    let n = 100 * times();
    preloaded("threads.c", "cancellation", n, &[])
        .exactly("done", n)
        .exactly("cancelled", 4 * n);
}

#[test]
fn what_a_cancelled_thread_freed_of_others_comes_back() {
    let n = 300 * times();
    preloaded("threads.c", "cancelled_with_others_blocks", n, &[]).exactly("done", n);
}

/// No frame of the allocator may be on the stack that a cancellation unwinds.
#[test]
fn threads_are_cancelled_in_the_middle_of_reports() {
    let n = 1000 * times();
    let options = [
        ("HAKMEM_STATS_SIGNAL", "USR2"),
        ("HAKMEM_MAP", "/dev/null"),
        ("HAKMEM_PROFILE", "/dev/null"),
        ("HAKMEM_PROFILE_SIGNAL", "USR1"),
    ];
    preloaded("threads.c", "cancelled_in_reports", n, &options)
        .exactly("done", n)
        .at_least("cancelled", n / 2);
}

#[test]
fn pthread_exit_and_cancellation_inside_operator_new() {
    let n = 50 * times();
    for counts in [
        preloaded("ends.cpp", "inside_new", n, &[]),
        linked("ends.cpp", "inside_new", n, &[]),
    ] {
        for what in ["threads", "handlers", "unwound"] {
            counts.exactly(what, n);
        }
    }
}

#[test]
fn key_destructors_allocate_after_the_allocators_own() {
    let n = 15 * times();
    for counts in [
        preloaded("threads.c", "key_destructors", n, &[]),
        preloaded("threads.c", "key_destructors", n, PROFILED),
        linked("threads.c", "key_destructors", n, &[]),
    ] {
        // 4 threads, 6 keys, and all rounds but the last.
        counts.exactly("destructors", 4 * 6 * 3 * n);
    }
}

#[test]
fn thread_local_destructors_allocate() {
    let n = 50 * times();
    for counts in [
        preloaded("ends.cpp", "thread_locals", n, &[]),
        linked("ends.cpp", "thread_locals", n, &[]),
    ] {
        counts
            .exactly("threads", 4 * n)
            .exactly("destroyed", 2 * 4 * n);
    }
}

#[test]
fn the_first_thread_exits_before_the_others() {
    let n = 400 * times();
    for options in [&[][..], RESTLESS] {
        preloaded("threads.c", "first_thread_exits", n, options)
            .exactly("done", n)
            .exactly("exited", n / 8);
    }
}

#[test]
fn threads_adopt_each_others_heaps_while_memory_is_trimmed() {
    let n = 2400 * times();
    preloaded("threads.c", "adoption_storm", n, RESTLESS).exactly("done", n);
}

#[test]
fn exit_while_threads_allocate_and_start() {
    let n = 40 * times();
    for options in [&[][..], RESTLESS] {
        preloaded("threads.c", "exit_beside_threads", n, options).exactly("processes", n);
    }
}

/// As many as the machine allows, up to 10,000.
#[test]
fn ten_thousand_threads_at_once_with_small_stacks() {
    let read = |path: &str| -> Option<u64> {
        std::fs::read_to_string(path)
            .ok()?
            .trim()
            .parse::<u64>()
            .ok()
    };
    // Each stack is two maps; the other half of either limit is left to everybody else.
    let limits = [
        read("/proc/sys/vm/max_map_count").map(|n| n / 4),
        read("/proc/sys/kernel/threads-max").map(|n| n / 2),
        read("/proc/sys/kernel/pid_max").map(|n| n / 2),
        read("/sys/fs/cgroup/pids.max").map(|n| n / 2),
    ];
    let n = limits.into_iter().flatten().fold(10_000, u64::min);
    if n < 10_000 {
        common::skipped(&format!("only {n} threads at once, this machine's limits"));
    }
    preloaded("threads.c", "many_at_once", n, &[])
        .exactly("done", n)
        .exactly("at_once", n);
}

/// The loader's lock is held while a constructor frees a block of another allocator's, and another
/// thread frees one.
#[test]
fn foreign_frees_under_the_loaders_lock() {
    let constructor = compile(Language::C, "processes/constructor.c", Link::Shared);
    let path = constructor.to_str().expect("a path in UTF-8");
    preloaded(
        "deadlocks.c",
        "foreign_frees_under_the_loaders_lock",
        1,
        &[("CONSTRUCTOR", path)],
    )
    .exactly("freed", 2);
}

// ---- signals ------------------------------------------------------------------------------------

#[test]
fn handlers_allocate_on_an_alternate_stack() {
    let n = 200 * times();
    preloaded("threads.c", "alternate_stack", n, RESTLESS).at_least("signals", n);
}

#[test]
fn handlers_are_left_by_longjmp() {
    let n = 3000 * times();
    preloaded("threads.c", "jump_out", n, &[])
        .exactly("jumps", n)
        .exactly("signals", n);
}

/// A handler that waits for the profile may have interrupted who holds what the profile waits for.
#[test]
fn the_profiles_signal_beside_threads_that_grow() {
    let n = 1000 * times();
    let options = [
        ("HAKMEM_PROFILE", "/dev/null"),
        ("HAKMEM_PROFILE_SIGNAL", "USR1"),
        ("HAKMEM_PROFILE_INTERVAL", "1"),
    ];
    preloaded("deadlocks.c", "signals_beside_growth", n, &options).exactly("signals", n);
}
