//! Which segments ask for huge pages: those of small blocks, once there are many, filled ones; and
//! for how long.
//!
//! Each runs in a process of its own, as the knob and the figures are the process's.
#![cfg(not(any(loom, shuttle)))]

use crate::oracle;

use hakmem_core::{c, stats};
use oracle::alone;
use oracle::plain::{configure, free, resize, take};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const SLOT: usize = 64 * KIB;

/// From so many segments' worth of small blocks on.
fn thp_from(option: &CStr) {
    configure(&[option]);
}

fn fill(size: usize, bytes: usize) -> Vec<*mut u8> {
    (0..bytes / size).map(|_| take(size)).collect()
}

/// Bytes of maps that ask the kernel for huge pages.
fn asked_for() -> u64 {
    told("hg")
}

/// Of memory that refuses them, stacks not counted.
fn refused() -> u64 {
    told("nh") - BEFORE.load(Relaxed)
}

/// Stacks refuse them.
static BEFORE: AtomicU64 = AtomicU64::new(0);

fn count_stacks() {
    BEFORE.store(told("nh"), Relaxed);
}

/// Bytes of maps with this flag.
fn told(flag: &str) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut size = 0;
    let mut sum = 0;
    for line in maps.lines() {
        if let Some(kib) = line.strip_prefix("Size:") {
            size = kib.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10;
        } else if line.starts_with("VmFlags:") && line.split(' ').any(|f| f == flag) {
            sum += size;
        }
    }
    sum
}

/// Segments that ask for huge pages, and all that are divided into slots. The kernel knows of the
/// same ones.
fn segments() -> (u64, u64) {
    let snapshot = stats::Snapshot::take();
    let heap_walk = snapshot.heap_walk();
    assert_eq!(
        heap_walk.thp_segments * stats::SEGMENT_BYTES as u64,
        asked_for()
    );
    (heap_walk.thp_segments, heap_walk.slotted_segments)
}

fn has_huge_pages() -> bool {
    let has = std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists();
    if !has {
        println!("this kernel has no huge pages to ask for");
    }
    has
}

/// Two pages of each of many classes, of which the program uses two thirds: more than a segment's
/// slots.
fn fill_two_thirds() -> Vec<*mut u8> {
    const SIZES: [usize; 19] = [
        32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024,
    ];
    SIZES
        .into_iter()
        .flat_map(|size| fill(size, SLOT / 3 * 4))
        .collect()
}

/// Pages that are carved to two thirds are enough for one heap, and not for several: those of many
/// threads stay as they are.
fn pages_of_two_thirds(several: bool) {
    if !has_huge_pages() {
        return;
    }
    configure(&[c"HAKMEM_THP_FROM_SEGMENTS=1", c"HAKMEM_DECAY_MS=60000"]);
    if several {
        free(take(16));
        thread::spawn(|| free(take(16))).join().unwrap();
    }
    let blocks = fill_two_thirds();
    let (thp, all) = segments();
    assert!(all > 1);
    assert_eq!(thp, if several { 0 } else { all - 1 }, "of {all}");
    blocks.into_iter().for_each(free);
}

fn filled_pages() {
    if !has_huge_pages() {
        return;
    }
    // The test alone decides when memory goes back.
    configure(&[c"HAKMEM_THP_FROM_SEGMENTS=3", c"HAKMEM_DECAY_MS=60000"]);
    let mut blocks = fill(256, 5 * MIB);
    assert_eq!(segments().0, 0, "there are not enough yet");
    blocks.extend(fill(256, 43 * MIB));
    let (thp, all) = segments();
    // Not the first ones; and what is carved is told in steps.
    assert!(thp >= all / 2 && thp <= all - 3, "{thp} of {all}");
    // One block in each page stays: what is between is given back, and is not to be filled again.
    let (mut kept, mut pages) = (Vec::new(), std::collections::BTreeSet::new());
    for p in blocks {
        if pages.insert(p.addr() / SLOT) {
            kept.push(p)
        } else {
            free(p)
        }
    }
    assert_eq!(segments().0, thp);
    c::trim();
    // But for that of the page which the heap is at. A page of one of the system's has nothing
    // between.
    if oracle::page_size() < SLOT {
        assert!(segments().0 <= 1, "{:?}", segments());
    }
    kept.into_iter().for_each(free);
}

