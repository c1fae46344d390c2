//! The heap profile against counts kept beside it: what it estimates is within the error that its
//! samples allow, and no free of a sample is missed.

use hakmem_core::c;
use hakmem_core::profile;
use hakmem_core::stats::Snapshot;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, mpsc};
use std::thread;

#[path = "profile/heaps.rs"]
mod heaps;
#[path = "../src/testing/in_child.rs"]
mod in_child;
#[path = "profile/samples.rs"]
mod samples;

use in_child::in_child;
use samples::{INTERVAL, Samples, room, samples};

/// One test at a time: the profile is the process's.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    while Snapshot::take().running_heaps() != 0 {
        thread::yield_now();
    }
    assert!(profile::start(INTERVAL));
    alone
}

/// What `now` has more of a size than `before`.
fn since(before: &BTreeMap<u64, Samples>, size: u64) -> Samples {
    let of = |samples: &BTreeMap<u64, Samples>| samples.get(&size).copied().unwrap_or_default();
    let (before, now) = (of(before), of(&samples()));
    Samples {
        live: now.live.wrapping_sub(before.live),
        all: now.all - before.all,
    }
}

/// `samples` stand for `blocks` of `size` bytes, within five standard deviations.
fn stands_for(samples: u64, blocks: u64, size: u64) {
    let p = 1.0 - (-(size as f64) / INTERVAL as f64).exp();
    let (mean, deviation) = (blocks as f64 * p, (blocks as f64 * p * (1.0 - p)).sqrt());
    let off = (samples as f64 - mean).abs();
    assert!(
        off <= 5.0 * deviation + 1e-9,
        "{samples} samples of {blocks} blocks of {size} bytes, for {mean:.1} ± {deviation:.1}"
    );
}

/// What came since `before`: it stands for `all` blocks of `size` bytes, of which `live` are live.
fn stands_for_both(before: &BTreeMap<u64, Samples>, live: usize, all: u64, size: u64) -> Samples {
    let now = since(before, size);
    stands_for(now.live, live as u64, size);
    stands_for(now.all, all, size);
    now
}

/// Takes `count` blocks. Every third one stays, the others go at once.
fn keep_thirds(count: u64, size: usize) -> Vec<Block> {
    let mut kept = Vec::new();
    for i in 0..count {
        let block = Block::new(size);
        if i % 3 == 0 {
            kept.push(block);
        }
    }
    kept
}

/// A block, as a number that threads may pass on.
struct Block(usize);

impl Block {
    fn new(size: usize) -> Self {
        // SAFETY: any size may be asked for.
        Self::at(unsafe { c::malloc(size) }, size)
    }

    fn at(p: *mut u8, size: usize) -> Self {
        assert!(!p.is_null());
        // SAFETY: fresh, and holds so much.
        unsafe {
            assert!(c::usable_size(p) >= size);
            p.write(1);
            p.add(size - 1).write(2);
        }
        Self(p.expose_provenance())
    }

    fn usable(&self) -> u64 {
        // SAFETY: live.
        room(unsafe { c::usable_size(std::ptr::with_exposed_provenance_mut(self.0)) })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: live, and gone from here on.
        unsafe { c::free(std::ptr::with_exposed_provenance_mut(self.0)) }
    }
}

/// Of all sizes: with the number of blocks to allocate.
const SIZES: [(usize, u64); 10] = [
    (16, 400_000),
    (48, 200_000),
    (112, 100_000),
    (640, 40_000),
    (1024, 20_000),
    (5000, 10_000),
    (20_000, 4_000),
    (60_000, 1_000),
    (100_000, 400),
    (3 << 20, 20),
];

#[test]
fn what_is_live_and_what_was_allocated_is_estimated_rightly() {
    let _alone = alone();
    for (size, count) in SIZES {
        let before = samples();
        let usable = Block::new(size).usable();
        let kept = keep_thirds(count - 1, size);
        let mid = stands_for_both(&before, kept.len(), count, usable);
        drop(kept);
        let end = since(&before, usable);
        assert_eq!(
            end,
            Samples {
                live: 0,
                all: mid.all
            },
            "{size}: each free of a sample is seen, and none is a sample"
        );
    }
}

/// Lists are refilled from pages in every state, and cut at any place.
#[test]
fn blocks_that_come_and_go_at_random_are_estimated_rightly() {
    let _alone = alone();
    for size in [16, 200, 1500, 12_000, 40_000] {
        let before = samples();
        let mut random = size as u64;
        let mut slots: Vec<Option<Block>> = (0..1000).map(|_| None).collect();
        let (mut allocated, mut usable) = (0, 0);
        for _ in 0..100_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let slot = &mut slots[random as usize % 1000];
            *slot = match slot.take() {
                Some(_) => None,
                None => {
                    allocated += 1;
                    let block = Block::new(size);
                    usable = block.usable();
                    Some(block)
                }
            };
        }
        stands_for(since(&before, usable).all, allocated, usable);
        drop(slots);
        assert_eq!(since(&before, usable).live, 0);
    }
}

