//! An oracle for allocators: it checks what callers rely on.
//!
//! 1. No block overlaps another one, and each is aligned.
//! 2. A block is zero where the caller asked for that.
//! 3. A block keeps its contents until it is freed.
//! 4. The usable size of a block is constant, and the block is writable to its end.
//!
//! The oracle keeps its records in the test's own heap, which is the system's. So a bug in the
//! allocator under test cannot hide itself by damaging them. The property tests, the stress test,
//! the models of `tests/shuttle` and the fuzz targets use it.
#![allow(
    dead_code,
    unused_imports,
    reason = "each user of this module needs a part of it"
)]

#[path = "../../src/testing/alone.rs"]
mod alone;
mod blocks;
mod front_end;
#[path = "../../src/testing/in_child.rs"]
mod in_child;
pub mod pattern;
pub mod plain;
#[path = "../../src/testing/random.rs"]
mod random;

pub use alone::{alone, apart, this_program};
pub use blocks::{aligned_huge_blocks_grow, elsewhere, free_all, layout};
pub use front_end::{C, FrontEnd, Rust};
pub use in_child::{goes_well_in_child, in_child};
pub use random::Random;
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// `full`, or the part of it that the environment variable `TEST_HAKMEM_SHARE` asks for. Runs that
/// repeat a test often set it, such as those for mutants.
pub fn share(full: usize) -> usize {
    let share =
        std::env::var("TEST_HAKMEM_SHARE").map_or(1, |s| s.parse().expect("a share is a number"));
    (full / share).max(1)
}

/// The length of a system page in bytes, as the allocator sees it. With the feature
/// `fault-injection` the variable `TEST_HAKMEM_PAGE_BYTES` makes it larger than the machine's
/// (`ci/page-sizes`).
pub fn page_size() -> usize {
    // SAFETY: `sysconf` has no preconditions.
    let machine = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let larger = std::env::var("TEST_HAKMEM_PAGE_BYTES");
    larger.map_or(machine, |bytes| bytes.parse().expect("a number of bytes"))
}

/// Limits the address space of this process, for the rest of its life.
pub fn limit_address_space(bytes: usize) {
    let limit = libc::rlimit {
        rlim_cur: bytes as u64,
        rlim_max: bytes as u64,
    };
    // SAFETY: `limit` is readable for the time of the call.
    let done = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    assert_eq!(done, 0);
}

/// The address ranges of all live blocks, of all threads.
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

    /// Fails if a block is still live.
    pub fn assert_empty(&self) {
        assert!(
            self.0.lock().unwrap().is_empty(),
            "blocks were lost by the test"
        );
    }
}

/// A live block. A test may send it to another thread, which frees it.
#[derive(Debug)]
pub struct Block {
    start: usize,
    layout: Layout,
    /// How many bytes hold the pattern: the usable size if the front end reports it, else the
    /// requested size.
    len: usize,
    seed: u64,
}

impl Block {
    /// How many bytes the block has, at least.
    pub fn size(&self) -> usize {
        self.len
    }

    /// The block's address.
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
    front_end: D,
    ranges: &'a Ranges,
    seed: u64,
}

impl<'a, D: FrontEnd> Oracle<'a, D> {
    /// `salt` makes the patterns of several oracles different.
    pub fn new(front_end: D, ranges: &'a Ranges, salt: u64) -> Self {
        Self {
            front_end,
            ranges,
            seed: salt << 32,
        }
    }

    /// Allocates, checks and fills a block. Panics when memory runs out: most tests need far less
    /// than the machine has.
    pub fn alloc(&mut self, layout: Layout) -> Block {
        let block = self.try_alloc(layout);
        block.unwrap_or_else(|| panic!("no memory for {layout:?}"))
    }

    /// As `alloc`, and checks that the requested bytes are zero.
    pub fn alloc_zeroed(&mut self, layout: Layout) -> Block {
        let block = self.try_alloc_zeroed(layout);
        block.unwrap_or_else(|| panic!("no memory for {layout:?}"))
    }

    /// Resizes the block, and checks that it keeps its contents.
    pub fn realloc(&mut self, block: Block, size: usize) -> Block {
        let resized = self.try_realloc(block, size);
        resized.unwrap_or_else(|block| panic!("no memory to resize {block:?} to {size}"))
    }

    /// As `alloc`. Returns None if memory runs out.
    pub fn try_alloc(&mut self, layout: Layout) -> Option<Block> {
        let start = self.front_end.alloc(layout);
        (!start.is_null()).then(|| self.admit(start, layout))
    }

    /// As `alloc_zeroed`. Returns None if memory runs out.
    pub fn try_alloc_zeroed(&mut self, layout: Layout) -> Option<Block> {
        let start = self.front_end.alloc_zeroed(layout);
        if start.is_null() {
            return None;
        }
        // SAFETY: the block is live, and `alloc_zeroed` has initialised as many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(start, layout.size()) };
        if let Some((at, found)) = pattern::not_zero(bytes) {
            panic!("byte {at} of zeroed block {start:p} ({layout:?}) is {found:#x}");
        }
        Some(self.admit(start, layout))
    }

    /// As `realloc`. If memory runs out, checks that the block is unchanged, and returns it.
    pub fn try_realloc(&mut self, block: Block, size: usize) -> Result<Block, Block> {
        self.check(&block);
        let layout =
            Layout::from_size_align(size, self.front_end.realloc_align(block.layout.align()))
                .unwrap();
        // As soon as the allocator moves the block, another thread may get the old range.
        self.ranges.release(block.start);
        let start = self.front_end.realloc(block.ptr(), block.layout, size);
        if start.is_null() {
            self.ranges.claim(block.start, block.len.max(1));
            self.check(&block);
            return Err(block);
        }
        // Between the requested and the usable size the allocator may prefer a block that fits
        // better.
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
        self.front_end.dealloc(block.ptr(), block.layout);
    }

    /// Checks that a block is as the test left it.
    pub fn check(&self, block: &Block) {
        verify(block.ptr(), block.len, block);
        let usable = self.front_end.usable(block.ptr()).unwrap_or(block.len);
        assert_eq!(usable, block.len, "usable size of {block:?} changed");
    }

    fn admit(&mut self, start: *mut u8, layout: Layout) -> Block {
        assert!(
            start.addr().is_multiple_of(layout.align()),
            "{start:p} is not aligned for {layout:?}"
        );
        let len = self.front_end.usable(start).unwrap_or(layout.size());
        assert!(
            len >= layout.size(),
            "usable size {len} is less than asked for, {layout:?}"
        );
        self.ranges.claim(start.addr(), len.max(1));
        self.seed += 1;
        // SAFETY: the allocator has just returned the block. It is writable for `len` bytes: its
        // usable size, or the requested one.
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
    // SAFETY: the block is live, and `len` bytes of it are initialised: `admit` filled them, or a
    // realloc copied them.
    let bytes = unsafe { std::slice::from_raw_parts(start, len) };
    if let Some((at, found, expected)) = pattern::difference(bytes, block.seed) {
        panic!("byte {at} at {start:p} of {block:?} is {found:#x}, not {expected:#x}");
    }
}
