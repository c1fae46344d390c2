//! The allocator as the workloads use it: through the oracle, and with an answer for every failure.

use crate::oracle::{Block, C, Oracle, Ranges};
use std::alloc::Layout;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One heap for all threads of a case.
#[derive(Default)]
pub struct Heap {
    ranges: Ranges,
    nulls: AtomicU64,
    callers: AtomicU64,
}

/// One thread's view of it.
pub struct Caller<'a> {
    heap: &'a Heap,
    oracle: RefCell<Oracle<'a, C>>,
    /// Whether errno tells of nothing but the allocator: with threads, the oracle's lock may set
    /// it.
    pub alone: bool,
}

fn errno() -> &'static mut i32 {
    // SAFETY: the calling thread's own, used within one function.
    unsafe { &mut *libc::__errno_location() }
}

pub fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

impl Heap {
    pub fn caller(&self, alone: bool) -> Caller<'_> {
        let salt = self.callers.fetch_add(1, Relaxed) + 1;
        let oracle = RefCell::new(Oracle::new(C, &self.ranges, salt));
        Caller {
            heap: self,
            oracle,
            alone,
        }
    }

    /// Allocations that got NULL so far.
    pub fn nulls(&self) -> u64 {
        self.nulls.load(Relaxed)
    }

    /// The calls work again: all blocks are whole, every kind of block is to be had, and all of it
    /// comes back.
    pub fn recovers(&self, blocks: Vec<Block>) {
        let caller = self.caller(false);
        for block in &blocks {
            caller.check(block);
        }
        let before = self.nulls();
        let sizes = [
            16,
            100,
            1000,
            5000,
            40_000,
            100_000,
            700_000,
            2 << 20,
            5 << 20,
        ];
        let mut more: Vec<Block> = sizes.iter().filter_map(|&n| caller.alloc(n)).collect();
        more.extend(sizes.iter().filter_map(|&n| caller.zeroed(n)));
        more.extend(
            [32, 4096, 1 << 16, 4 << 20]
                .iter()
                .filter_map(|&a| caller.aligned(10_000, a)),
        );
        more = more.into_iter().map(|b| caller.resize(b, 70_000)).collect();
        more.extend((0..2000).filter_map(|_| caller.alloc(500)));
        assert_eq!(self.nulls(), before, "memory is not to be had again");
        blocks.into_iter().chain(more).for_each(|b| caller.free(b));
        self.ranges.assert_empty();
        hakmem_core::c::trim();
        caller.alloc(100).into_iter().for_each(|b| caller.free(b));
        assert_eq!(self.nulls(), before, "memory is not to be had again");
    }
}

impl Caller<'_> {
    fn got(&self, block: Option<Block>) -> Option<Block> {
        if block.is_none() {
            assert_eq!(*errno(), libc::ENOMEM, "NULL without ENOMEM");
            self.heap.nulls.fetch_add(1, Relaxed);
        }
        block
    }

    pub fn alloc(&self, size: usize) -> Option<Block> {
        self.aligned(size, 16)
    }

    pub fn aligned(&self, size: usize, align: usize) -> Option<Block> {
        *errno() = 0;
        let block = self.oracle.borrow_mut().try_alloc(layout(size, align));
        self.got(block)
    }

    pub fn zeroed(&self, size: usize) -> Option<Block> {
        *errno() = 0;
        let block = self.oracle.borrow_mut().try_alloc_zeroed(layout(size, 16));
        self.got(block)
    }

    /// The block, resized or as it was.
    pub fn resize(&self, block: Block, size: usize) -> Block {
        let shrinks = size <= block.size();
        *errno() = 0;
        let resized = self.oracle.borrow_mut().try_realloc(block, size);
        resized.unwrap_or_else(|block| {
            assert!(!shrinks, "{block:?} cannot shrink to {size}");
            self.got(None);
            block
        })
    }

    pub fn check(&self, block: &Block) {
        self.oracle.borrow().check(block);
    }

    pub fn free(&self, block: Block) {
        const MINE: i32 = 77;
        *errno() = MINE;
        self.oracle.borrow_mut().dealloc(block);
        assert!(
            !self.alone || *errno() == MINE,
            "free changed errno to {}",
            *errno()
        );
    }

    /// Frees all blocks but one in `keep`, which are returned.
    pub fn thin_out(&self, blocks: Vec<Block>, keep: usize) -> Vec<Block> {
        let mut kept = Vec::new();
        for (i, block) in blocks.into_iter().enumerate() {
            if i % keep == keep / 2 {
                kept.push(block)
            } else {
                self.free(block)
            }
        }
        kept
    }
}
