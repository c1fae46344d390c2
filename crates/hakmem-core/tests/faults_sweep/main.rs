//! The fault sweep: each system call of each workload refused once, by itself and with those that
//! follow.
//!
//! Every case is a forked child with a fresh heap. While calls are refused, an allocation gets its
//! block or NULL and ENOMEM, a resize that fails leaves its block alone, and free succeeds and
//! leaves errno alone. Afterwards every block is as its owner left it, and memory is to be had
//! again. The oracle's books are in the system's heap.
//!
//! Before that, each workload is run as on kernels with larger pages (`hakmem_core::coarse`).
//!
//! Without arguments each kind of call is refused in each workload at two places, and for ever.
//! `faults_sweep all` is the whole sweep (`ci/faults`), `faults_sweep WORKLOAD` that of one
//! workload, `faults_sweep pages` the larger pages alone. `faults_sweep WORKLOAD KINDS FIRST COUNT
//! PARTIAL` runs one case, as a failure names it, in this process.

mod case;
mod heap;
#[path = "../oracle/mod.rs"]
mod oracle;
mod workloads;

use case::{Child, Outcome};
use hakmem_core::faults::{CALLS, Plan};
use std::collections::VecDeque;
use std::thread::available_parallelism;
use workloads::{WORKLOADS, Workload};

const ALL_KINDS: u32 = (1 << CALLS.len()) - 1;
/// Calls that a case refuses at most: beyond any workload's.
const FOR_EVER: u64 = u64::MAX / 2;

/// What becomes of the calls from the k-th on.
const SHAPES: [(u64, bool); 4] = [(1, false), (1, true), (2, true), (FOR_EVER, false)];

/// Of other kernels.
const PAGE_SIZES: [usize; 2] = [16 << 10, 64 << 10];

/// Calls are numbered, and made.
const NOTHING: Plan = Plan {
    kinds: ALL_KINDS,
    first: u64::MAX,
    count: 1,
    partial: false,
};

#[derive(Default)]
struct Totals {
    cases: u64,
    nulls: u64,
    /// Calls that were refused in cases which refuse one.
    points: [u64; CALLS.len()],
    reached: [u64; CALLS.len()],
    refused: [u64; CALLS.len()],
    failed: Vec<String>,
}

impl Totals {
    fn add(&mut self, workload: &Workload, plan: Plan, outcome: &Outcome) {
        self.cases += 1;
        self.nulls += outcome.nulls;
        for i in 0..CALLS.len() {
            self.reached[i] += outcome.reached[i];
            self.refused[i] += outcome.refused[i];
            if plan.count == 1 && !plan.partial {
                self.points[i] += outcome.refused[i];
            }
        }
        if let Some(why) = &outcome.failed {
            let Plan {
                kinds,
                first,
                count,
                partial,
            } = plan;
            let (name, partial) = (workload.name, u8::from(partial));
            self.failed
                .push(format!("{name} {kinds} {first} {count} {partial}: {why}"));
        }
    }

    /// Runs the cases, a child for each processor at a time, until one of them refuses nothing.
    fn run(&mut self, workload: &Workload, plans: impl Iterator<Item = Plan>) {
        let width = available_parallelism().map_or(1, usize::from);
        let mut plans = plans.fuse();
        let mut running = VecDeque::new();
        let mut untouched = false;
        loop {
            while !untouched && running.len() < width {
                let Some(plan) = plans.next() else { break };
                running.push_back(Child::start(workload, plan));
            }
            let Some(child) = running.pop_front() else {
                return;
            };
            let (plan, outcome) = (child.plan, child.finish());
            self.add(workload, plan, &outcome);
            untouched |= outcome.refused.iter().sum::<u64>() == 0 || self.failed.len() > 20;
        }
    }

    /// Every call refused by itself and with those that follow; then one call of each kind, and all
    /// of them.
    ///
    /// The order of calls differs from run to run where there are threads: a kind that is called
    /// once may be missed by its number among all calls, but not by its number in its kind.
    fn sweep(&mut self, workload: &Workload) {
        for (count, partial) in SHAPES {
            let plan = |first| Plan {
                kinds: ALL_KINDS,
                first,
                count,
                partial,
            };
            self.run(workload, (1..).map(plan));
        }
        for kind in 0..CALLS.len() {
            for (count, partial) in [(1, false), (FOR_EVER, false), (FOR_EVER, true)] {
                let plan = |first| Plan {
                    kinds: 1 << kind,
                    first,
                    count,
                    partial,
                };
                self.run(workload, [1, 2, 5].into_iter().map(plan));
            }
        }
    }

