//! Errors of the program: one for each input, among operations that are right, in a child process.
//!
//! `error` says for each kind what is promised; `child` judges how the process ended; `books` know
//! which blocks must be as if nothing had happened.

mod books;
mod child;
mod error;
mod hands;

use crate::ops::{Knobs, Op, Size, Step, set};
use arbitrary::Arbitrary;
use books::{Books, Held};
use child::{Phase, enter};
use error::Error;
use hands::{Call, Hands, Through};
use std::alloc::Layout;

/// The allocator under test is the hardened build. There the size of a block that malloc tells is
/// the request's, and each block has a word more.
const HARDENED: bool = cfg!(feature = "hardened");
/// Bytes that a block has behind the size that malloc tells, at least.
const BEHIND: usize = if HARDENED { 8 } else { 0 };

/// What a child does.
#[derive(Debug, Arbitrary)]
pub struct Input {
    error: Error,
    /// Steps before the first part of the error, which may be an operation that is right: the first
    /// free.
    first: u8,
    /// Steps from there to the error itself.
    later: u8,
    /// The program writes to what it was given wrongly.
    scribbles: bool,
    knobs: Knobs,
    steps: Vec<Step>,
}

/// What may be held at once.
const MOST: usize = 16 << 20;

/// Runs an input; panics if what becomes of the child is not what is promised.
pub fn run(input: &Input) {
    let ending = child::run(|| live(input));
    assert!(ending.is_as_promised(), "{ending:x?}");
}

fn live(input: &Input) {
    input.knobs.set();
    set([format!("HAKMEM_FOREIGN={}", input.error.foreign())].into_iter());
    let mut program = Program::default();
    program.books.scribbles = input.scribbles && !input.error.writes();
    let first = usize::from(input.first) % (input.steps.len() + 1);
    let (before, rest) = input.steps.split_at(first);
    let (between, after) = rest.split_at(rest.len().min(usize::from(input.later) % 8));

    if input.error.writes() && !between.is_empty() {
        // A heap that is made now cannot be made of the freed block's place: of a write to that,
        // nothing is promised.
        program.alloc(0, Through::C, Layout::new::<u128>());
    }
    before.iter().for_each(|&step| program.step(step));
    let prepared = input.error.prepare(&mut program);
    program.books.watch();
    between.iter().for_each(|&step| program.step(step));
    program.books.check_all();
    enter(Phase::Error);
    input.error.make(&mut program, &prepared);
    enter(Phase::After);
    after.iter().for_each(|&step| program.step(step));
    program.go_on(prepared.layout);
    program.finish();
}

/// A program that is right but for one thing.
#[derive(Default)]
struct Program {
    hands: Hands,
    books: Books,
}

/// What is asked for: with a small alignment through either front end.
fn request(size: Size, align: usize) -> (Through, Layout) {
    let through = if align <= 8 {
        Through::Rust
    } else {
        Through::C
    };
    (
        through,
        Layout::from_size_align(size.bytes(1), align).unwrap(),
    )
}

impl Program {
    fn alloc(&mut self, who: usize, through: Through, layout: Layout) -> Option<Held> {
        let start = self.hands.have(who, Call::Alloc(through, layout));
        self.admit(start, layout, through)
    }

    fn alloc_zeroed(&mut self, who: usize, through: Through, layout: Layout) {
        if through == Through::Rust || layout.align() <= 16 {
            let start = self.hands.have(who, Call::AllocZeroed(through, layout));
            if start != 0 {
                self.books.check_zero(start, layout.size());
            }
            self.admit(start, layout, through);
        }
    }

    /// Enters a block into the books. 0: there was no memory.
    fn admit(&mut self, start: usize, layout: Layout, through: Through) -> Option<Held> {
        if start == 0 {
            return None;
        }
        // All of a block may be used, by C; by Rust what was asked for. The books go by pages, so
        // by what is used up.
        let len = self.hands.have(0, Call::UsableSize(start));
        self.books.admit(start, len, layout, through);
        while self.books.bytes > MOST {
            self.free(0, 0);
        }
        self.books.held.last().copied()
    }

    fn free(&mut self, who: usize, at: usize) -> Option<Held> {
        let held = self.books.take(at)?;
        let call = match held.through {
            Through::C => Call::Free(held.start),
            Through::Rust => Call::Dealloc(held.start, held.layout),
        };
        self.hands.have(who, call);
        Some(held)
    }

    fn realloc(&mut self, who: usize, at: usize, size: usize) {
        let Some(held) = self.books.take(at) else {
            return;
        };
        if held.through == Through::Rust {
            // Any front end may resize what is a multiple of 16; only to free it is what this is
            // for.
            self.hands.have(who, Call::Dealloc(held.start, held.layout));
            return;
        }
        let start = self.hands.have(who, Call::Realloc(held.start, size));
        if start != 0 {
            self.books.check(&held, start, size);
            let layout = Layout::from_size_align(size, 16).unwrap();
            self.admit(start, layout, Through::C);
        }
    }

    fn step(&mut self, step: Step) {
        let who = step.who();
        match step.op {
            Op::Alloc(size, align) => {
                let (through, layout) = request(size, align.bytes());
                self.alloc(who, through, layout);
            }
            Op::AllocZeroed(size, align) => {
                let (through, layout) = request(size, align.bytes());
                self.alloc_zeroed(who, through, layout);
            }
            Op::Realloc(at, size) => self.realloc(who, at.into(), size.bytes(1)),
            Op::ReallocToUsable(at) => {
                if let Some(at) = usize::from(at).checked_rem(self.books.held.len()) {
                    let size = self.books.held[at].len;
                    self.realloc(who, at, size.max(1));
                }
            }
            Op::Dealloc(at) => drop(self.free(who, at.into())),
            Op::Fill(count, size) => {
                let (through, layout) = request(size, 16);
                let most = (1 << 20) / layout.size();
                for _ in 0..usize::from(count).min(most.max(1)) {
                    self.alloc(who, through, layout);
                }
            }
            Op::Thin(step) => {
                for at in (0..self.books.held.len())
                    .rev()
                    .step_by(usize::from(step) + 1)
                {
                    self.free(who, at);
                }
            }
            Op::Trim => drop(self.hands.have(who, Call::Trim)),
            Op::End => self.hands.end(who),
            Op::Fork(_) => {} // That is what it is in.
        }
    }

    /// Lists change hands: what the error left in them shows.
    fn go_on(&mut self, layout: Layout) {
        // A large alignment takes as much.
        let count = (1 << 20) / layout.size().max(layout.align());
        let count = count.clamp(4, 500);
        for round in 0..2 {
            for _ in 0..count {
                self.alloc(0, Through::C, layout);
            }
            self.books.check_all();
            for at in (0..self.books.held.len()).rev().step_by(2 - round) {
                self.free(round, at);
            }
        }
    }

    fn finish(&mut self) {
        self.books.check_all();
        while self.free(0, 0).is_some() {}
        self.hands.end(0);
        self.hands.have(0, Call::Trim);
    }
}
