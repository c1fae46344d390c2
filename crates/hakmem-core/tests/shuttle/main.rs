//! Models of the whole allocator: its real code with shuttle's threads, in many thousands of random
//! schedules.
//!
//! `ci/shuttle` runs them. Each step on an atomic is a point of the schedule. The models of
//! `tests/loom` check weak orders. `ci/shuttle` runs each model with the code as it is: the model
//! must hold. Then it runs the model once for each mistake that the model names: it must fail.
//! `tests/mistakes/list.toml` has the mistakes, and `ci/shuttle` weaves them into a copy of the
//! source. Each run is a process of its own, as a failed run leaves the allocator in disorder.
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

/// Set in a process that runs a model: the name of the mistake, or an empty text.
const RUN: &str = "TEST_HAKMEM_MODEL_RUN";
/// Set by a developer: the seed of the random schedules, and how many schedules to run.
const SEED: &str = "TEST_HAKMEM_MODEL_SEED";
const SCHEDULES: &str = "TEST_HAKMEM_MODEL_SCHEDULES";
/// A mistake is looked for with so many seeds.
const SEEDS: u64 = 5;

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

/// Checks that the model of test `name` holds in `schedules` schedules of each kind, and that it
/// fails with each of `mistakes` in as many schedules of one of a few seeds.
fn check(name: &str, schedules: usize, model: fn(), mistakes: &[&'static str]) {
    let (seed, schedules) = (
        number(SEED, 1),
        number(SCHEDULES, schedules as u64) as usize,
    );
    if let Ok(mistake) = env::var(RUN) {
        if let Some(mistake) = mistakes.iter().find(|&&m| m == mistake) {
            mistakes::make(mistake);
        }
        // A thread keeps two of the models' blocks before it sends them. With the usual value no
        // thread would send any in the middle of so short a run.
        hakmem_core::options::set("BATCH_BYTES", "16384").expect("an option");
        run(model, RandomScheduler::new_from_seed(seed, schedules));
        run(model, PctScheduler::new_from_seed(seed, 3, schedules));
        return;
    }
    mistakes::assert_woven();
    let run = |mistake: &str, seed: u64| {
        let mut test = Command::new(env::current_exe().expect("the test itself"));
        test.args([name, "--exact", "--nocapture"])
            .env(RUN, mistake)
            .env(SEED, seed.to_string());
        if !mistake.is_empty() {
            test.stdout(Stdio::null()).stderr(Stdio::null());
        }
        test.status().expect("the test can be run").success()
    };
    assert!(run("", seed), "{name} fails: see above");
    for mistake in mistakes {
        // Any change of the allocator changes what a schedule meets.
        let found = (seed..seed + SEEDS).find(|&seed| !run(mistake, seed));
        let found = found.unwrap_or_else(|| panic!("{name} does not find {mistake}"));
        // It may not be the mistake that fails.
        assert!(
            found == seed || run("", found),
            "{name} fails with seed {found}"
        );
    }
}

/// What the threads of a model share.
struct Shared {
    ranges: Ranges,
    /// Blocks that one thread leaves for another one to free.
    left: Mutex<VecDeque<Block>>,
    point: AtomicBool,
}

impl Shared {
    /// Leaks the value, as a model's threads may outlive the model.
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

    /// A point of the schedule. The fast paths of the allocator have none.
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

    /// Frees the blocks that other threads left.
    fn free_left(&self, salt: u64) {
        while let Some(block) = self.take() {
            self.oracle(salt).dealloc(block);
        }
    }

    /// Called when all threads have ended: frees the rest in a new thread, and checks that no block
    /// is live.
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
