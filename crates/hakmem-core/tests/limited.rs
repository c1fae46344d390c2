//! Little address space: many small arenas, and the end of memory.
//!
//! Each runs in a process of its own, as limits are the process's.
#![cfg(not(any(loom, shuttle)))]

use crate::oracle;

use hakmem_core::{c, stats};
use oracle::{Block, C, Oracle, Ranges, alone, limit_address_space};
use std::alloc::Layout;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};
use std::thread;

const MIB: usize = 1 << 20;
const LIMIT: usize = 256 * MIB;

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 16).unwrap()
}

/// Blocks until there are no more, largest first.
fn fill(ranges: &Ranges, salt: u64) -> Vec<Block> {
    let mut oracle = Oracle::new(C, ranges, salt);
    let mut blocks = Vec::with_capacity(1 << 16);
    for size in [7 * MIB, 2 * MIB, 300 << 10, 12_000, 5000] {
        while let Some(block) = oracle.try_alloc(layout(size)) {
            blocks.push(block);
        }
    }
    blocks
}

fn bytes(blocks: &[Block]) -> usize {
    blocks.iter().map(Block::size).sum()
}

/// Address space that nobody uses.
struct Room(*mut libc::c_void);

impl Room {
    const BYTES: usize = 4 * MIB;

    fn new() -> Self {
        // SAFETY: a new mapping at a place of the kernel's choice.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                Self::BYTES,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        assert_ne!(at, libc::MAP_FAILED);
        Self(at)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's, and nobody uses it.
        unsafe { libc::munmap(self.0, Self::BYTES) };
    }
}

/// An eighth of the limit is an arena; further ones follow while there is room.
fn memory_ends_and_comes_back() {
    assert_eq!(c::address_limit(), usize::MAX);
    limit_address_space(LIMIT);
    assert_eq!(c::address_limit(), LIMIT);
    let ranges = Ranges::default();
    let mut most = 0;
    for round in 0..3 {
        // For the stacks of the thread below, which the limit does not spare.
        let room = Room::new();
        let mut blocks = fill(&ranges, round);
        let reserved = stats::process().reserved_bytes as usize;
        assert!((LIMIT / 2..LIMIT).contains(&reserved), "{reserved}");
        let now = bytes(&blocks);
        assert!(
            now > LIMIT / 2 && now >= most / 20 * 19,
            "{now} bytes, then {most}"
        );
        most = most.max(now);
        let oracle = Oracle::new(C, &ranges, 9);
        blocks.iter().for_each(|block| oracle.check(block));
        // Some are freed here, in whatever order, and some by another thread.
        let others = blocks.split_off(blocks.len() / 2);
        let free = |blocks: Vec<Block>| {
            let mut oracle = Oracle::new(C, &ranges, 10);
            blocks
                .into_iter()
                .rev()
                .for_each(|block| oracle.dealloc(block));
        };
        free(blocks);
        drop(room);
        thread::scope(|scope| scope.spawn(|| free(others)).join()).unwrap();
        c::trim();
        ranges.assert_empty();
        let after = stats::process();
        assert_eq!((after.live_bytes, after.dirty_bytes), (0, 0));
    }
}

/// What is kept for the next request of its kind is had by any, once there is nothing else. Until
/// then it is kept.
fn kept_memory_serves_all() {
    limit_address_space(LIMIT);
    let ranges = Ranges::default();
    let mut oracle = Oracle::new(C, &ranges, 1);
    let mut all = fill(&ranges, 2);
    for size in [100, 5000, 12_000, 300 << 10] {
        // What is left of pages and segments.
        while let Some(block) = oracle.try_alloc(layout(size)) {
            all.push(block);
        }
        for _ in 0..2 {
            let huge = all.iter().position(|block| block.size() > 4 * MIB);
            let huge = all.swap_remove(huge.expect("there were more"));
            oracle.dealloc(huge);
        }
        let kept = stats::process().dirty_bytes as usize;
        assert!(kept >= 14 * MIB, "{kept}");
        let more = std::iter::from_fn(|| oracle.try_alloc(layout(size)));
        let more: Vec<_> = more.collect();
        assert!(bytes(&more) >= 12 * MIB, "{} by {size}", bytes(&more));
        all.extend(more);
    }
    all.into_iter().for_each(|block| oracle.dealloc(block));
}

