//! Models of the whole allocator: its real code, with shuttle's threads, in many thousands of schedules chosen at random.
//!
//! Run with `ci/shuttle`. Every step on an atomic is a point of the schedule; weak orders are for `tests/loom`. Each
//! model is run as the code is, and then once for each mistake that it is there to find: it must
//! fail. `tests/mistakes/list.toml` has the mistakes, and `ci/shuttle` weaves them into a copy of the source. Each run is
//! a process of its own, as a failed one leaves the allocator in disorder.
#![cfg(shuttle)]

mod exit;
mod fork;
#[path = "../mistakes/mod.rs"]
mod mistakes;
#[path = "../oracle/mod.rs"]
mod oracle;
mod park;
mod purge;

use oracle::{Block, Oracle, Ranges, Rust};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::atomic::{AtomicBool, Ordering::SeqCst};
use shuttle::{Config, Runner};
use std::alloc::Layout;
use std::collections::VecDeque;
use std::env;
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// Set in the process that runs a model: the name of the mistake, or nothing.
const RUN: &str = "TEST_HAKMEM_MODEL_RUN";
/// Other schedules than the usual, and how many of them.
const SEED: &str = "TEST_HAKMEM_MODEL_SEED";
const SCHEDULES: &str = "TEST_HAKMEM_MODEL_SCHEDULES";

fn number(variable: &str, otherwise: u64) -> u64 {
    env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}

fn run(model: fn(), scheduler: impl Scheduler + 'static) {
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(move || {
        hakmem_core::model::begin();
        model();
    });
}

/// Checks the model of test `name` in `schedules` schedules of each kind; then, with each of `mistakes` made, that it
/// fails.
fn check(name: &str, schedules: usize, model: fn(), mistakes: &[&'static str]) {
    let (seed, schedules) = (
        number(SEED, 1),
        number(SCHEDULES, schedules as u64) as usize,
    );
    if let Ok(mistake) = env::var(RUN) {
        if let Some(mistake) = mistakes.iter().find(|&&m| m == mistake) {
            mistakes::make(mistake);
        }
        // Two of the models' blocks: what is sent late is never late for anybody in a run as short as theirs.
        hakmem_core::options::set("BATCH_BYTES", "16384").expect("an option");
        run(model, RandomScheduler::new_from_seed(seed, schedules));
        run(model, PctScheduler::new_from_seed(seed, 3, schedules));
        return;
    }
    mistakes::assert_woven();
    let run = |mistake: &str| {
        let mut test = Command::new(env::current_exe().expect("the test itself"));
        test.args([name, "--exact", "--nocapture"])
            .env(RUN, mistake);
        if !mistake.is_empty() {
            test.stdout(Stdio::null()).stderr(Stdio::null());
        }
        test.status().expect("the test can be run").success()
    };
    assert!(run(""), "{name} fails: see above");
    for mistake in mistakes {
        assert!(!run(mistake), "{name} does not find {mistake}");
    }
}

/// What the threads of a model share.
struct Shared {
    ranges: Ranges,
    /// Blocks that one thread leaves to another.
    left: Mutex<VecDeque<Block>>,
    point: AtomicBool,
}

impl Shared {
    /// Leaked: a model's threads may outlive it.
    fn new() -> &'static Self {
        Box::leak(Box::new(Self {
            ranges: Ranges::default(),
            left: Mutex::default(),
            point: AtomicBool::new(false),
        }))
    }

    fn oracle(&self, salt: u64) -> Oracle<'_, Rust> {
        Oracle::new(Rust, &self.ranges, salt)
    }

    /// Fast paths have no steps of the schedule: this is one.
    fn point(&self) {
        self.point.load(SeqCst);
    }

    fn leave(&self, block: Block) {
        self.point();
        self.left.lock().unwrap().push_back(block);
    }

    fn take(&self) -> Option<Block> {
        self.point();
        self.left.lock().unwrap().pop_front()
    }

    /// Frees what was left.
    fn free_left(&self, salt: u64) {
        while let Some(block) = self.take() {
            self.oracle(salt).dealloc(block);
        }
    }

    /// Called when all threads are through: frees the rest in a thread, and sees that nothing is live any more.
    fn end(&'static self) {
        shuttle::thread::spawn(|| self.free_left(99))
            .join()
            .unwrap();
        self.ranges.assert_empty();
        hakmem_core::model::trim();
        let live = hakmem_core::stats::process().live_bytes;
        assert_eq!(live, 0, "bytes that nobody has are live");
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a size")
}
