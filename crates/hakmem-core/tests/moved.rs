//! Huge blocks that grow into several maps, or out of them, and whose memory the system does not
//! take back.
//!
//! Each runs in a process of its own, where nothing else lies in the way.
#![cfg(not(any(loom, shuttle)))]

use crate::oracle;

use hakmem_core::{c, stats};
use oracle::alone;
use oracle::plain::{free, resize, take};
use std::ffi::CStr;

const SEGMENT: usize = 2 << 20;
const PAGE: usize = 4096;

fn usable(p: *mut u8) -> usize {
    // SAFETY: live.
    unsafe { c::usable_size(p) }
}

/// A word in each page, which says where it was written.
fn fill(p: *mut u8, bytes: std::ops::Range<usize>) {
    for at in bytes.step_by(PAGE) {
        // SAFETY: within the block.
        unsafe { p.add(at).cast::<u64>().write(at as u64 ^ 0x5aa5) };
    }
}
fn check(p: *mut u8, bytes: usize) {
    for at in (0..bytes).step_by(PAGE) {
        // SAFETY: within the block, and written.
        let word = unsafe { p.add(at).cast::<u64>().read() };
        assert_eq!(word, at as u64 ^ 0x5aa5, "{at:#x}");
    }
}

/// Makes `bytes` from `p` a map of their own.
fn split(p: *mut u8, bytes: usize) {
    // SAFETY: changes nothing but what a core dump would have.
    let done = unsafe { libc::madvise(p.cast(), bytes, libc::MADV_DONTDUMP) };
    assert_eq!(done, 0);
}

fn moves() -> (u64, u64) {
    let all = stats::process();
    let moves = all.syscalls().find(|s| s.name == "mremap").unwrap();
    (moves.calls, moves.failures)
}

/// All that is free is zero, whatever lay there.
fn assert_clean(segments: usize) {
    c::trim();
    // SAFETY: any size; `zeroed` initialises it.
    unsafe {
        let p = c::zeroed(segments * SEGMENT);
        let bytes = std::slice::from_raw_parts(p, segments * SEGMENT);
        assert!(bytes.iter().all(|&b| b == 0));
        free(p);
    }
    c::trim();
}

/// Of whatever maps a huge block consists, it has its bytes where it comes to be, and leaves none
/// behind.
fn maps() {
    for len in 1..=5 {
        // Where the maps begin, in halves of a segment.
        for cut in 0..2 * len {
            let p = take(len * SEGMENT);
            let wall = take(SEGMENT);
            assert_eq!(wall.addr(), p.addr() + len * SEGMENT, "in its way");
            // It moves to between two others.
            let hole = take((len + 2) * SEGMENT);
            let behind = take(3 * SEGMENT);
            fill(behind, 0..3 * SEGMENT);
            free(hole);
            c::trim();
            fill(p, 0..len * SEGMENT);
            split(p.wrapping_add(cut * SEGMENT / 2), SEGMENT / 2);
            let (live, before) = (stats::process().live_bytes, moves());
            let to = resize(p, (len + 2) * SEGMENT);
            assert_eq!(to, hole);
            check(to, len * SEGMENT);
            check(behind, 3 * SEGMENT);
            let now = moves();
            assert!(
                len == 1 || now.0 - before.0 > now.1 - before.1,
                "one segment at most is copied"
            );
            assert_eq!(usable(to), (len + 2) * SEGMENT);
            assert_eq!(stats::process().live_bytes - live, 2 * SEGMENT as u64);
            // What is new is zero, and can be written.
            let rest = to.wrapping_add(len * SEGMENT);
            // SAFETY: fresh memory of the block.
            let bytes = unsafe { std::slice::from_raw_parts(rest, 2 * SEGMENT) };
            assert!(bytes.iter().all(|&b| b == 0));
            fill(to, len * SEGMENT..(len + 2) * SEGMENT);
            [to, wall, behind].into_iter().for_each(free);
            assert_clean(2 * len + 6);
        }
    }
    let (calls, failures) = moves();
    assert!(failures > 0 && failures < calls, "{failures} of {calls}");
}