/// Blocks in all arenas grow, move, and are freed by whoever.
fn blocks_of_all_arenas_are_alike() {
    limit_address_space(LIMIT);
    let ranges = Ranges::default();
    let mut oracle = Oracle::new(C, &ranges, 1);
    // Two thirds of it taken by huge blocks: what follows comes from several arenas.
    let mut huge: Vec<_> = (0..30).map(|_| oracle.alloc(layout(3 * MIB))).collect();
    let sizes = [8, 100, 1000, 5000, 9000, 60_000, 70_000, 200_000, MIB + 1];
    for round in 0..6 {
        let mut blocks = Vec::new();
        for size in sizes {
            blocks.extend(
                (0..MIB.div_ceil(size).min(300)).map(|_| oracle.alloc_zeroed(layout(size))),
            );
        }
        let resized = blocks.split_off(blocks.len() / 2);
        for block in resized {
            let to = (block.size() * 3 / 2).max(1);
            blocks.push(oracle.realloc(block, to));
        }
        let ranges = &ranges;
        let others = blocks.split_off(blocks.len() / 2);
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut oracle = Oracle::new(C, ranges, 2);
                others.into_iter().for_each(|block| oracle.dealloc(block));
            });
        });
        blocks.into_iter().for_each(|block| oracle.dealloc(block));
        // Others become free than those that came first.
        huge.swap_remove(round).size();
        let gone = huge.swap_remove(round * 2);
        oracle.dealloc(gone);
        c::trim();
    }
}

/// The part of the reservation that nobody uses is given up, and what is mapped there then is not
/// ours.
fn the_tail_is_given_up() {
    let ranges = Ranges::default();
    let mut oracle = Oracle::new(C, &ranges, 1);
    let mut blocks: Vec<_> = [100, 5000, 100_000, 3 * MIB, 40 * MIB]
        .map(|size| oracle.alloc(layout(size)))
        .into();
    // In use once, and in nobody's hands when the tail goes.
    let gone = oracle.alloc(layout(100 * MIB));
    let before = stats::process();
    oracle.dealloc(gone);
    c::fit_address_limit(LIMIT, || ());
    let after = stats::process();
    // An eighth, or what is in use, and the metadata.
    assert!(
        (LIMIT as u64 / 8..LIMIT as u64 / 2).contains(&after.reserved_bytes),
        "{}",
        after.reserved_bytes
    );
    assert!(before.reserved_bytes > 1 << 30);
    assert!(after.committed_bytes < before.committed_bytes && after.dirty_bytes == 0);
    limit_address_space(LIMIT + 100 * MIB);
    blocks.iter().for_each(|block| oracle.check(block));
    // More than the first arena has room for now.
    blocks.extend((0..25).map(|_| oracle.alloc(layout(3 * MIB))));
    blocks.extend((0..1000).map(|_| oracle.alloc(layout(9000))));
    // SAFETY: a map of its own, wherever it comes to lie.
    let map = unsafe {
        let (all, private) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        libc::mmap(std::ptr::null_mut(), 30 * MIB, all, private, -1, 0)
    };
    assert_ne!(map, libc::MAP_FAILED);
    let p = map.cast::<u8>();
    // SAFETY: nobody's, for hakmem.
    unsafe {
        assert_eq!(c::usable_size(p), 0);
        c::free(p);
        p.write_bytes(7, 30 * MIB);
    }
    assert_eq!(stats::process().foreign_frees, 1);
    for block in blocks {
        oracle.dealloc(block);
    }
    c::trim();
    let after = stats::process();
    assert_eq!((after.live_bytes, after.dirty_bytes), (0, 0));
}

