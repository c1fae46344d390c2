//! Random sequences of operations through both front ends of the allocator, against the oracle.

use crate::oracle;

use oracle::{Block, C, FrontEnd, Oracle, Ranges, Rust, share};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use std::alloc::Layout;
use std::ops::Range;
use std::sync::mpsc;
use std::thread;

/// Where blocks are looked up by numbers that the sequence makes up, modulo the number of live
/// blocks.
#[derive(Debug, Clone)]
enum Op {
    Alloc(Layout),
    AllocZeroed(Layout),
    Realloc(usize, usize),
    /// To the size that the block has anyway.
    ReallocToUsable(usize),
    Dealloc(usize),
    /// To the thread of that number, modulo the number of threads.
    Send(usize, usize),
}

const MIB: usize = 1 << 20;
const GIB: usize = 1024 * MIB;

/// Sizes around which allocators change their ways: classes, pages, segments.
fn boundary(shifts: Range<u32>) -> impl Strategy<Value = usize> {
    // The powers of two, and between them eight steps per doubling.
    let size = (shifts, prop_oneof![Just(8usize), 9usize..16])
        .prop_map(|(shift, eighths)| (eighths << shift) / 8);
    let near = prop::sample::select(vec![-4096, -64, -16, -8, -1, 0, 0, 1, 8, 16, 64, 4096]);
    (size, near)
        .prop_map(|(size, offset): (usize, isize)| size.saturating_add_signed(offset).max(1))
}

fn size() -> impl Strategy<Value = usize> {
    let logarithmic = (0u32..16).prop_flat_map(|shift| (1usize << shift)..(2 << shift));
    prop_oneof![
        300 => 1usize..=128,
        300 => 1usize..=1040,
        200 => boundary(3..14),
        150 => logarithmic,
        40 => boundary(14..18),
        // Rare for they take most of the time.
        10 => boundary(18..23),
        2 => MIB / 2..=6 * MIB,
    ]
}

fn align() -> impl Strategy<Value = usize> {
    let power = |shifts: std::ops::RangeInclusive<u32>| shifts.prop_map(|shift| 1usize << shift);
    prop_oneof![200 => power(0..=4), 30 => power(5..=12), 15 => power(13..=20), 1 => Just(GIB)]
}

fn layout(empty: bool) -> impl Strategy<Value = Layout> {
    let size = size().prop_map(move |size| if empty && size == 1 { 0 } else { size });
    (size, align()).prop_map(|(size, align)| Layout::from_size_align(size, align).unwrap())
}

/// A sequence for a front end, of which `sends` in 100 operations or so hand blocks on.
fn ops<D: FrontEnd>(length: usize, sends: u32) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        40 => layout(D::EMPTY).prop_map(Op::Alloc),
        15 => layout(D::EMPTY).prop_map(Op::AllocZeroed),
        15 => (any::<usize>(), size()).prop_map(|(at, size)| Op::Realloc(at, size)),
        2 => any::<usize>().prop_map(Op::ReallocToUsable),
        30 => any::<usize>().prop_map(Op::Dealloc),
        sends => (any::<usize>(), any::<usize>()).prop_map(|(at, to)| Op::Send(at, to)),
    ];
    prop::collection::vec(op, 1..length)
}

/// One thread's live blocks.
struct Caller<'a, D> {
    oracle: Oracle<'a, D>,
    blocks: Vec<Block>,
    bytes: usize,
}

impl<'a, D: FrontEnd> Caller<'a, D> {
    /// What one thread may hold, so that the machine's memory suffices.
    const MOST: usize = 64 * MIB;

    fn new(front_end: D, ranges: &'a Ranges, salt: u64) -> Self {
        Self {
            oracle: Oracle::new(front_end, ranges, salt),
            blocks: Vec::new(),
            bytes: 0,
        }
    }

    fn keep(&mut self, block: Block) {
        self.bytes += block.size();
        self.blocks.push(block);
        while self.bytes > Self::MOST {
            let oldest = self.take(0).expect("bytes are held in blocks");
            self.oracle.dealloc(oldest);
        }
    }

    fn take(&mut self, at: usize) -> Option<Block> {
        let at = at.checked_rem(self.blocks.len())?;
        let block = self.blocks.swap_remove(at);
        self.bytes -= block.size();
        Some(block)
    }

    /// Returns a block that is to be sent, and the number of its receiver.
    fn apply(&mut self, op: Op) -> Option<(usize, Block)> {
        match op {
            Op::Alloc(layout) => {
                let block = self.oracle.alloc(layout);
                self.keep(block);
            }
            Op::AllocZeroed(layout) => {
                let block = self.oracle.alloc_zeroed(layout);
                self.keep(block);
            }
            Op::Realloc(at, size) => {
                if let Some(block) = self.take(at) {
                    let block = self.oracle.realloc(block, size);
                    self.keep(block);
                }
            }
            Op::ReallocToUsable(at) => {
                if let Some(block) = self.take(at) {
                    let size = block.size().max(1);
                    let block = self.oracle.realloc(block, size);
                    self.keep(block);
                }
            }
            Op::Dealloc(at) => {
                if let Some(block) = self.take(at) {
                    self.oracle.dealloc(block);
                }
            }
            Op::Send(at, to) => return self.take(at).map(|block| (to, block)),
        }
        None
    }

