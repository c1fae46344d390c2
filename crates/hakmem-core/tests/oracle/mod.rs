//! An oracle for allocators, which checks what callers rely on.
//!
//! Blocks lie in no others, are aligned, zero where asked, keep their contents until freed, and have a usable size that is
//! constant and writable to its end. The oracle keeps its books in the test's own heap, the system's, so that a bug in
//! the allocator under test cannot hide itself by damaging them. The property tests, the stress and the fuzz targets all
//! drive it.
#![allow(
    dead_code,
    unused_imports,
    reason = "each user of this module needs a part of it"
)]

#[path = "../../src/testing/alone.rs"]
mod alone;
mod blocks;
mod door;
#[path = "../../src/testing/in_child.rs"]
mod in_child;
pub mod pattern;
pub mod plain;

pub use alone::{alone, apart};
pub use blocks::{elsewhere, free_all, layout};
pub use door::{C, Door, Rust};
pub use in_child::{goes_well_in_child, in_child};
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// `full` of something, or the part of it that `TEST_HAKMEM_SHARE` says: where a test runs often, as for each mutant.
pub fn share(full: usize) -> usize {
    let share =
        std::env::var("TEST_HAKMEM_SHARE").map_or(1, |s| s.parse().expect("a share is a number"));
    (full / share).max(1)
}

/// Bytes of the system's pages, as the allocator has it: with its feature `fault-injection`, larger ones than the machine's if
/// `TEST_HAKMEM_PAGE_BYTES` says so (`ci/page-sizes`).
pub fn page_size() -> usize {
    // SAFETY: no preconditions.
    let machine = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let larger = std::env::var("TEST_HAKMEM_PAGE_BYTES");
    larger.map_or(machine, |bytes| bytes.parse().expect("a number of bytes"))
}

/// For this process, and for good.
pub fn limit_address_space(bytes: usize) {
    let limit = libc::rlimit {
        rlim_cur: bytes as u64,
        rlim_max: bytes as u64,
    };
    // SAFETY: reads the structure.
    let done = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    assert_eq!(done, 0);
}

/// The address ranges that are out, of all threads.
#[derive(Debug, Default)]
pub struct Ranges(Mutex<BTreeMap<usize, usize>>);

impl Ranges {
    /// Notes a range. Fails if it overlaps another one.
    pub fn claim(&self, start: usize, len: usize) {
        let end = start
            .checked_add(len)
            .expect("block wraps around the address space");
        let mut ranges = self.0.lock().unwrap();
        if let Some((&other, &other_end)) = ranges.range(..end).next_back() {
            assert!(
                other_end <= start,
                "block {start:#x}..{end:#x} overlaps block {other:#x}..{other_end:#x}"
            );
        }
        ranges.insert(start, end);
    }

    fn release(&self, start: usize) {
        self.0
            .lock()
            .unwrap()
            .remove(&start)
            .expect("released range is known");
    }

    /// Fails if blocks are still out.
    pub fn assert_empty(&self) {
        assert!(
            self.0.lock().unwrap().is_empty(),
            "blocks were lost by the test"
        );
    }
}

/// A block that is out. It can be sent to another thread and be freed there.
#[derive(Debug)]
pub struct Block {
    start: usize,
    layout: Layout,
    /// Bytes that hold the pattern: the usable size where the door tells it, the requested size where not.
    len: usize,
    seed: u64,
}

impl Block {
    /// Bytes of memory that it takes, at least.
    pub fn size(&self) -> usize {
        self.len
    }

    /// Where it begins.
    pub fn address(&self) -> usize {
        self.start
    }

    fn ptr(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.start)
    }
}

/// One caller's view of an allocator under test.
#[derive(Debug)]
pub struct Oracle<'a, D> {
    door: D,
    ranges: &'a Ranges,
    seed: u64,
}

impl<'a, D: Door> Oracle<'a, D> {
    /// `salt` makes the patterns of several oracles different.
    pub fn new(door: D, ranges: &'a Ranges, salt: u64) -> Self {
        Self {
            door,
            ranges,
            seed: salt << 32,
        }
    }

