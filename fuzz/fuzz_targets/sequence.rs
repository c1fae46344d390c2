//! Sequences of operations that the fuzzer makes up, against the oracle.

use crate::oracle::{Block, Door, Oracle, Ranges};
use arbitrary::Arbitrary;
use std::alloc::Layout;
use std::collections::VecDeque;

/// One operation. Blocks are looked up by number, modulo the number of live blocks.
#[derive(Debug, Arbitrary)]
pub enum Op {
    Alloc(Size, Align),
    AllocZeroed(Size, Align),
    Realloc(u8, Size),
    Dealloc(u8),
    /// Several blocks of one size, so that short inputs fill pages.
    Fill(u8, Size),
    /// Frees every so many blocks, so that short inputs make holes.
    Thin(u8),
    /// Frees a block on a thread of its own, that ends at once.
    DeallocElsewhere(u8),
    /// Gives free memory back, which must not touch what is live.
    Trim,
}

/// A size as a mantissa and an exponent, so that all magnitudes are equally easy to reach, and a small distance from it.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub struct Size(u8, u8, i8);

impl Size {
    fn bytes(self, least: usize) -> usize {
        let Self(mantissa, exponent, distance) = self;
        let size = (8 + usize::from(mantissa % 8)) << (exponent % 20);
        (size / 8).saturating_add_signed(distance.into()).max(least)
    }
}

/// An alignment: mostly small ones, up to 1 MiB.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub struct Align(u8);

impl Align {
    fn bytes(self) -> usize {
        match self.0 {
            0..224 => 1 << (self.0 % 5),
            high => 1 << (high % 21),
        }
    }
}

/// What may be held at once, as libFuzzer limits memory.
const MOST: usize = 128 << 20;

struct Caller<'a, D> {
    oracle: Oracle<'a, D>,
    blocks: VecDeque<Block>,
    bytes: usize,
}

impl<D: Door> Caller<'_, D> {
    fn keep(&mut self, block: Block) {
        self.bytes += block.size();
        self.blocks.push_back(block);
        while self.bytes > MOST {
            self.free(0);
        }
    }

    fn take(&mut self, at: usize) -> Option<Block> {
        let block = self
            .blocks
            .swap_remove_back(at.checked_rem(self.blocks.len())?)?;
        self.bytes -= block.size();
        Some(block)
    }

    fn free(&mut self, at: usize) {
        if let Some(block) = self.take(at) {
            self.oracle.dealloc(block);
        }
    }
}

/// Runs a sequence; panics when the allocator breaks a promise.
pub fn run<D: Door + Send>(door: D, ops: &[Op]) {
    let ranges = Ranges::default();
    let least = usize::from(!D::EMPTY);
    let oracle = Oracle::new(door, &ranges, 0);
    let mut caller = Caller {
        oracle,
        blocks: VecDeque::new(),
        bytes: 0,
    };
    let layout = |size: Size, align: Align| {
        Layout::from_size_align(size.bytes(least), align.bytes()).unwrap()
    };
    for op in ops {
        match *op {
            Op::Alloc(size, align) => {
                let block = caller.oracle.alloc(layout(size, align));
                caller.keep(block);
            }
            Op::AllocZeroed(size, align) => {
                let block = caller.oracle.alloc_zeroed(layout(size, align));
                caller.keep(block);
            }
            Op::Realloc(at, size) => {
                if let Some(block) = caller.take(at.into()) {
                    let block = caller.oracle.realloc(block, size.bytes(1));
                    caller.keep(block);
                }
            }
            Op::Dealloc(at) => caller.free(at.into()),
            Op::Fill(count, size) => {
                let layout = layout(size, Align(0));
                // Large blocks need no company, and take long to check.
                let most = (1 << 20) / layout.size().max(1);
                for _ in 0..usize::from(count).min(most.max(1)) {
                    let block = caller.oracle.alloc(layout);
                    caller.keep(block);
                }
            }
            Op::Thin(step) => {
                let step = usize::from(step) + 1;
                for at in (0..caller.blocks.len()).rev().step_by(step) {
                    caller.free(at);
                }
            }
            Op::DeallocElsewhere(at) => {
                if let Some(block) = caller.take(at.into()) {
                    let mut oracle = Oracle::new(door, &ranges, 1);
                    std::thread::scope(|scope| scope.spawn(move || oracle.dealloc(block)).join())
                        .unwrap();
                }
            }
            Op::Trim => {
                hakmem_core::c::trim();
            }
        }
    }
    while !caller.blocks.is_empty() {
        caller.free(0);
    }
    ranges.assert_empty();
}
