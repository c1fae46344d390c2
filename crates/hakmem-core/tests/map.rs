//! The picture of the heap against what the program has, and against the heap_walk.
//!
//! Each runs in a process of its own, where one thread alone has a heap.
#![cfg(not(any(loom, shuttle)))]

use crate::oracle;

use hakmem_core::c;
use hakmem_core::stats::{self, Content, Huge, Segment, Snapshot};
use oracle::plain::{configure, free, resize, take};
use oracle::{alone, page_size};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;

const SLOT: usize = stats::SLOT_BYTES;
const SEGMENT: usize = stats::SEGMENT_BYTES;
const SLOTS: u32 = (SEGMENT / SLOT) as u32;

/// What the pages of a size hold, by the place where they are kept: pages, blocks, carved blocks,
/// blocks out.
type Pages = BTreeMap<(u32, &'static str), [u64; 4]>;

#[derive(Debug, Default, PartialEq, Eq)]
struct Sums {
    slotted: u64,
    huge: u64,
    reserve: u64,
    cached: u64,
    thp: u64,
    page_slots: u64,
    large: u64,
    kept: u64,
    empty: u64,
    unused: u64,
}

/// The segments of a huge block, and those kept behind it.
fn kept(segment: &Segment) -> (u32, u32) {
    let huge = segment.huge.expect("it is a huge block");
    (huge.segments, huge.reserve)
}

/// Adds a segment up; its slots lie side by side from its first to its last.
fn add(segment: &Segment, sums: &mut Sums, pages: &mut Pages) {
    assert!(segment.address.is_multiple_of(SEGMENT));
    if let Some(Huge {
        segments, reserve, ..
    }) = segment.huge
    {
        sums.huge += u64::from(segments);
        sums.reserve += u64::from(reserve);
        sums.thp += u64::from(segment.thp) * u64::from(segments);
        assert_eq!(segment.slots().count(), 0);
        return;
    }
    sums.thp += u64::from(segment.thp);
    let (mut next, mut kept, mut unused) = (0, 0, 0);
    for slot in segment.slots() {
        assert_eq!(slot.first, next);
        next += slot.span;
        let span = u64::from(slot.span);
        match slot.content {
            Content::Clean => unused += span,
            Content::Dirty => sums.empty += span,
            Content::Kept => kept += span,
            Content::Large => sums.large += span,
            Content::Page(page) => {
                sums.page_slots += span;
                let of = pages.entry((page.size, page.state.name())).or_default();
                let figures = [1, page.blocks, page.carved, page.used].map(u64::from);
                of.iter_mut().zip(figures).for_each(|(sum, n)| *sum += n);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(next, SLOTS);
    if [kept, unused].contains(&u64::from(SLOTS)) {
        sums.cached += 1;
    } else {
        sums.slotted += 1;
        sums.kept += kept;
        sums.unused += unused;
    }
}

fn look() -> (Sums, Pages) {
    let (mut sums, mut pages) = (Sums::default(), Pages::new());
    let mut last = 0;
    stats::each_segment(&mut |segment| {
        add(segment, &mut sums, &mut pages);
        assert!(segment.address > last, "one behind the other");
        last = segment.address;
    });
    (sums, pages)
}

/// The map agrees with the heap_walk, and its pages with the figures of their classes.
fn assert_agrees() -> (Sums, Pages) {
    let (sums, pages) = look();
    let snapshot = Snapshot::take();
    let c = snapshot.heap_walk();
    let heap_walk = Sums {
        slotted: c.slotted_segments,
        huge: c.huge_segments,
        reserve: c.reserve_segments,
        cached: c.cached_segments,
        thp: c.thp_segments,
        page_slots: c.page_slots,
        large: c.large_slots,
        kept: c.kept_slots,
        empty: c.dirty_slots,
        unused: c.clean_slots,
    };
    assert_eq!(sums, heap_walk);
    for class in snapshot.classes() {
        let of_class = pages
            .iter()
            .filter(|(key, _)| u64::from(key.0) == class.size);
        let (mut all, mut full) = ([0; 4], 0);
        for ((_, place), figures) in of_class {
            all.iter_mut().zip(figures).for_each(|(sum, n)| *sum += n);
            full += if *place == "full" { figures[0] } else { 0 };
        }
        let [count, blocks, carved, out] = all;
        assert_eq!(count, class.pages, "pages of {}", class.size);
        assert_eq!(full, class.full_pages, "full, of {}", class.size);
        assert_eq!(carved * class.size, class.carved_bytes);
        assert_eq!(out * class.size, class.live_bytes, "out, of {}", class.size);
        assert!(out <= carved && carved <= blocks);
    }
    (sums, pages)
}

fn places() {
    let mut rest = Vec::new();
    // A page whose blocks are all out, and one of which some are.
    rest.extend((0..SLOT / 64 + 100).map(|_| take(64)));
    rest.split_off(SLOT / 64 + 50).into_iter().for_each(free);
    // Pages of eight slots.
    rest.extend((0..70).map(|_| take(9000)));
    // An empty one: the first four blocks are all that were made of it. Another thread frees them,
    // as this one would put them onto its heap's list. The next refill merges them.
    let four = [(); 4].map(|()| take(1000).expose_provenance());
    let frees = move || {
        four.map(std::ptr::with_exposed_provenance_mut)
            .into_iter()
            .for_each(free)
    };
    std::thread::spawn(frees).join().unwrap();
    rest.push(take(2000));
    let (_, pages) = assert_agrees();
    let full = SLOT as u64 / 64;
    assert_eq!(pages[&(64, "full")], [1, full, full, full]);
    assert_eq!(pages[&(64, "queue")][3], 50);
    assert_eq!(pages[&(1024, "retired")][3], 0);
    // It is taken up again.
    rest.push(take(1000));
    let (_, pages) = assert_agrees();
    assert_eq!(pages[&(1024, "queue")][3], 1);
    // Some blocks of the page that is full come back, and then so many that it is full no more.
    rest.drain(..3).for_each(free);
    let (_, pages) = assert_agrees();
    assert_eq!(pages[&(64, "full")], [1, full, full, full - 3]);
    rest.drain(..197).for_each(free);
    let (_, pages) = assert_agrees();
    assert_eq!(pages[&(64, "queue")][3], full - 200 + 50);
    // A list of blocks that lie in all slots of their page.
    rest.drain(rest.len() - 41..rest.len() - 1).for_each(free);
    rest.push(take(9000));
    assert_agrees();

    // Of eight pages two blocks each stay: four cool, the others are parked.
    let mut by_page = BTreeMap::<usize, Vec<*mut u8>>::new();
    let page = SLOT / 256;
    for p in (0..9 * page).map(|_| take(256)) {
        by_page.entry(p.addr() / SLOT).or_default().push(p);
    }
    let mut by_page: Vec<_> = by_page.into_values().collect();
    rest.extend(by_page.pop().unwrap());
    for blocks in by_page {
        rest.extend(&blocks[..2]);
        blocks[2..].iter().for_each(|&p| free(p));
    }
    let (sums, pages) = assert_agrees();
    let (candidates, parked) = (pages[&(256, "candidate")], pages[&(256, "parked")]);
    assert_eq!((candidates[0], candidates[3]), (4, 8));
    assert_eq!((parked[0], parked[3]), (4, 8));
    // What may go back: theirs, as nothing else is free.
    assert_eq!(
        (sums.empty, stats::process().dirty_bytes),
        (0, 4 * SLOT as u64)
    );
    // Their holes are purged, and blocks come back to them.
    c::trim();
    assert_agrees();
    assert_eq!(stats::process().dirty_bytes, 0);
    let (first, last) = rest.split_at(rest.len() - 9);
    last.iter().for_each(|&p| free(p));
    assert_agrees();
    first.iter().for_each(|&p| free(p));
    c::trim();
    let (sums, pages) = assert_agrees();
    assert_eq!((sums.large, sums.huge, sums.empty), (0, 0, 0));
    assert!(
        sums.page_slots <= 1,
        "one that the heap goes on with: {pages:?}"
    );
    let p = stats::process();
    assert_eq!((p.in_flight, p.live_bytes, p.allocations), (0, 0, p.frees));
    // There never was so much: what classes have is noted.
    let large: Vec<_> = (0..256).map(|_| take(1 << 20)).collect();
    let snapshot = Snapshot::take();
    assert!(
        snapshot
            .classes()
            .all(|c| c.peak_bytes == c.carved_bytes && c.live_bytes == 0)
    );
    large.into_iter().for_each(free);
}

fn wholes() {
    let large = [2, 3, 5].map(|slots| take(slots * SLOT));
    let huge = take(3 * SEGMENT);
    let (sums, _) = assert_agrees();
    assert_eq!((sums.large, sums.huge, sums.reserve), (10, 3, 0));
    // Kept at hand, and in the cache of huge blocks.
    free(large[0]);
    free(take(2 * SEGMENT));
    let (sums, _) = assert_agrees();
    assert_eq!((sums.large, sums.kept, sums.cached), (8, 2, 2));
    c::trim();
    let (sums, _) = assert_agrees();
    assert_eq!((sums.large, sums.kept, sums.cached), (8, 0, 0));
    // Empty until they are given back.
    free(resize(large[2], SLOT + SLOT / 2));
    let (sums, _) = assert_agrees();
    assert!(sums.empty + sums.kept >= 5, "{sums:?}");
    // Grown twice: half as much again is kept behind it.
    let huge = resize(resize(huge, 4 * SEGMENT), 6 * SEGMENT);
    let (sums, _) = assert_agrees();
    assert_eq!((sums.huge, sums.reserve), (6, 3));
    free(huge);
    free(large[1]);
    c::trim();
    let (sums, _) = assert_agrees();
    assert_eq!((sums.large, sums.huge, sums.reserve), (0, 0, 0));
}

/// Whether the system makes huge pages unasked.
fn makes_huge_pages() -> bool {
    let how = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    how.is_ok_and(|how| how.contains("[always]"))
}

/// Of each slot, the pieces that were touched, and no others.
fn residence() {
    // So that what is touched has the length of a system page.
    configure(&[c"HAKMEM_THP=never"]);
    let (before, huge_at) = (take(2 * SEGMENT), Cell::new(0));
    let huge = take(3 * SEGMENT);
    let touched = [(1, 5, 0), (1, 5, 3), (1, 31, 15), (2, 0, 7)];
    for (segment, slot, piece) in touched {
        // SAFETY: inside the block.
        unsafe {
            huge.add(segment * SEGMENT + slot * SLOT + piece * 4096)
                .write(1)
        };
    }
    let mut found = None;
    stats::each_segment(&mut |segment| {
        if segment.address == before.addr() {
            assert_eq!(kept(segment), (2, 0));
            huge_at.set(segment.address + 2 * SEGMENT);
        }
        if segment.address == huge.addr() {
            assert_eq!(kept(segment), (3, 0));
            found = Some([0, 1, 2].map(|nth| segment.resident(nth).unwrap()));
        }
    });
    let mut expected = [[0u8; SLOTS as usize]; 3];
    // As many as the system's page has come with each.
    let pieces = page_size() / 4096;
    let pages: std::collections::BTreeSet<_> = touched
        .map(|(segment, slot, piece)| (segment, slot, piece / pieces))
        .into();
    for (segment, slot, _) in pages {
        expected[segment][slot] += pieces as u8;
    }
    let found = found.expect("the huge block is on the map");
    assert_eq!(
        huge_at.get(),
        huge.addr(),
        "behind the one that is there, too"
    );
    // Huge pages are resident as a whole.
    let whole = |counts: &[u8]| makes_huge_pages() && counts.iter().all(|&n| n == 16);
    for (found, expected) in found.iter().zip(&expected) {
        assert!(found == expected || whole(found), "{found:?}");
    }
    let resident = stats::resident_bytes();
    assert!(
        resident >= 4 * 4096 && resident <= (4 * SEGMENT + SLOT) as u64,
        "{resident}"
    );
    // SAFETY: the block holds that.
    unsafe { huge.write_bytes(1, 3 * SEGMENT) };
    let more = stats::resident_bytes();
    assert!(
        more >= 3 * SEGMENT as u64 && more < 5 * SEGMENT as u64,
        "{more}"
    );
    // What is not touched does not count, and what lies behind it does.
    let (untouched, behind) = (take(20 * SEGMENT), take(20 * SEGMENT));
    // SAFETY: the block holds that.
    unsafe { behind.write_bytes(1, 20 * SEGMENT) };
    let most = stats::resident_bytes() - more;
    assert!(
        most >= 20 * SEGMENT as u64 && most < 22 * SEGMENT as u64 || makes_huge_pages(),
        "{most}"
    );
    let all = [before, huge, untouched, behind];
    all.into_iter().for_each(free);
}

/// What lies on the list of another thread that runs counts as out, as it cannot be looked at.
fn of_another() {
    let (ready, over) = (Barrier::new(2), Barrier::new(2));
    let figures = thread::scope(|scope| {
        scope.spawn(|| {
            let p = take(64);
            ready.wait();
            over.wait();
            free(p);
        });
        ready.wait();
        let mine = take(640);
        let (_, pages) = look();
        over.wait();
        free(mine);
        (pages[&(64, "queue")], pages[&(640, "queue")])
    });
    let ([_, _, carved, out], [_, _, _, own]) = figures;
    assert!(out == carved && carved > 1, "{out} of {carved}");
    assert_eq!(own, 1);
}

/// Without a look into the lists, what lies there counts as out.
fn from_outside() {
    let blocks: Vec<_> = (0..100).map(|_| take(64)).collect();
    let mut pages = Pages::new();
    let mut sums = Sums::default();
    stats::each_segment_from_outside(&mut |segment| add(segment, &mut sums, &mut pages));
    let [_, _, carved, out] = pages[&(64, "queue")];
    assert!(out > 100 && out == carved, "{out} of {carved}");
    blocks.into_iter().for_each(free);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn each_page_is_where_it_is_said_to_be() {
    alone("each_page_is_where_it_is_said_to_be", places);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn large_blocks_and_huge_are_on_the_map() {
    alone("large_blocks_and_huge_are_on_the_map", wholes);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn what_is_resident_is_told_by_slot() {
    alone("what_is_resident_is_told_by_slot", residence);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn lists_of_others_are_not_looked_into() {
    alone("lists_of_others_are_not_looked_into", of_another);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn lists_can_be_left_alone() {
    alone("lists_can_be_left_alone", from_outside);
}

/// The last slots of a page of several too: a block that was freed alone is at hand, and not out.
fn in_later_slots() {
    let blocks: Vec<_> = (0..30).map(|_| take(12_000)).collect();
    let out = || look().1.remove(&(12_288, "queue")).unwrap()[3];
    assert_eq!(out(), 30);
    free(blocks[25]);
    assert_eq!(out(), 29);
    free(blocks[20]);
    assert_eq!(out(), 28);
}

#[test]
fn blocks_at_hand_are_not_out() {
    alone("blocks_at_hand_are_not_out", in_later_slots);
}