/// Whole pages that go back take the wish with them as pieces do.
fn emptied_pages() {
    if !has_huge_pages() {
        return;
    }
    thp_from(c"HAKMEM_THP_FROM_SEGMENTS=3");
    let blocks = fill(256, 48 * MIB);
    let (thp, all) = segments();
    assert!(thp >= all / 2, "{thp} of {all}");
    let is_kept = |p: &mut *mut u8| (p.addr() / SLOT).is_multiple_of(4);
    let mut blocks = blocks;
    let kept: Vec<_> = blocks.extract_if(.., |p| is_kept(p)).collect();
    blocks.into_iter().for_each(free);
    assert_eq!(segments().0, thp);
    c::trim();
    // But for that of the last page, in which there may be no other.
    assert!(segments().0 <= 1, "{:?}", segments());
    kept.into_iter().for_each(free);
}

/// A life of many pages, all of which were given up at last: by way of the heap, of those that it
/// retains, and of those that were parked.
fn come_and_go() {
    const PAGES: usize = 24;
    for round in 0..120 {
        let blocks = fill(256, PAGES * SLOT);
        // In every other round a few blocks of each page go last.
        let (last, first): (Vec<_>, Vec<_>) = blocks
            .into_iter()
            .partition(|p| round % 2 == 0 && p.addr() % SLOT < 1024);
        first.into_iter().for_each(free);
        c::trim();
        last.into_iter().for_each(free);
        c::trim();
    }
    let snapshot = stats::Snapshot::take();
    assert_eq!(snapshot.heap_walk().page_slots, 0);
    let of_heaps: u64 = snapshot.heaps().map(|h| h.pages_parked).sum();
    assert!(of_heaps >= 60 * (PAGES as u64 - 6));
}

/// What decides whether segments ask for them are the blocks and pages that there are.
fn after_a_life(then: fn()) {
    come_and_go();
    then();
}

/// Programs need not write large blocks everywhere. So their segments ask only while small blocks
/// fill a quarter of what is in use.
fn large_blocks() {
    thp_from(c"HAKMEM_THP_FROM_SEGMENTS=1");
    let alone = fill(4 * SLOT, 16 * MIB);
    assert_eq!(segments().0, 0);
    alone.into_iter().for_each(free);
    c::trim();
    // Eight segments' worth.
    let small = fill(256, 16 * MIB);
    let (before, _) = segments();
    let large = fill(4 * SLOT, 32 * MIB);
    let asked = segments().0 - before;
    assert!((15..=16).contains(&asked), "{asked}");
    let more = fill(4 * SLOT, 64 * MIB);
    let asked = segments().0 - before;
    assert!((22..=25).contains(&asked), "{asked}");
    // A sixth of all: segments for small blocks do not ask for them either.
    let (before, _) = segments();
    let again = fill(256, 2 * MIB);
    assert_eq!(segments().0, before);
    [small, large, more, again]
        .into_iter()
        .flatten()
        .for_each(free);
}

/// However many small blocks there are, at most 32 segments of others ask at a time.
fn many_large_blocks() {
    thp_from(c"HAKMEM_THP_FROM_SEGMENTS=1");
    let small = fill(256, 80 * MIB);
    let (before, _) = segments();
    for _ in 0..2 {
        let large = fill(4 * SLOT, 100 * MIB);
        assert_eq!(segments().0, before + 32);
        large.into_iter().for_each(free);
        // What went back leaves room for others.
        c::trim();
        assert_eq!(segments().0, before);
    }
    small.into_iter().for_each(free);
}

fn little_used_pages() {
    const THREADS: usize = 16;
    thp_from(c"HAKMEM_THP_FROM_SEGMENTS=5");
    // Two segments' worth that is filled, and told.
    let filled = fill(256, 4 * MIB);
    // Four blocks of each class up to 2 KiB, in so many heaps: 300 pages.
    let life = || {
        for size in (16..=128).step_by(16).chain((160..=2048).step_by(160)) {
            std::hint::black_box([(); 4].map(|()| take(size)));
        }
        thread::park();
    };
    for _ in 0..THREADS {
        thread::spawn(life);
    }
    while stats::Snapshot::take().heap_walk().page_slots < (64 + THREADS * 16) as u64 {
        thread::yield_now();
    }
    let (thp, all) = segments();
    // Heaps tell the totals of their slots in steps. So some segments may ask before these are
    // told.
    assert!(3 * thp <= all && all >= 9, "{thp} of {all}");
    filled.into_iter().for_each(free);
}