/// One thread allocates, another frees; threads that end and begin take the same heaps.
#[test]
fn threads_are_one_profile() {
    let _alone = alone();
    const SIZE: usize = 320;
    const EACH: u64 = 5_000;
    let before = samples();
    let (send, receive) = mpsc::channel::<Block>();
    let rounds = 20;
    thread::scope(|scope| {
        scope.spawn(move || receive.into_iter().for_each(drop));
        for _ in 0..rounds {
            let pair = [send.clone(), send.clone()];
            let pair = pair.map(|send| {
                scope.spawn(move || (0..EACH).for_each(|_| send.send(Block::new(SIZE)).unwrap()))
            });
            pair.into_iter().for_each(|thread| thread.join().unwrap());
        }
        drop(send);
    });
    let size = Block::new(SIZE).usable();
    let end = since(&before, size);
    stands_for(end.all, rounds * 2 * EACH, size);
    assert_eq!(end.live, 0);
}

#[test]
fn a_block_that_grows_where_it_is_counts_as_another() {
    let _alone = alone();
    let before = samples();
    let (mut size, mut sizes) = (80 << 10, Vec::new());
    let mut block = Block::new(size);
    while size < 64 << 20 {
        sizes.push(block.usable());
        size = size * 3 / 2;
        // SAFETY: live, and forgotten.
        let p = unsafe { c::realloc(std::ptr::with_exposed_provenance_mut(block.0), size) };
        std::mem::forget(std::mem::replace(&mut block, Block::at(p, size)));
    }
    let last = block.usable();
    // At 20 intervals and more, every one is a sample.
    for &size in sizes.iter().filter(|&&size| size != last) {
        let of = since(&before, size);
        assert_eq!(of.live, 0, "{size}");
        assert!(of.all >= 1, "{size}");
    }
    assert_eq!(since(&before, last).live, 1);
    // It shrinks again, and is small at last.
    // SAFETY: the block is live, and this test gives it up for the one that it becomes.
    let p = unsafe { c::realloc(std::ptr::with_exposed_provenance_mut(block.0), 100) };
    std::mem::forget(std::mem::replace(&mut block, Block::at(p, 100)));
    assert_eq!(since(&before, last).live, 0);
}

/// Whose shrinking or growing needs no other place stays where it is.
#[test]
fn a_sample_stays_where_it_is_if_a_block_would() {
    let _alone = alone();
    let block = Block::new(8 << 20);
    for size in [6 << 20, 7 << 20, 4 << 20] {
        let p = std::ptr::with_exposed_provenance_mut(block.0);
        // SAFETY: live; if it is moved the test fails.
        assert_eq!(unsafe { c::realloc(p, size) }, p);
    }
}

/// What a caller may rely on holds for samples: at 512 intervals and more, all of these are.
#[test]
fn samples_are_blocks_like_others() {
    let _alone = alone();
    for size in [60_000usize, 200_000, 2 << 20] {
        let before = samples();
        let usable = Block::new(size).usable();
        for align in [64usize, 4096, 65536] {
            // SAFETY: a power of two.
            let block = Block::at(unsafe { c::memalign(align, size) }, size);
            assert!(block.0.is_multiple_of(align));
        }
        for _ in 0..10 {
            // SAFETY: fresh, and holds so much.
            unsafe {
                let p = c::zeroed(size);
                assert!(std::slice::from_raw_parts(p, size).iter().all(|&b| b == 0));
                p.write_bytes(0xff, size);
                Block::at(p, size);
            }
        }
        let of = since(&before, usable);
        assert!(of.all >= 11 && of.live == 0, "{size}: {of:?}");
    }
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "blocks that wait after their free are not counted as freed"
)]
fn statistics_stay_exact() {
    let _alone = alone();
    let totals = || {
        let s = Snapshot::take().process();
        (s.allocations, s.frees, s.live_bytes)
    };
    let before = totals();
    let (mut allocated, mut freed) = (0, 0);
    let mut kept = Vec::new();
    for (size, count) in SIZES {
        for i in 0..count / 20 {
            let block = Block::new(size);
            allocated += 1;
            if i % 4 == 0 {
                kept.push(block);
            } else {
                freed += 1;
            }
        }
        let now = totals();
        assert_eq!(
            (now.0 - before.0, now.1 - before.1),
            (allocated, freed),
            "{size}"
        );
    }
    freed += kept.len() as u64;
    drop(kept);
    let now = totals();
    assert_eq!((now.0 - before.0, now.1 - before.1), (allocated, freed));
    let classes = Snapshot::take();
    assert!(
        classes
            .classes()
            .all(|class| class.allocations == class.frees),
        "nothing is out"
    );
    c::trim();
    assert_eq!(totals().2, 0, "no bytes are live");
}

#[test]
fn a_profile_may_be_stopped_and_go_on() {
    let _alone = alone();
    assert!(!profile::start(0) && !profile::start(profile::MAX_INTERVAL + 1));
    let kept: Vec<_> = (0..10).map(|_| Block::new(50_000)).collect();
    let usable = kept[0].usable();
    let before = samples();
    profile::stop();
    assert!(!profile::is_on());
    let more: Vec<_> = (0..10).map(|_| Block::new(50_000)).collect();
    assert_eq!(since(&before, usable), Samples::default());
    drop((kept, more));
    let live = samples()[&usable].live;
    assert_eq!(live, 0, "frees are seen all the same");
    assert!(profile::start(INTERVAL) && profile::is_on());
}

/// The counts of blocks by which samples are found begin anew there.
#[test]
fn the_child_of_a_fork_is_sampled_as_much() {
    let _alone = alone();
    const COUNT: u64 = 100_000;
    let come_and_go = || {
        let before = samples();
        (1..COUNT).for_each(|_| drop(Block::new(16)));
        let size = Block::new(16).usable();
        stands_for(since(&before, size).all, COUNT, size);
    };
    come_and_go();
    in_child(come_and_go);
}