    /// Every workload once, with nothing refused but what a kernel with such pages refuses.
    fn on_pages_of(&mut self, page: usize) {
        for workload in WORKLOADS {
            let outcome = Child::start_on(workload, NOTHING, Some(page)).finish();
            if let Some(why) = &outcome.failed {
                let name = workload.name;
                self.failed
                    .push(format!("{name} on pages of {page}: {why}"));
            }
            assert_eq!(outcome.nulls, 0, "{} on pages of {page}", workload.name);
        }
    }

    /// Of each kind of call that is reached, the first and the middle one refused by itself, and
    /// all of them.
    fn sample(&mut self, workload: &Workload) {
        let plan = |kinds, first, count| Plan {
            kinds,
            first,
            count,
            partial: false,
        };
        let untouched = plan(ALL_KINDS, FOR_EVER, 1);
        let outcome = Child::start(workload, untouched).finish();
        self.add(workload, untouched, &outcome);
        for (kind, &reached) in outcome.reached.iter().enumerate() {
            let plan = |(first, count)| plan(1 << kind, first, count);
            let cases = [(1, 1), (reached / 2 + 1, 1), (1, FOR_EVER)];
            let skipped = usize::from(reached == 1);
            if reached > 0 {
                self.run(workload, cases.into_iter().skip(skipped).map(plan));
            }
        }
    }

    fn print(&self) {
        println!("injection points (calls refused by themselves), calls reached, calls refused:");
        for (i, call) in CALLS.iter().enumerate() {
            let name = format!("{call:?}").to_lowercase();
            let (points, reached, refused) = (self.points[i], self.reached[i], self.refused[i]);
            println!("{name:>10} {points:6} {reached:8} {refused:8}");
        }
        println!("{} cases, {} allocations got NULL", self.cases, self.nulls);
    }

    fn check(&self) {
        let failed = self.failed.join("\n");
        assert!(self.failed.is_empty(), "failed:\n{failed}");
        for (call, &points) in CALLS.iter().zip(&self.points) {
            assert!(points > 0, "no workload reaches {call:?}");
        }
        assert!(self.nulls > 0, "no allocation ever failed");
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first();
    let named = name.and_then(|name| WORKLOADS.iter().find(|w| w.name == name));
    let mut totals = Totals::default();
    match (named, &arguments[..]) {
        (Some(workload), [_, numbers @ ..]) if !numbers.is_empty() => {
            let numbers = numbers.iter().map(|n| n.parse().expect("a number"));
            let [kinds, first, count, partial] = numbers.collect::<Vec<u64>>()[..] else {
                panic!("KINDS FIRST COUNT PARTIAL");
            };
            let plan = Plan {
                kinds: kinds as u32,
                first,
                count,
                partial: partial != 0,
            };
            println!("{:?}", case::here(workload, plan));
        }
        (Some(workload), _) => {
            totals.sweep(workload);
            totals.print();
            assert!(
                totals.failed.is_empty(),
                "failed:\n{}",
                totals.failed.join("\n")
            );
        }
        (None, [only]) if only == "pages" => {
            PAGE_SIZES.iter().for_each(|&page| totals.on_pages_of(page));
            assert!(totals.failed.is_empty(), "failed: {:?}", totals.failed);
        }
        (None, _) => {
            let all = name.is_some_and(|name| name == "all");
            assert!(all || name.is_none(), "no workload is called {name:?}");
            PAGE_SIZES.iter().for_each(|&page| totals.on_pages_of(page));
            for workload in WORKLOADS {
                let before = totals.cases;
                if all {
                    totals.sweep(workload);
                } else {
                    totals.sample(workload);
                }
                println!("{}: {} cases", workload.name, totals.cases - before);
            }
            totals.print();
            totals.check();
        }
    }
}
