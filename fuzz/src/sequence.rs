//! Sequences of operations that the fuzzer makes up, against the oracle.
//!
//! All threads are driven one step at a time, so that an input does the same each time. What they
//! do to each other at the same moment is for the stress and the models.

use crate::ops::{Align, Op, Step, THREADS};
use crate::oracle::{Block, FrontEnd, Oracle, Ranges, Rust};
use std::alloc::Layout;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Scope, ScopedJoinHandle};

/// A front end that can also be asked to give memory back.
pub trait Fuzzed: FrontEnd + Send {
    fn trim(&self);
}

impl Fuzzed for Rust {
    fn trim(&self) {
        hakmem_core::c::trim();
    }
}

/// What may be held at once, as libFuzzer limits memory.
const MOST: usize = 128 << 20;
/// Forks of a process; a child may do those that its parent has left. So an input has 2³ processes
/// at most.
const FORKS: u32 = 3;

/// What a thread is to do.
enum Job {
    Alloc(Layout, usize),
    AllocZeroed(Layout),
    Realloc(Block, usize),
    Dealloc(Vec<Block>),
    Trim,
}

/// Does it. Returns the blocks that are new.
fn perform<D: Fuzzed>(front_end: D, oracle: &mut Oracle<'_, D>, job: Job) -> Vec<Block> {
    match job {
        Job::Alloc(layout, count) => (0..count).map(|_| oracle.alloc(layout)).collect(),
        Job::AllocZeroed(layout) => vec![oracle.alloc_zeroed(layout)],
        Job::Realloc(block, size) => vec![oracle.realloc(block, size)],
        Job::Dealloc(blocks) => {
            blocks.into_iter().for_each(|b| oracle.dealloc(b));
            vec![]
        }
        Job::Trim => {
            front_end.trim();
            vec![]
        }
    }
}

struct Worker<'scope> {
    jobs: SyncSender<Job>,
    results: Receiver<Vec<Block>>,
    thread: ScopedJoinHandle<'scope, ()>,
}

struct Caller<'scope, 'env, D> {
    scope: &'scope Scope<'scope, 'env>,
    front_end: D,
    ranges: &'env Ranges,
    oracle: Oracle<'env, D>,
    workers: [Option<Worker<'scope>>; THREADS],
    /// Oracles made, so that the patterns of each are its own.
    oracles: u64,
    blocks: VecDeque<Block>,
    bytes: usize,
    forks_left: u32,
}

impl<'scope, 'env, D: Fuzzed + 'scope> Caller<'scope, 'env, D> {
    const LEAST: usize = !D::EMPTY as usize;

    /// Has `who` do it, and keeps what comes of it.
    fn have(&mut self, who: usize, job: Job) {
        let blocks = match who {
            0 => perform(self.front_end, &mut self.oracle, job),
            _ => {
                let worker = self.worker(who - 1);
                worker.jobs.send(job).expect("the thread waits for jobs");
                worker.results.recv().expect("the thread did its job")
            }
        };
        for block in blocks {
            self.bytes += block.size();
            self.blocks.push_back(block);
        }
        while self.bytes > MOST {
            let oldest = self.take(0).into_iter().collect();
            perform(self.front_end, &mut self.oracle, Job::Dealloc(oldest));
        }
    }