/// Fresh blocks ask although nobody knows whether they are filled, while all that do have 64 MiB at
/// most.
fn tried() {
    if !has_huge_pages() {
        return;
    }
    // The request leaves more than a quarter of its only segment.
    let few = take(MIB + MIB / 4);
    assert_eq!(asked_for(), 0);
    // It asks in the segments that it fills, as long as it does not grow.
    let part = take(4 * MIB + MIB / 4);
    assert_eq!(asked_for(), 4 * MIB as u64);
    let part = resize(part, 7 * MIB);
    assert_eq!(asked_for(), 8 * MIB as u64);
    free(part);
    c::trim();
    // If it must move to grow, all of its new place asks.
    let part = take(4 * MIB + MIB / 4);
    let wall = take(MIB + MIB / 4);
    let grown = resize(part, 12 * MIB);
    assert_ne!(grown, part);
    assert_eq!(asked_for(), 12 * MIB as u64);
    free(grown);
    free(wall);
    c::trim();
    // A program need not touch what it wants to be zero: such blocks ask up to half of that.
    // SAFETY: any size is allowed.
    let zero = [16, 18, 16].map(|size| unsafe { c::zeroed(size * MIB) });
    assert_eq!(asked_for(), 32 * MIB as u64);
    zero.into_iter().for_each(free);
    c::trim();
    assert_eq!(asked_for(), 0);
    let mut blocks = fill(16 * MIB, 48 * MIB);
    blocks.push(take(15 * MIB + MIB / 2));
    assert_eq!(asked_for(), 64 * MIB as u64);
    blocks.push(take(6 * MIB));
    assert_eq!(asked_for(), 64 * MIB as u64);
    // What went back to the system leaves room for others.
    blocks.into_iter().for_each(free);
    c::trim();
    assert_eq!(asked_for(), 0);
    for _ in 0..20 {
        let again = take(16 * MIB);
        assert_eq!(asked_for(), 16 * MIB as u64);
        free(resize(again, 6 * MIB));
        c::trim();
    }
    free(few);
    // Blocks that are likely to be filled ask apart from those.
    let filled = take(64 * MIB - 64);
    let tried = fill(16 * MIB, 64 * MIB);
    assert_eq!(asked_for(), 128 * MIB as u64);
    // One that asks because it grows leaves no room to try when it goes.
    let grows = take(16 * MIB);
    // SAFETY: the block has as many bytes.
    unsafe { grows.write_bytes(1, 16 * MIB) };
    let grown = resize(grows, 30 * MIB);
    assert_eq!(asked_for(), 158 * MIB as u64);
    free(grown);
    c::trim();
    let further = take(6 * MIB);
    assert_eq!(asked_for(), 128 * MIB as u64);
    free(further);
    free(filled);
    tried.into_iter().for_each(free);
}

fn none_at_all() {
    if !has_huge_pages() {
        return;
    }
    count_stacks();
    configure(&[c"HAKMEM_THP=never", c"HAKMEM_THP_FROM_SEGMENTS=1"]);
    let blocks = fill(256, 16 * MIB);
    let huge = take(40 * MIB);
    assert_eq!(segments().0, 0);
    // Whatever the system gives to others; and the metadata is not theirs.
    let has = stats::process().committed_bytes;
    assert!(refused() <= has && refused() >= has - 2 * MIB as u64);
    blocks.into_iter().for_each(free);
    free(huge);
    c::trim();
    assert_eq!(segments().0, 0);
    let huge = take(100 * MIB);
    let has = stats::process().committed_bytes;
    assert!(refused() <= has && refused() >= has - 2 * MIB as u64);
    free(huge);
}

/// All segments ask, and so do blocks of several; but not what was given back in part.
fn everywhere() {
    if !has_huge_pages() {
        return;
    }
    count_stacks();
    configure(&[
        c"HAKMEM_THP=always",
        c"HAKMEM_HUGE_CACHE_MIB=0",
        c"HAKMEM_HUGE_CACHE_PERCENT=0",
    ]);
    let blocks = fill(256, 16 * MIB);
    let large = fill(4 * SLOT, 8 * MIB);
    let huge = take(40 * MIB);
    let snapshot = stats::Snapshot::take();
    let heap_walk = snapshot.heap_walk();
    assert_eq!(heap_walk.thp_segments, heap_walk.slotted_segments + 20);
    assert_eq!(
        heap_walk.thp_segments * stats::SEGMENT_BYTES as u64,
        asked_for()
    );
    free(huge);
    let (last, first): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|p| p.addr() % SLOT < 256);
    first.into_iter().for_each(free);
    c::trim();
    // A page of one system page has no piece to give back.
    if oracle::page_size() < SLOT {
        let least = 6 * stats::SEGMENT_BYTES as u64;
        assert!(refused() >= least, "{}", refused());
    }
    last.into_iter().chain(large).for_each(free);
    c::trim();
    let again = fill(256, 16 * MIB);
    assert!(segments().0 >= 8, "{:?}", segments());
    again.into_iter().for_each(free);
}