    fn free_all(&mut self) {
        while let Some(block) = self.take(0) {
            self.oracle.dealloc(block);
        }
    }
}

fn one_thread<D: FrontEnd>(front_end: D, ops: Vec<Op>) {
    let ranges = Ranges::default();
    let mut caller = Caller::new(front_end, &ranges, 0);
    for op in ops {
        caller.apply(op);
    }
    for block in &caller.blocks {
        caller.oracle.check(block);
    }
    caller.free_all();
    ranges.assert_empty();
}

/// Each thread runs its own sequence; blocks that arrive from others are used as its own.
fn several_threads<D: FrontEnd + Send>(front_end: D, sequences: Vec<Vec<Op>>) {
    let ranges = Ranges::default();
    let (senders, receivers): (Vec<_>, Vec<_>) = sequences.iter().map(|_| mpsc::channel()).unzip();
    thread::scope(|scope| {
        for (salt, (ops, receiver)) in (1..).zip(sequences.into_iter().zip(receivers)) {
            let (ranges, senders) = (&ranges, senders.clone());
            scope.spawn(move || {
                let mut caller = Caller::new(front_end, ranges, salt);
                for op in ops {
                    if let Ok(block) = receiver.try_recv() {
                        caller.keep(block);
                    }
                    if let Some((to, block)) = caller.apply(op) {
                        senders[to % senders.len()]
                            .send(block)
                            .expect("receivers outlive senders");
                    }
                }
                // Until the last sender is gone; the threads end at different times, with blocks of
                // each other.
                drop(senders);
                for block in receiver {
                    caller.oracle.dealloc(block);
                }
                caller.free_all();
            });
        }
        drop(senders);
    });
    ranges.assert_empty();
}

/// qemu takes the memory that MREMAP_DONTUNMAP leaves behind for unmapped. So there mremap is
/// refused, and the allocator copies.
#[cfg(feature = "fault-injection")]
fn refuse_mremap_under_an_emulator() {
    use hakmem_core::faults::{Call, Plan, arm};
    if std::env::var_os("TEST_HAKMEM_EMULATOR").is_some() {
        arm(Plan {
            kinds: 1 << Call::Mremap as u32,
            first: 1,
            count: u64::MAX,
            partial: false,
        });
    }
}

fn config(cases: u32) -> ProptestConfig {
    #[cfg(feature = "fault-injection")]
    refuse_mremap_under_an_emulator();
    // None if PROPTEST_DISABLE_FAILURE_PERSISTENCE says so.
    let failure_persistence = ProptestConfig::default()
        .failure_persistence
        .map(|_| Box::new(FileFailurePersistence::WithSource("regressions")) as _);
    // A failure among threads may not come again, so shrinking is bounded.
    ProptestConfig {
        cases: share(cases as usize) as u32,
        failure_persistence,
        max_shrink_iters: 2_000,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn one_thread_rust(ops in ops::<Rust>(300, 0)) {
        one_thread(Rust, ops);
    }

    #[test]
    fn one_thread_c(ops in ops::<C>(300, 0)) {
        one_thread(C, ops);
    }
}

proptest! {
    #![proptest_config(config(128))]

    #[test]
    fn several_threads_rust(sequences in prop::collection::vec(ops::<Rust>(200, 40), 2..5)) {
        several_threads(Rust, sequences);
    }

    #[test]
    fn several_threads_c(sequences in prop::collection::vec(ops::<C>(200, 40), 2..5)) {
        several_threads(C, sequences);
    }
}

#[test]
fn the_highest_alignment_is_usable_next_to_small_blocks() {
    let ranges = Ranges::default();
    for align in [2 * MIB, 64 * MIB, GIB] {
        let mut caller = Caller::new(Rust, &ranges, 0);
        for i in 0..64 {
            caller.apply(Op::Alloc(Layout::from_size_align(16 + i, 8).unwrap()));
        }
        caller.apply(Op::Alloc(Layout::from_size_align(100, align).unwrap()));
        caller.apply(Op::AllocZeroed(
            Layout::from_size_align(3 * MIB, align).unwrap(),
        ));
        caller.free_all();
    }
    ranges.assert_empty();
}

/// The rest of the oracle was seen to fail by breaking the allocator; overlaps end in crashes
/// before they can be seen.
#[test]
fn the_oracle_notices_overlaps() {
    for (start, len) in [(999, 2), (1000, 1), (1015, 1), (1015, 100), (0, 5000)] {
        let ranges = Ranges::default();
        ranges.claim(1000, 16);
        ranges.claim(1016, 16);
        ranges.claim(999, 1);
        let overlap = std::panic::catch_unwind(|| ranges.claim(start, len));
        assert!(overlap.is_err(), "{start} {len}");
    }
}