/// A huge block that is one map is moved by three calls, and none of its bytes is copied.
fn one_map() {
    moves_by(4 * SEGMENT - 64, |calls, failures| {
        (calls, failures) == (3, 0)
    });
    // It asks for huge pages in its first three segments, so it is two maps. They are
    // found by halves, and none of their bytes is copied.
    moves_by(3 * SEGMENT + SEGMENT / 4, |calls, failures| {
        calls - failures <= 9 && failures <= 2
    });
}

/// A block of `size` bytes moves by as many calls, of which some fail, as `expected` says.
fn moves_by(size: usize, expected: fn(u64, u64) -> bool) {
    let (p, wall) = (take(size), take(SEGMENT));
    fill(p, 0..size);
    let before = moves();
    let to = resize(p, 6 * SEGMENT);
    assert_ne!(to, p);
    check(to, size);
    let after = moves();
    let (calls, failures) = (after.0 - before.0, after.1 - before.1);
    assert!(
        expected(calls, failures),
        "{calls} calls, {failures} failed"
    );
    free(to);
    free(wall);
    assert_clean(10);
}

/// What moved huge blocks leave becomes one map with its neighbours again.
fn maps_join() {
    let maps = || {
        std::fs::read_to_string("/proc/self/maps")
            .unwrap()
            .lines()
            .count()
    };
    free(take(SEGMENT));
    c::trim();
    let before = maps();
    for len in 2..20 {
        let (p, wall) = (take(len * SEGMENT), take(SEGMENT));
        // The kernel joins what was never touched in any case.
        fill(p, 0..len * SEGMENT);
        let to = resize(p, (len + 1) * SEGMENT);
        assert_ne!(to, p);
        free(to);
        free(wall);
        c::trim();
    }
    assert!(moves().0 >= 18);
    let after = maps();
    assert!(after <= before + 4, "{after} maps, {before} before");
}

/// A huge block gets smaller where it is, and what is behind is free again; but not if the system
/// does not take it back.
fn tails() {
    let p = take(10 * SEGMENT);
    fill(p, 0..10 * SEGMENT);
    let other = take(12 * SEGMENT);
    assert_eq!(other.addr(), p.addr() + 10 * SEGMENT);
    fill(other, 0..12 * SEGMENT);
    assert_eq!(resize(p, 6 * SEGMENT), p);
    assert_eq!(usable(p), 10 * SEGMENT, "more than half is used");
    assert_eq!(resize(p, 5 * SEGMENT), p);
    assert_eq!(usable(p), 5 * SEGMENT);
    let live = || stats::process().huge_live_bytes / SEGMENT as u64;
    assert_eq!(live(), 5 + 12);
    let behind = take(5 * SEGMENT);
    assert_eq!(behind.addr(), p.addr() + 5 * SEGMENT);
    // SAFETY: fresh memory of the block.
    let bytes = unsafe { std::slice::from_raw_parts(behind, 5 * SEGMENT) };
    assert!(bytes.iter().all(|&b| b == 0));
    check(p, 5 * SEGMENT);
    let more = take(12 * SEGMENT);
    fill(behind, 0..5 * SEGMENT);
    fill(more, 0..12 * SEGMENT);
    check(other, 12 * SEGMENT);
    [behind, more, other].into_iter().for_each(free);
    c::trim();
    let locked = p.wrapping_add(4 * SEGMENT);
    // SAFETY: a part of the block.
    if unsafe { libc::mlock(locked.cast(), PAGE) } == 0 {
        assert_eq!(resize(p, 2 * SEGMENT), p);
        assert_eq!((usable(p), live()), (5 * SEGMENT, 5));
        check(p, 2 * SEGMENT);
        // SAFETY: the page lies in a live block, and this test locked it.
        assert_eq!(unsafe { libc::munlock(locked.cast(), PAGE) }, 0);
    }
    assert_eq!(resize(p, 2 * SEGMENT), p);
    assert_eq!(usable(p), 2 * SEGMENT);
    check(p, 2 * SEGMENT);
    free(p);
    assert_clean(10);
}