/// The limit can be raised again.
fn limit_for_now(bytes: usize) {
    let limit = libc::rlimit {
        rlim_cur: bytes as u64,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: reads the structure.
    let done = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    assert_eq!(done, 0);
}

/// Bytes that the process has mapped.
fn size() -> usize {
    let maps = std::fs::read_to_string("/proc/self/statm").unwrap();
    maps.split(' ').next().unwrap().parse::<usize>().unwrap() * 4096
}

/// Other maps take most of the limit: hakmem leaves as much of the rest as it keeps without use.
fn the_tail_leaves_room_for_other_maps() {
    // SAFETY: freed once.
    unsafe { c::free(c::malloc(100)) };
    let maps = size() - stats::process().reserved_bytes as usize;
    let large: Vec<_> = (0..1024).map(|_| Room::new()).collect();
    let bytes = maps + large.len() * Room::BYTES + 300 * MIB;
    c::fit_address_limit(bytes, || limit_for_now(bytes));
    assert!(size() < bytes, "{} bytes are mapped", size());
    let kept = stats::process().reserved_bytes as usize;
    assert!((30 * MIB..160 * MIB).contains(&kept), "{kept}");
    let more: Vec<_> = (0..30).map(|_| Room::new()).collect();
    assert_eq!(more.len() * Room::BYTES, 120 * MIB);
}

/// True if a thread of this process waits.
fn waits(thread: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    let state = stat.rsplit(") ").next().unwrap();
    state.starts_with('S')
}

/// While a thread lowers the limit, another one asks for a block that needs an arena.
fn no_arena_before_the_limit() {
    const SOON: usize = 1024 * MIB;
    let (known, go, done) = (
        AtomicI32::new(0),
        AtomicBool::new(false),
        AtomicBool::new(false),
    );
    thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: taken and freed once, here and below.
            unsafe { c::free(c::malloc(100)) };
            // SAFETY: gettid has no preconditions.
            known.store(unsafe { libc::gettid() }, SeqCst);
            while !go.load(SeqCst) {
                thread::yield_now();
            }
            // SAFETY: any size may be asked for.
            let p = unsafe { c::malloc(200 * MIB) };
            done.store(true, SeqCst);
            assert!(!p.is_null());
            // SAFETY: the block is live, and this thread gives it up.
            unsafe { c::free(p) };
        });
        while known.load(SeqCst) == 0 {
            thread::yield_now();
        }
        // The first arena keeps an eighth of the limit.
        let is_early = c::fit_address_limit(SOON, || {
            go.store(true, SeqCst);
            while !done.load(SeqCst) && !waits(known.load(SeqCst)) {
                thread::yield_now();
            }
            limit_for_now(SOON);
            done.load(SeqCst)
        });
        assert!(!is_early, "an arena was made before the limit");
    });
    assert!(size() < SOON, "{} bytes are mapped", size());
}

/// Less than a segment with its metadata is left, from the start and then again.
fn the_last_of_it() {
    // hakmem takes scraps only if the metadata of a segment, 4 KiB, is a whole system page.
    if oracle::page_size() > 4 << 10 {
        println!("hakmem takes no scraps where system pages are so large");
        return;
    }
    // SAFETY: a NULL-terminated array.
    unsafe { c::configure([c"HAKMEM_FOREIGN=leak".as_ptr(), std::ptr::null()].as_ptr()) };
    let mut blocks = Vec::with_capacity(1 << 16);
    for left in [2 * MIB, MIB, MIB / 2] {
        limit_for_now(size() + left + (16 << 10));
        let mut had = 0;
        for size in [1000, 100] {
            // SAFETY: any size may be asked for; what is had holds as much.
            let more = std::iter::from_fn(|| unsafe {
                let p = c::malloc(size);
                (!p.is_null()).then(|| p.write_bytes(p.addr() as u8, size))?;
                Some((p, size))
            });
            for block in more {
                had += block.1;
                blocks.push(block);
            }
        }
        // A slot or two are lost, and the first thread's heap takes one.
        assert!(had >= left / 2, "{had} of {left}");
    }
    blocks.sort();
    for pair in blocks.windows(2) {
        assert!(pair[0].0.addr() + pair[0].1 <= pair[1].0.addr());
    }
    for (p, size) in blocks {
        // SAFETY: live, and freed once.
        unsafe {
            assert_eq!(
                (p.read(), p.add(size - 1).read()),
                (p.addr() as u8, p.addr() as u8)
            );
            c::free(p);
        }
    }
    // What is mapped beside a scrap is foreign.
    limit_for_now(LIMIT);
    let maps: Vec<_> = (0..64)
        .map(|_| {
            // SAFETY: a map of its own, wherever it comes to lie.
            let map = unsafe {
                let (all, private) = (
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                );
                libc::mmap(std::ptr::null_mut(), 1 << 16, all, private, -1, 0)
            };
            assert_ne!(map, libc::MAP_FAILED);
            map.cast::<u8>()
        })
        .collect();
    for p in maps {
        // SAFETY: nobody's, for hakmem.
        unsafe {
            c::free(p);
            p.write_bytes(7, 1 << 16);
        }
    }
    assert_eq!(stats::process().foreign_frees, 64);
    c::trim();
    let after = stats::process();
    assert_eq!((after.live_bytes, after.dirty_bytes), (0, 0));
    // SAFETY: taken and freed once.
    unsafe {
        let more = c::malloc(3 * MIB);
        assert!(!more.is_null());
        c::free(more);
    }
}