    /// Allocates, checks and fills a block. Panics when memory runs out, as most tests stay far below the machine's.
    pub fn alloc(&mut self, layout: Layout) -> Block {
        let block = self.try_alloc(layout);
        block.unwrap_or_else(|| panic!("no memory for {layout:?}"))
    }

    /// As `alloc`; the requested bytes must be zero.
    pub fn alloc_zeroed(&mut self, layout: Layout) -> Block {
        let block = self.try_alloc_zeroed(layout);
        block.unwrap_or_else(|| panic!("no memory for {layout:?}"))
    }

    /// Resizes the block, checking that the contents come along.
    pub fn realloc(&mut self, block: Block, size: usize) -> Block {
        let resized = self.try_realloc(block, size);
        resized.unwrap_or_else(|block| panic!("no memory to resize {block:?} to {size}"))
    }

    /// As `alloc`. None: no memory.
    pub fn try_alloc(&mut self, layout: Layout) -> Option<Block> {
        let start = self.door.alloc(layout);
        (!start.is_null()).then(|| self.admit(start, layout))
    }

    /// As `alloc_zeroed`. None: no memory.
    pub fn try_alloc_zeroed(&mut self, layout: Layout) -> Option<Block> {
        let start = self.door.alloc_zeroed(layout);
        if start.is_null() {
            return None;
        }
        // SAFETY: `alloc_zeroed` initialises the layout's size.
        let bytes = unsafe { std::slice::from_raw_parts(start, layout.size()) };
        if let Some((at, found)) = pattern::not_zero(bytes) {
            panic!("byte {at} of zeroed block {start:p} ({layout:?}) is {found:#x}");
        }
        Some(self.admit(start, layout))
    }

    /// As `realloc`. No memory: the block, which must be as it was.
    pub fn try_realloc(&mut self, block: Block, size: usize) -> Result<Block, Block> {
        self.check(&block);
        let layout =
            Layout::from_size_align(size, self.door.realloc_align(block.layout.align())).unwrap();
        // As soon as the allocator moves the block, another thread may get the old range.
        self.ranges.release(block.start);
        let start = self.door.realloc(block.ptr(), block.layout, size);
        if start.is_null() {
            self.ranges.claim(block.start, block.len.max(1));
            self.check(&block);
            return Err(block);
        }
        // Between the two the allocator may prefer a block that fits better.
        assert!(
            !D::TELLS_USABLE || size != block.len || start == block.ptr(),
            "moved {block:?} for its usable size"
        );
        verify(start, block.len.min(size), &block);
        Ok(self.admit(start, layout))
    }

    /// Checks the block's contents and frees it.
    pub fn dealloc(&mut self, block: Block) {
        self.check(&block);
        self.ranges.release(block.start);
        self.door.dealloc(block.ptr(), block.layout);
    }

    /// Checks that a block is as its owner left it.
    pub fn check(&self, block: &Block) {
        verify(block.ptr(), block.len, block);
        let usable = self.door.usable(block.ptr()).unwrap_or(block.len);
        assert_eq!(usable, block.len, "usable size of {block:?} changed");
    }

    fn admit(&mut self, start: *mut u8, layout: Layout) -> Block {
        assert!(
            start.addr().is_multiple_of(layout.align()),
            "{start:p} is not aligned for {layout:?}"
        );
        let len = self.door.usable(start).unwrap_or(layout.size());
        assert!(
            len >= layout.size(),
            "usable size {len} is less than asked for, {layout:?}"
        );
        self.ranges.claim(start.addr(), len.max(1));
        self.seed += 1;
        // SAFETY: the allocator handed it out, usable to its end.
        unsafe { pattern::fill(start, len, self.seed) };
        Block {
            start: start.expose_provenance(),
            layout,
            len,
            seed: self.seed,
        }
    }
}

fn verify(start: *mut u8, len: usize, block: &Block) {
    // SAFETY: `len` bytes from `start` were filled, by `admit` or by a realloc that copied them.
    let bytes = unsafe { std::slice::from_raw_parts(start, len) };
    if let Some((at, found, expected)) = pattern::difference(bytes, block.seed) {
        panic!("byte {at} at {start:p} of {block:?} is {found:#x}, not {expected:#x}");
    }
}