/// Growth goes on in the room that is kept behind, and takes no more than there is.
fn room() {
    let p = take(2 * SEGMENT);
    assert_eq!(resize(p, 3 * SEGMENT), p, "nothing is in its way");
    assert_eq!(
        stats::Snapshot::take().heap_walk().reserve_segments,
        0,
        "it may be the only time"
    );
    assert_eq!(resize(p, 4 * SEGMENT), p);
    assert_eq!(stats::Snapshot::take().heap_walk().reserve_segments, 2);
    let wall = take(SEGMENT);
    assert_eq!(wall.addr(), p.addr() + 6 * SEGMENT);
    assert_eq!(resize(p, 5 * SEGMENT), p);
    assert_eq!(resize(p, 6 * SEGMENT), p);
    assert_eq!(stats::Snapshot::take().heap_walk().reserve_segments, 0);
    fill(p, 0..6 * SEGMENT);
    let to = resize(p, 7 * SEGMENT);
    assert_ne!(to, p);
    check(to, 6 * SEGMENT);
    assert_eq!(stats::Snapshot::take().heap_walk().reserve_segments, 3);
    // It is moved already: it takes what it keeps, and then moves on.
    assert_eq!(resize(to, 10 * SEGMENT), to);
    check(to, 6 * SEGMENT);
    let last = resize(to, 11 * SEGMENT);
    assert_ne!(last, to);
    check(last, 6 * SEGMENT);
    free(last);
    free(wall);
    assert_clean(20);
    assert_eq!(stats::Snapshot::take().heap_walk().reserve_segments, 0);
}

fn thp_segments() -> u64 {
    stats::Snapshot::take().heap_walk().thp_segments
}

/// A huge block that is grown to be filled asks for huge pages, where it is and where it moves to;
/// what it leaves does not.
fn dense() {
    const OPTION: &CStr = c"HAKMEM_THP_FROM_SEGMENTS=1";
    if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        return println!("this kernel has no huge pages to ask for");
    }
    // SAFETY: a NULL-terminated array.
    unsafe { c::configure([OPTION.as_ptr(), std::ptr::null()].as_ptr()) };
    // No other block may try them.
    let tried: Vec<_> = (0..4).map(|_| take(8 * SEGMENT)).collect();
    let thp_segments = || thp_segments() - 4 * 8;
    for is_filled in [false, true] {
        for has_wall in [false, true] {
            let p = take(2 * SEGMENT);
            let wall = has_wall.then(|| take(SEGMENT));
            let grow = |p: *mut u8, from: usize, to: usize| {
                if is_filled {
                    fill(p, from * SEGMENT..to * SEGMENT);
                }
                resize(p, (to + 1) * SEGMENT)
            };
            let p = grow(p, 0, 2);
            assert_eq!(thp_segments(), if is_filled { 3 } else { 0 });
            let p = grow(p, 2, 3);
            assert_eq!(thp_segments(), if is_filled { 4 } else { 0 });
            let p = grow(p, 3, 4);
            assert_eq!(thp_segments(), if is_filled { 5 } else { 0 });
            assert_eq!(resize(p, 2 * SEGMENT), p);
            assert_eq!(thp_segments(), if is_filled { 2 } else { 0 });
            free(p);
            wall.into_iter().for_each(free);
            c::trim();
            // Who has them next does not ask.
            let large: Vec<_> = (0..100).map(|_| take(5 << 16)).collect();
            assert_eq!(thp_segments(), 0);
            large.into_iter().for_each(free);
            c::trim();
        }
    }
    tried.into_iter().for_each(free);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn huge_blocks_of_several_maps_move() {
    alone("huge_blocks_of_several_maps_move", maps);
}

#[test]
fn huge_blocks_of_one_map_move_by_three_calls() {
    alone("huge_blocks_of_one_map_move_by_three_calls", one_map);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn moved_maps_join_their_neighbours_again() {
    alone("moved_maps_join_their_neighbours_again", maps_join);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn huge_blocks_shrink_where_they_are() {
    alone("huge_blocks_shrink_where_they_are", tails);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn huge_blocks_grow_into_the_room_behind() {
    alone("huge_blocks_grow_into_the_room_behind", room);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn huge_blocks_that_are_filled_ask_for_huge_pages() {
    alone("huge_blocks_that_are_filled_ask_for_huge_pages", dense);
}