/// A block that grows needs address space for a move, and more behind what moves. There is enough
/// of it each time, and all of it is there afterwards.
fn a_block_grows_within_the_limit() {
    const LIMIT: usize = 1024 * MIB;
    limit_address_space(LIMIT);
    let ranges = Ranges::default();
    let mut oracle = Oracle::new(C, &ranges, 1);
    let all = |oracle: &mut Oracle<_>| {
        let blocks = std::iter::from_fn(|| oracle.try_alloc(layout(16 * MIB - 4096)));
        let blocks: Vec<_> = blocks.collect();
        let had = bytes(&blocks);
        blocks.into_iter().for_each(|block| oracle.dealloc(block));
        had
    };
    let mut block = oracle.alloc(layout(60 * MIB));
    let mut behind = Vec::new();
    for mib in [120, 180, 260, 400] {
        behind.push(oracle.alloc(layout(2 * MIB - 4096)));
        block = oracle.realloc(block, mib * MIB);
    }
    oracle.dealloc(block);
    behind.into_iter().for_each(|block| oracle.dealloc(block));
    let had = all(&mut oracle);
    assert!(had > LIMIT / 8 * 7, "{had} bytes can be had");
}

/// The system charges the process for memory that is accessible, used or not. What lies unused in
/// many short runs serves a block that is longer than each of them.
fn unused_memory_is_not_charged_for_ever() {
    const LIMIT: usize = 512 * MIB;
    // SAFETY: a NULL-terminated array.
    unsafe { c::configure([c"HAKMEM_THP=never".as_ptr(), std::ptr::null()].as_ptr()) };
    let limit = libc::rlimit {
        rlim_cur: LIMIT as u64,
        rlim_max: LIMIT as u64,
    };
    // SAFETY: reads the structure.
    let done = unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const limit) };
    assert_eq!(done, 0);
    let ranges = Ranges::default();
    let mut oracle = Oracle::new(C, &ranges, 1);
    let (mut gone, mut stay) = (Vec::new(), Vec::new());
    for _ in 0..28 {
        gone.push(oracle.alloc(layout(14 * MIB - 4096)));
        stay.push(oracle.alloc(layout(2 * MIB - 4096)));
    }
    gone.into_iter().for_each(|block| oracle.dealloc(block));
    let block = oracle.alloc(layout(300 * MIB));
    stay.push(block);
    stay.into_iter().for_each(|block| oracle.dealloc(block));
}

#[test]
fn what_is_unused_is_not_charged_before_a_request_fails() {
    alone(
        "what_is_unused_is_not_charged_before_a_request_fails",
        unused_memory_is_not_charged_for_ever,
    );
}

/// All arenas are full of small blocks, and then empty. Their address space serves a block that is
/// longer than each of them, and other maps of the process.
fn a_large_block_after_many_small_ones() {
    limit_address_space(LIMIT);
    for _ in 0..3 {
        let ranges = Ranges::default();
        let mut oracle = Oracle::new(C, &ranges, 1);
        let blocks: Vec<_> = std::iter::from_fn(|| oracle.try_alloc(layout(100_000))).collect();
        assert!(bytes(&blocks) > LIMIT / 2);
        blocks.into_iter().for_each(|block| oracle.dealloc(block));
        let large = oracle.alloc(layout(LIMIT / 4));
        oracle.dealloc(large);
        c::trim();
        let rooms: Vec<_> = (0..LIMIT / 4 / Room::BYTES).map(|_| Room::new()).collect();
        drop(rooms);
    }
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "the last freed large blocks wait, perhaps at the ends of arenas"
)]
fn address_space_of_freed_blocks_serves_all() {
    alone(
        "address_space_of_freed_blocks_serves_all",
        a_large_block_after_many_small_ones,
    );
}

#[test]
fn blocks_grow_within_a_limit() {
    alone("blocks_grow_within_a_limit", a_block_grows_within_the_limit);
}

#[test]
fn the_last_of_the_address_space_serves_small_blocks() {
    alone(
        "the_last_of_the_address_space_serves_small_blocks",
        the_last_of_it,
    );
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn memory_that_ended_comes_back() {
    alone("memory_that_ended_comes_back", memory_ends_and_comes_back);
}

#[test]
fn blocks_of_further_arenas_are_like_others() {
    alone(
        "blocks_of_further_arenas_are_like_others",
        blocks_of_all_arenas_are_alike,
    );
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn kept_memory_is_had_before_a_request_fails() {
    alone(
        "kept_memory_is_had_before_a_request_fails",
        kept_memory_serves_all,
    );
}

#[test]
fn a_lowered_limit_leaves_room_for_other_maps() {
    alone(
        "a_lowered_limit_leaves_room_for_other_maps",
        the_tail_leaves_room_for_other_maps,
    );
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn a_lowered_limit_ends_the_arena() {
    alone("a_lowered_limit_ends_the_arena", the_tail_is_given_up);
}

#[test]
fn no_arena_is_made_before_a_limit_that_comes() {
    alone(
        "no_arena_is_made_before_a_limit_that_comes",
        no_arena_before_the_limit,
    );
}