    fn worker(&mut self, i: usize) -> &Worker<'scope> {
        let (front_end, ranges) = (self.front_end, self.ranges);
        self.workers[i].get_or_insert_with(|| {
            self.oracles += 1;
            let salt = self.oracles;
            let (jobs, received) = sync_channel(0);
            let (sender, results) = sync_channel(0);
            let thread = self.scope.spawn(move || {
                let mut oracle = Oracle::new(front_end, ranges, salt);
                for job in received {
                    let blocks = perform(front_end, &mut oracle, job);
                    sender.send(blocks).expect("the sequence waits for it");
                }
            });
            Worker {
                jobs,
                results,
                thread,
            }
        })
    }

    fn end(&mut self, i: usize) {
        if let Some(Worker { jobs, thread, .. }) = self.workers[i].take() {
            drop(jobs);
            thread.join().unwrap();
        }
    }

    fn take(&mut self, at: usize) -> Option<Block> {
        let at = at.checked_rem(self.blocks.len())?;
        let block = self.blocks.swap_remove_back(at)?;
        self.bytes -= block.size();
        Some(block)
    }

    fn layout(size: crate::ops::Size, align: Align) -> Layout {
        Layout::from_size_align(size.bytes(Self::LEAST), align.bytes()).unwrap()
    }

    /// Does a step; `rest` are those that follow.
    fn step(&mut self, step: Step, rest: &[Step]) {
        let who = step.who();
        match step.op {
            Op::Alloc(size, align) => self.have(who, Job::Alloc(Self::layout(size, align), 1)),
            Op::AllocZeroed(size, align) => {
                self.have(who, Job::AllocZeroed(Self::layout(size, align)));
            }
            Op::Realloc(at, size) => {
                if let Some(block) = self.take(at.into()) {
                    self.have(who, Job::Realloc(block, size.bytes(1)));
                }
            }
            Op::ReallocToUsable(at) => {
                if let Some(block) = self.take(at.into()) {
                    let size = block.size().max(1);
                    self.have(who, Job::Realloc(block, size));
                }
            }
            Op::Dealloc(at) => {
                let block = self.take(at.into());
                self.have(who, Job::Dealloc(block.into_iter().collect()));
            }
            Op::Fill(count, size) => {
                let layout = Self::layout(size, Align::LEAST);
                // Large blocks need no company, and take long to check.
                let most = (1 << 20) / layout.size().max(1);
                self.have(who, Job::Alloc(layout, usize::from(count).min(most.max(1))));
            }
            Op::Thin(step) => {
                let numbers = (0..self.blocks.len()).rev().step_by(usize::from(step) + 1);
                let blocks = numbers.filter_map(|at| self.take(at)).collect();
                self.have(who, Job::Dealloc(blocks));
            }
            Op::Trim => self.have(who, Job::Trim),
            Op::End => (0..THREADS).for_each(|i| {
                if who == 0 || who == i + 1 {
                    self.end(i);
                }
            }),
            Op::Fork(steps) => self.fork(&rest[..rest.len().min(steps.into())]),
        }
    }

    fn fork(&mut self, steps: &[Step]) {
        if self.forks_left == 0 {
            return;
        }
        self.forks_left -= 1;
        // SAFETY: the other threads wait for jobs, and hold nothing.
        match unsafe { libc::fork() } {
            0 => {
                self.oracles += 1 << 16;
                for worker in &mut self.workers {
                    std::mem::forget(worker.take()); // There is no such thread here.
                }
                let done = catch_unwind(AssertUnwindSafe(|| self.run(steps)));
                // SAFETY: nothing is to run here that the parent will run.
                unsafe { libc::_exit(done.is_err().into()) }
            }
            // No more processes: not this test's matter.
            -1 => {}
            child => assert_eq!(wait(child), 0, "the child failed"),
        }
    }

    /// Does all steps, then checks and frees what is left.
    fn run(&mut self, steps: &[Step]) {
        for (i, &step) in steps.iter().enumerate() {
            self.step(step, &steps[i + 1..]);
        }
        while let Some(block) = self.take(0) {
            self.have(0, Job::Dealloc(vec![block]));
        }
        (0..THREADS).for_each(|i| self.end(i));
        self.ranges.assert_empty();
    }
}

/// A child's status, once it has ended.
pub fn wait(child: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: waits for our own child. libFuzzer's timer interrupts it.
    while unsafe { libc::waitpid(child, &mut status, 0) } != child {
        let error = std::io::Error::last_os_error();
        assert_eq!(error.raw_os_error(), Some(libc::EINTR), "{error}");
    }
    status
}

/// Runs a sequence; panics when the allocator breaks a promise.
pub fn run<D: Fuzzed>(front_end: D, steps: &[Step]) {
    let ranges = Ranges::default();
    thread::scope(|scope| {
        let mut caller = Caller {
            scope,
            front_end,
            ranges: &ranges,
            oracle: Oracle::new(front_end, &ranges, 0),
            workers: [const { None }; THREADS],
            oracles: 0,
            blocks: VecDeque::new(),
            bytes: 0,
            forks_left: FORKS,
        };
        caller.run(steps);
    });
}
