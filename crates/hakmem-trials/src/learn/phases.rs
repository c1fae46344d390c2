//! The phases: programs of a kind, a few seconds each. What a phase does in its first second is not
//! in its figures: that is the time to learn.

use hakmem_bench::heap::{Block, Heap};
use hakmem_bench::meter::status_kib;
use hakmem_bench::rng::Rng;
use hakmem_bench::workloads::large::PAGE;
use hakmem_core::Hakmem;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Which to run, in their own order; none means all.
#[derive(Debug, clap::Args)]
pub struct Options {
    phases: Vec<String>,
}

/// What one phase took.
#[derive(Debug, Serialize, Deserialize)]
pub struct Figure {
    /// Its name.
    pub phase: String,
    /// Steps after the first second.
    pub steps: u64,
    /// Their mean time, pauses left out.
    pub step_ns: f64,
    /// Mean resident memory of the process after the first second, pauses included.
    pub mean_resident_kib: f64,
}

/// What a phase does again and again, and how it pauses.
struct Phase {
    name: &'static str,
    lasts: Duration,
    /// Takes the number of the step; returns how long to pause after it.
    step: fn(u64) -> Duration,
}

const TIME_TO_LEARN: Duration = Duration::from_secs(1);

const PHASES: [Phase; 5] = [
    Phase {
        name: "bursts",
        lasts: Duration::from_millis(4800),
        step: |_| {
            small_blocks(48 << 20);
            Duration::from_millis(800)
        },
    },
    Phase {
        name: "buffers",
        lasts: Duration::from_secs(2),
        step: |_| {
            buffer(64 << 20);
            Duration::ZERO
        },
    },
    Phase {
        name: "threads",
        lasts: Duration::from_secs(2),
        step: |_| {
            in_a_thread(32 << 20);
            Duration::ZERO
        },
    },
    Phase {
        name: "once",
        lasts: Duration::from_secs(11),
        step: |_| {
            small_blocks(160 << 20);
            Duration::from_secs(10)
        },
    },
    Phase {
        name: "mixed",
        lasts: Duration::from_secs(5),
        step: |i| {
            match Rng::new(i).below(4) {
                0 => buffer(40 << 20),
                1 => in_a_thread(12 << 20),
                _ => small_blocks(16 << 20),
            }
            Duration::from_millis(if i % 16 == 15 { 700 } else { 0 })
        },
    },
];

/// Blocks of 1 KiB, all written, then freed.
fn small_blocks(bytes: usize) {
    let mut blocks = Vec::with_capacity(bytes >> 10);
    for _ in 0..bytes >> 10 {
        let mut block: Block<Hakmem> = Heap::new().block(1 << 10);
        block.write_all(0, 1);
        blocks.push(block);
    }
}

/// A huge block, a byte of each page written, freed.
fn buffer(bytes: usize) {
    let mut block: Block<Hakmem> = Heap::new().block(bytes);
    block.write_every(0, PAGE);
}

fn in_a_thread(bytes: usize) {
    thread::scope(|scope| {
        scope.spawn(|| small_blocks(bytes));
    });
}

/// Sums of resident memory, while it is switched on.
#[derive(Default)]
struct Sampler {
    kib: AtomicU64,
    samples: AtomicU64,
    on: AtomicBool,
    over: AtomicBool,
}

impl Sampler {
    fn work(&self) {
        while !self.over.load(Relaxed) {
            if self.on.load(Relaxed) {
                self.kib
                    .fetch_add(status_kib("VmRSS:").unwrap_or(0), Relaxed);
                self.samples.fetch_add(1, Relaxed);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The mean since the last time.
    fn mean(&self) -> f64 {
        let (kib, samples) = (self.kib.swap(0, Relaxed), self.samples.swap(0, Relaxed));
        kib as f64 / samples.max(1) as f64
    }
}

/// Runs the phases in this process, and prints their figures.
pub fn run(options: &Options) -> io::Result<()> {
    let known = |name: &String| PHASES.iter().any(|p| p.name == name);
    if let Some(unknown) = options.phases.iter().find(|name| !known(name)) {
        return Err(io::Error::other(format!("there is no phase {unknown}")));
    }
    let wanted =
        |p: &&Phase| options.phases.is_empty() || options.phases.iter().any(|o| o == p.name);
    let sampler = Sampler::default();
    let figures: Vec<_> = thread::scope(|scope| {
        scope.spawn(|| sampler.work());
        let figures = PHASES
            .iter()
            .filter(wanted)
            .map(|phase| measure(phase, &sampler))
            .collect();
        sampler.over.store(true, Relaxed);
        figures
    });
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

fn measure(phase: &Phase, sampler: &Sampler) -> Figure {
    let start = Instant::now();
    let (mut steps, mut busy) = (0, Duration::ZERO);
    for i in 0.. {
        if start.elapsed() >= phase.lasts {
            break;
        }
        let learnt = start.elapsed() >= TIME_TO_LEARN;
        sampler.on.store(learnt, Relaxed);
        let step = Instant::now();
        let pause = (phase.step)(i);
        if learnt {
            (steps, busy) = (steps + 1, busy + step.elapsed());
        }
        let until = Instant::now() + pause;
        while Instant::now() < until {
            sampler.on.store(start.elapsed() >= TIME_TO_LEARN, Relaxed);
            thread::sleep(Duration::from_millis(20).min(until - Instant::now().min(until)));
        }
    }
    sampler.on.store(false, Relaxed);
    Figure {
        phase: phase.name.to_owned(),
        steps,
        step_ns: busy.as_nanos() as f64 / f64::max(steps as f64, 1.0),
        mean_resident_kib: sampler.mean(),
    }
}
