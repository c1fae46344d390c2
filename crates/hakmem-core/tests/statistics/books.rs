//! What the tests count themselves.

pub use crate::oracle::Random;
use hakmem_core::c;
use hakmem_core::stats::Snapshot;

/// The size of a request: mostly small.
pub fn size_by(random: &mut Random) -> usize {
    match random.below(1000) {
        0 => 1 + random.below(5 << 20),
        1..10 => 1 + random.below(1 << 20),
        10..100 => 1 + random.below(64 << 10),
        _ => 1 + random.below(512),
    }
}

/// A block, as a number that threads may pass on.
#[derive(Clone, Copy)]
pub struct Block(pub usize);

impl Block {
    pub fn new(size: usize) -> Self {
        // SAFETY: the block is only freed.
        let p = unsafe { c::malloc(size) };
        assert!(!p.is_null());
        Self(p.expose_provenance())
    }

    pub fn at(self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.0)
    }

    pub fn usable(self) -> usize {
        // SAFETY: live.
        unsafe { c::usable_size(self.at()) }
    }

    pub fn free(self) {
        // SAFETY: live, and gone from here on.
        unsafe { c::free(self.at()) }
    }
}

/// What the test counts itself.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Oracle {
    pub allocations: u64,
    pub frees: u64,
    /// By usable size, for classes: allocations and frees.
    pub classes: std::collections::BTreeMap<u64, (u64, u64)>,
}

pub const CLASS_MAX: usize = 64 << 10;

impl Oracle {
    pub fn alloc(&mut self, size: usize) -> Block {
        let block = Block::new(size);
        self.allocations += 1;
        if block.usable() <= CLASS_MAX {
            self.classes.entry(block.usable() as u64).or_default().0 += 1;
        }
        block
    }

    pub fn free(&mut self, block: Block) {
        self.frees += 1;
        if block.usable() <= CLASS_MAX {
            self.classes.entry(block.usable() as u64).or_default().1 += 1;
        }
        block.free();
    }

    pub fn add(&mut self, other: &Self) {
        self.allocations += other.allocations;
        self.frees += other.frees;
        for (&size, of) in &other.classes {
            let sum = self.classes.entry(size).or_default();
            (sum.0, sum.1) = (sum.0 + of.0, sum.1 + of.1);
        }
    }
}

pub fn by_class(snapshot: &Snapshot) -> Vec<(u64, u64, u64, u64)> {
    snapshot
        .classes()
        .map(|c| (c.size, c.allocations, c.frees, c.live_bytes))
        .collect()
}

/// Asserts that the classes moved from `before` to now by what the oracle says.
pub fn assert_classes(before: &[(u64, u64, u64, u64)], now: &Snapshot, oracle: &Oracle) {
    for (before, now) in before.iter().zip(by_class(now)) {
        let &(allocated, freed) = oracle.classes.get(&now.0).unwrap_or(&(0, 0));
        assert_eq!(
            (now.1 - before.1, now.2 - before.2),
            (allocated, freed),
            "blocks of {} bytes",
            now.0
        );
        let live = before.3 as i64 + (allocated as i64 - freed as i64) * now.0 as i64;
        assert_eq!(
            now.3 as i64, live,
            "live bytes in blocks of {} bytes",
            now.0
        );
    }
}