/// The kernel may make huge pages of its own choice, and would fill what was given back: nobody
/// asked for them here.
fn unasked() {
    if !has_huge_pages() {
        return;
    }
    count_stacks();
    thp_from(c"HAKMEM_THP_FROM_SEGMENTS=1000000");
    let maps = || {
        std::fs::read_to_string("/proc/self/maps")
            .unwrap()
            .lines()
            .count()
    };
    let before = maps();
    // In which the heap keeps a page.
    let left = 2 * stats::SEGMENT_BYTES as u64;
    for size in [256, 3 * SLOT] {
        let blocks = fill(size, 48 * MIB);
        let (thp, all) = segments();
        assert!(thp == 0 && refused() <= left, "{thp} {}", refused());
        // Pieces of pages, and whole slots.
        let mut at = 0;
        let (kept, gone): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|p| {
            at += 1;
            if size < SLOT {
                p.addr() % SLOT < 256
            } else {
                at % 5 == 0
            }
        });
        gone.into_iter().for_each(free);
        c::trim();
        let segments = refused() / stats::SEGMENT_BYTES as u64;
        // A page of one system page has no piece to give back.
        if size > SLOT || oracle::page_size() < SLOT {
            assert!(segments >= all - 2, "{size}: {segments} of {all}");
        }
        kept.into_iter().for_each(free);
        c::trim();
        // Whoever has them next has what the system gives, in as few maps as before.
        assert!(refused() <= left, "{}", refused());
        // What was committed ahead is one more, between others. What is left out of dumps is two.
        assert!(maps() <= before + 12, "{} maps after {before}", maps());
    }
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn what_is_given_back_in_part_is_not_filled_by_the_kernels_choice() {
    alone(
        "what_is_given_back_in_part_is_not_filled_by_the_kernels_choice",
        unasked,
    );
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn everything_asks_if_all_is_to() {
    alone("everything_asks_if_all_is_to", everywhere);
}

/// What asked for them before does not, in the hands of large blocks.
fn used_again() {
    thp_from(c"HAKMEM_THP_FROM_SEGMENTS=1");
    fill(256, 16 * MIB).into_iter().for_each(free);
    c::trim();
    let large = fill(4 * SLOT, 32 * MIB);
    assert_eq!(segments().0, 0);
    large.into_iter().for_each(free);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn one_heap_asks_for_huge_pages_before_its_pages_are_full() {
    alone(
        "one_heap_asks_for_huge_pages_before_its_pages_are_full",
        || pages_of_two_thirds(false),
    );
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn several_heaps_ask_for_huge_pages_once_their_pages_are_full() {
    alone(
        "several_heaps_ask_for_huge_pages_once_their_pages_are_full",
        || pages_of_two_thirds(true),
    );
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn segments_of_filled_pages_ask_until_a_part_is_given_back() {
    alone(
        "segments_of_filled_pages_ask_until_a_part_is_given_back",
        filled_pages,
    );
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "blocks of other sizes, and freed ones wait"
)]
fn segments_of_large_blocks_ask_beside_many_small_ones() {
    alone(
        "segments_of_large_blocks_ask_beside_many_small_ones",
        large_blocks,
    );
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "blocks of other sizes, and freed ones wait"
)]
fn segments_of_large_blocks_ask_up_to_a_bound() {
    alone(
        "segments_of_large_blocks_ask_up_to_a_bound",
        many_large_blocks,
    );
}

#[test]
fn segments_of_little_used_pages_do_not_ask() {
    alone(
        "segments_of_little_used_pages_do_not_ask",
        little_used_pages,
    );
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "blocks of other sizes, and freed ones wait"
)]
fn fresh_blocks_ask_up_to_a_bound() {
    alone("fresh_blocks_ask_up_to_a_bound", tried);
}

#[test]
fn no_segment_asks_if_none_is_to() {
    alone("no_segment_asks_if_none_is_to", none_at_all);
}

#[test]
fn segments_that_are_used_again_ask_anew() {
    alone("segments_that_are_used_again_ask_anew", used_again);
}

#[test]
fn segments_of_which_pages_are_given_back_ask_no_more() {
    alone(
        "segments_of_which_pages_are_given_back_ask_no_more",
        emptied_pages,
    );
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn segments_of_filled_pages_ask_as_much_after_many_others() {
    alone(
        "segments_of_filled_pages_ask_as_much_after_many_others",
        || after_a_life(filled_pages),
    );
}

#[test]
fn segments_of_little_used_pages_do_not_ask_after_many_others() {
    alone(
        "segments_of_little_used_pages_do_not_ask_after_many_others",
        || after_a_life(little_used_pages),
    );
}
