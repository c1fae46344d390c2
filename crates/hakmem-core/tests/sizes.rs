//! What each request gets: how large a block is, where it lies, and when it stays where it is.

use crate::oracle::plain::{free, resize, take};
use crate::oracle::{Rust, aligned_huge_blocks_grow, alone};
use crate::turn;
use hakmem_core::{Hakmem, c, options, stats};
use std::alloc::{GlobalAlloc, Layout};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const SLOT: usize = 64 * KIB;
const SEGMENT: usize = 2 * MIB;

/// All that was taken since is free, and with the system.
#[track_caller]
fn assert_all_back(before: &stats::Stats) {
    c::trim();
    let after = stats::process();
    let (live, dirty) = (after.live_bytes, after.dirty_bytes);
    assert_eq!((live, dirty), (before.live_bytes, 0));
}
fn usable(p: *mut u8) -> usize {
    // SAFETY: live.
    unsafe { c::usable_size(p) }
}

/// By the description in `docs/decisions.md`: steps of 16 to 128, then four per doubling, and one
/// for a power of two with a header, and one for 4 KiB with up to 320 bytes.
fn block_size(n: usize) -> usize {
    match n {
        0..=128 => n.max(1).next_multiple_of(16),
        1025..=1088 | 2049..=2112 | 4097..=4160 => n.next_power_of_two() / 2 + 64,
        4161..=4416 => 4416,
        129..=65_536 => {
            n.next_multiple_of((n - 1).next_power_of_two().max(n.next_power_of_two()) / 8)
        }
        65_537..=1_048_576 => n.next_multiple_of(SLOT),
        _ => n.next_multiple_of(SEGMENT),
    }
}

/// A block that grows and shrinks over the border of two kinds is not copied each time: it stays
/// where it is until much less of it is asked for.
#[test]
fn a_block_that_shrinks_a_little_over_a_border_stays() {
    let _turn = turn();
    let before = stats::process().live_bytes;
    // Of what the block is, and the least for which it stays.
    for (size, least) in [(70_000, 56 * KIB), (MIB + 1, 896 * KIB)] {
        let p = take(size);
        // SAFETY: the block is live, and has so many bytes.
        unsafe { p.write_bytes(7, least) };
        // The hardened build needs a few bytes behind a request.
        for n in [least + 5000, size, least, size] {
            assert_eq!(resize(p, n), p, "{size} to {n}");
            assert!(usable(p) >= n);
        }
        let q = resize(p, least - 100);
        assert_ne!(q, p, "{size} to less than {least}");
        // SAFETY: the block is live, and has so many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(q, least - 100) };
        assert!(bytes.iter().all(|&byte| byte == 7));
        free(q);
    }
    // Rust passes the size, by which it could take the block for a smaller one.
    let at = |size| Layout::from_size_align(size, 8).unwrap();
    // SAFETY: each call has the block's layout at the time.
    unsafe {
        let p = Hakmem.alloc(at(70_000));
        assert_eq!(Hakmem.realloc(p, at(70_000), 60_000), p);
        assert_eq!(Hakmem.realloc(p, at(60_000), 70_000), p);
        assert_eq!(Hakmem.realloc(p, at(70_000), 60_000), p);
        let q = Hakmem.realloc(p, at(60_000), 1000);
        Hakmem.dealloc(q, at(1000));
        let p = Hakmem.realloc(Hakmem.alloc(at(70_000)), at(70_000), 60_000);
        Hakmem.dealloc(p, at(60_000));
    }
    // Some freed blocks wait in the hardened build, and count as live.
    if !cfg!(feature = "hardened") {
        assert_eq!(stats::process().live_bytes, before);
    }
}

/// The pages that tell the number of classes tell the right one. Four classes are for Rust alone.
#[test]
fn the_pages_know_the_number_of_classes() {
    let mut sizes: Vec<_> = (1..=65_536).map(block_size).collect();
    sizes.dedup();
    let classes = sizes.len() + [8, 24, 40, 56].len();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    for (page, around) in [
        ("docs/design.md", "There are {} block sizes"),
        ("docs/glossary.md", "One of the {} block sizes"),
        ("docs/decisions.md", "**{} classes.**"),
        ("docs/life-of-a-block.md", "one of {} **classes**"),
        (
            "crates/hakmem-core/src/observe/report/make.rs",
            " {} classes and 256 heaps",
        ),
        (
            "crates/hakmem-core/tests/program_heaps.rs",
            "for each of\n/// {} classes",
        ),
    ] {
        let text = std::fs::read_to_string(format!("{root}{page}")).unwrap();
        let expected = around.replace("{}", &classes.to_string());
        assert!(text.contains(&expected), "{page} does not say: {expected}");
    }
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn blocks_are_as_large_as_their_class() {
    let _turn = turn();
    let around = |n: usize| [n - 1, n, n + 1];
    let sizes = (0..2000)
        .chain((11..17).flat_map(|shift| (4..8).flat_map(move |step| around(step << (shift - 2)))))
        .chain((10..14).flat_map(|shift| around((1 << shift) + 64)))
        .chain(around(4416))
        .chain((1..33).flat_map(|slots| around(slots * SLOT)))
        .chain((1..5).flat_map(|segments| around(segments * SEGMENT)));
    for n in sizes {
        let p = take(n);
        assert_eq!(usable(p), if n == 0 { 0 } else { block_size(n) }, "{n}");
        free(p);
    }
}

/// The list is asked first, and what is not on one is the other slow path's to serve.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "new_or always takes the caller's slow path"
)]
fn a_slow_path_of_the_callers_is_taken_where_the_list_has_nothing() {
    let _turn = turn();
    let other = take(5000);
    let slow = |n: usize| {
        assert_eq!(n, 5000);
        other
    };
    // The first one leaves more of its size on the list.
    let first = take(100);
    // SAFETY: any size.
    let (small, larger) = unsafe {
        (
            c::new_or(100, false, |_| panic!("there is one on the list")),
            c::new_or(5000, false, slow),
        )
    };
    assert!(!small.is_null() && small != first && usable(small) == 112);
    assert_eq!(larger, other);
    [first, small, other].into_iter().for_each(free);
}

/// Up to 64 KiB, and whatever the alignment up to that: no slot is taken for one alone.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "free of what Rust's alloc made is an error"
)]
fn requests_of_a_class_are_served_by_it_whatever_is_asked_besides() {
    let _turn = turn();
    let before = stats::process().large_allocations;
    for n in [100, SLOT] {
        let aligned = |align| Layout::from_size_align(n, align).unwrap();
        // SAFETY: sizes above 0, powers of two, and each block is freed once.
        unsafe {
            let blocks = [
                c::malloc(n),
                c::zeroed(n),
                c::memalign(64, n),
                Hakmem.alloc(aligned(1)),
                Hakmem.alloc(aligned(16)),
                Hakmem.alloc(aligned(64)),
                Hakmem.alloc_zeroed(aligned(64)),
            ];
            let held = blocks.map(usable);
            assert!(held.iter().all(|held| (n..=128.max(n)).contains(held)));
            blocks.into_iter().for_each(free);
        }
    }
    assert_eq!(stats::process().large_allocations, before);
}

#[test]
fn aligned_blocks_are_aligned_and_hold_what_was_asked_for() {
    let _turn = turn();
    for shift in 0..28 {
        for n in [1, 100, 5000, 70_000, MIB, 3 * MIB] {
            let align = 1usize << shift;
            // SAFETY: a power of two.
            let (p, q) = unsafe { (c::memalign(align, n), c::memalign(align, n)) };
            for p in [p, q] {
                assert!(
                    !p.is_null() && p.addr().is_multiple_of(align),
                    "{n} at {align}"
                );
                let most = if align <= SLOT {
                    2 * block_size(n.max(align))
                } else {
                    n.next_multiple_of(SEGMENT)
                };
                assert!((n..=most).contains(&usable(p)), "{n} at {align}");
            }
            assert!(p.addr().abs_diff(q.addr()) >= n);
            free(p);
            free(q);
        }
    }
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn small_blocks_stay_while_they_are_half_used() {
    let _turn = turn();
    for n in [64, 100, 1000, 5000, 40_000] {
        let p = take(n);
        let held = usable(p);
        for to in [held, held / 2 + 1, 1.max(held / 2 + 1), held] {
            assert_eq!(resize(p, to), p, "{held} to {to}");
        }
        let to = held / 2;
        let moved = resize(p, to);
        assert_eq!(moved == p, held <= 64, "{held} to {to}");
        assert_eq!(
            usable(moved),
            if held <= 64 { held } else { block_size(to) }
        );
        let grown = resize(moved, 2 * held);
        assert_eq!(usable(grown), block_size(2 * held));
        free(grown);
    }
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn large_blocks_grow_and_shrink_where_they_are() {
    let _turn = turn();
    let before = stats::process();
    // What it gives up is free behind it.
    let p = take(16 * SLOT);
    let at = |n: usize| {
        let now = resize(p, n);
        assert_eq!(now, p, "{n}");
        assert_eq!(usable(p), n);
        let live = stats::process().live_bytes;
        assert_eq!(live - before.live_bytes, n as u64);
    };
    at(8 * SLOT);
    at(3 * SLOT);
    at(6 * SLOT);
    at(16 * SLOT);
    at(8 * SLOT);
    at(4 * SLOT);
    // Others lie behind it now: it has to move.
    let others: Vec<_> = (0..40).map(|_| take(2 * SLOT)).collect();
    let moved = resize(p, 9 * SLOT);
    assert!(moved != p && usable(moved) == 9 * SLOT);
    // Less than half used, and small enough for a class.
    let small = resize(moved, 10 * KIB);
    assert_eq!(usable(small), 10 * KIB);
    free(small);
    others.into_iter().for_each(free);
    assert_all_back(&before);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn freed_large_blocks_are_kept_at_hand() {
    let _turn = turn();
    // Four of them, 1 MiB together.
    let sizes = [2, 3, 4, 5].map(|slots| slots * SLOT);
    let (blocks, second, third) = (sizes.map(take), take(2 * SLOT), take(5 * SLOT));
    let dirty = || stats::process().dirty_bytes;
    blocks.into_iter().for_each(free);
    assert_eq!(dirty(), 0, "they are the heap's");
    assert_eq!(sizes.map(take), blocks);
    blocks.into_iter().for_each(free);
    // One of them makes room for the next, whichever's turn it is.
    free(second);
    let first = dirty();
    assert!(sizes.contains(&(first as usize)), "{first}");
    free(third);
    // Five slots more: no more than 16 are kept.
    let (kept, gone) = (14 - first as usize / SLOT + 2 + 5, dirty() - first);
    assert!(gone > 0 && kept - gone as usize / SLOT <= 16, "{gone}");
    assert!(c::trim());
    assert_eq!(dirty(), 0);
    assert!(!c::trim(), "there is no more to be had");
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn freed_huge_are_kept_and_the_best_fit_is_used() {
    let _turn = turn();
    // So that what comes then lies side by side.
    let gaps: Vec<_> = (0..60).map(|_| take(SEGMENT)).collect();
    let [a, wall1, b, wall2, d, wall3] = [5, 1, 2, 1, 3, 1].map(|n| take(n * SEGMENT));
    assert_eq!(wall1.addr(), a.addr() + 5 * SEGMENT);
    let live = stats::process().live_bytes;
    [a, b, d].into_iter().for_each(free);
    let now = stats::process();
    assert_eq!(now.dirty_bytes, 10 * SEGMENT as u64);
    assert_eq!(live - now.live_bytes, 10 * SEGMENT as u64);
    // The best fit for each, and what is left of it.
    assert_eq!(take(SEGMENT + SLOT), b);
    assert_eq!(take(2 * SEGMENT), d);
    assert_eq!(take(17 * SLOT).addr(), d.addr() + 2 * SEGMENT);
    assert_eq!(take(4 * SEGMENT), a);
    assert_eq!(stats::process().dirty_bytes, SEGMENT as u64);
    // What lies side by side becomes one, in whatever order it comes.
    free(wall1);
    free(a);
    assert_eq!(take(6 * SEGMENT), a);
    let behind = d.wrapping_add(2 * SEGMENT);
    [behind, b, d, wall2].into_iter().for_each(free);
    assert_eq!(take(6 * SEGMENT), b);
    [a, b, wall3].into_iter().chain(gaps).for_each(free);
    c::trim();
    assert_eq!(stats::process().dirty_bytes, 0);
}

/// In a process of its own, in which nothing else was live lately.
#[test]
fn the_huge_cache_is_bounded() {
    alone("the_huge_cache_is_bounded", free_more_than_may_stay);
}

fn free_more_than_may_stay() {
    options::set("HUGE_CACHE_PERCENT", "50").expect("a value");
    let blocks: Vec<_> = (0..24).map(|_| take(2 * SEGMENT)).collect();
    let live = stats::process().live_bytes;
    blocks.into_iter().for_each(free);
    // Half of what was live lately, or 32 MiB.
    let most = (live / 2).max(32 * MIB as u64);
    let dirty = stats::process().dirty_bytes;
    assert!((1..=most).contains(&dirty), "{dirty} of {most}");
    c::trim();
    assert_eq!(stats::process().dirty_bytes, 0);
}

/// A huge block that shrinks gives up its own tail, and none of what lies behind it.
#[test]
fn huge_blocks_shrink_beside_others() {
    const WHOLE: usize = 4 * SEGMENT;
    let _turn = turn();
    let write = |p: *mut u8, n: usize, byte: u8| {
        // SAFETY: a live block of so many bytes.
        (0..n)
            .step_by(4096)
            .for_each(|at| unsafe { p.add(at).write(byte) });
    };
    let holds = |p: *mut u8, n: usize, byte: u8| {
        // SAFETY: `p` is a live block of `n` bytes or more, all of which were written.
        (0..n)
            .step_by(4096)
            .all(|at| unsafe { p.add(at).read() } == byte)
    };
    let mut huge: Vec<_> = (0..12).map(|_| take(WHOLE)).collect();
    for (i, &p) in huge.iter().enumerate() {
        write(p, WHOLE, i as u8);
    }
    for p in huge.iter_mut().step_by(2) {
        *p = resize(*p, SEGMENT);
    }
    let others: Vec<_> = (0..24).map(|_| take(SEGMENT)).collect();
    others.iter().for_each(|&p| write(p, SEGMENT, 0xee));
    for (i, &p) in huge.iter().enumerate() {
        let n = if i % 2 == 0 { SEGMENT } else { WHOLE };
        assert!(holds(p, n, i as u8), "{i}");
    }
    huge.into_iter().chain(others).for_each(free);
    c::trim();
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn huge_blocks_grow_and_shrink() {
    let _turn = turn();
    let before = stats::process();
    let fill = |p: *mut u8, from: usize, to: usize| {
        for at in (from..to).step_by(4096) {
            // SAFETY: within the block.
            unsafe { p.wrapping_add(at).cast::<u64>().write(at as u64 ^ 0x5aa5) };
        }
    };
    let check = |p: *mut u8, to: usize| {
        for at in (0..to).step_by(4096) {
            // SAFETY: within the block, and written.
            let word = unsafe { p.wrapping_add(at).cast::<u64>().read() };
            assert_eq!(word, at as u64 ^ 0x5aa5);
        }
    };
    let mut p = take(2 * MIB);
    let mut held = 2 * MIB;
    fill(p, 0, held);
    let mut walls = Vec::new();
    for round in 0..9 {
        let n = held + held / 2;
        p = resize(p, n);
        check(p, held);
        assert_eq!(usable(p), n.next_multiple_of(SEGMENT));
        fill(p, held, n);
        held = n;
        if round % 3 == 0 {
            // In its way.
            walls.push(take(SEGMENT));
        }
        let live = stats::process().live_bytes - before.live_bytes;
        assert_eq!(live as usize, usable(p) + walls.len() * SEGMENT);
    }
    while held > 4 * MIB {
        let n = held / 2 + 1;
        assert_eq!(resize(p, n), p, "half of it is used");
        held /= 2;
        let to = resize(p, held);
        assert_eq!(usable(to), held.next_multiple_of(SEGMENT));
        p = to;
        check(p, held);
    }
    free(p);
    walls.into_iter().for_each(free);
    assert_all_back(&before);
}

#[test]
fn huge_blocks_stay_aligned_when_they_grow() {
    let _turn = turn();
    aligned_huge_blocks_grow(Rust);
}

#[test]
fn requests_that_no_memory_meets_are_refused() {
    let _turn = turn();
    let block = take(100);
    let assert_refused = |p: *mut u8, n: usize| {
        assert!(p.is_null(), "{n:#x}");
        // SAFETY: this thread's.
        let errno = unsafe { std::mem::take(&mut *libc::__errno_location()) };
        assert_eq!(errno, libc::ENOMEM, "{n:#x}");
    };
    for n in [
        isize::MAX as usize,
        usize::MAX,
        usize::MAX - 4096,
        1 << 47,
        (1 << 46) + 1,
        // There may be address space for that, but not for an arena.
        1 << 45,
    ] {
        // SAFETY: any size; the block is live.
        unsafe {
            *libc::__errno_location() = 0;
            assert_refused(c::malloc(n), n);
            assert_refused(c::zeroed(n), n);
            assert_refused(c::realloc(block, n), n);
        }
    }
    for align in [1 << 47, 1 << 62] {
        // SAFETY: powers of two.
        assert!(unsafe { c::memalign(align, 100) }.is_null());
    }
    // The hardened build tells what was asked for.
    assert_eq!(
        usable(block),
        if cfg!(feature = "hardened") { 100 } else { 112 }
    );
    free(block);
}

/// Memory that comes back is cleared where zeroed memory is asked for, however it came to be free.
#[test]
fn zeroed_memory_is_zero() {
    let _turn = turn();
    for n in [8, 100, 1000, 9000, 65_536, 65_537, MIB, MIB + 1, 5 * MIB] {
        for written in [n, n / 3, 1] {
            let blocks: Vec<_> = (0..20).map(|_| take(n)).collect();
            for &p in &blocks {
                // SAFETY: the block holds that.
                unsafe { p.write_bytes(0xa5, written) };
            }
            blocks.into_iter().for_each(free);
            // SAFETY: any size.
            let blocks: Vec<_> = (0..20).map(|_| unsafe { c::zeroed(n) }).collect();
            for &p in &blocks {
                // SAFETY: `zeroed` initialises n bytes.
                let bytes = unsafe { std::slice::from_raw_parts(p, n) };
                assert!(bytes.iter().all(|&b| b == 0), "{n}");
            }
            blocks.into_iter().for_each(free);
        }
    }
}

/// Memory that a huge block's page tables were moved to is as clean as other, once it came back.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn huge_blocks_that_moved_come_back_clean() {
    let _turn = turn();
    let (p, wall) = (take(2 * SEGMENT), take(SEGMENT));
    let moved = resize(p, 4 * SEGMENT);
    assert_ne!(moved, p);
    // SAFETY: the block holds that.
    unsafe { moved.write_bytes(0xa5, 4 * SEGMENT) };
    free(moved);
    c::trim();
    // SAFETY: any size.
    let blocks: Vec<_> = (0..12)
        .map(|_| unsafe { c::zeroed(SEGMENT + SLOT) })
        .collect();
    let again = |p: &&*mut u8| (moved.addr()..moved.addr() + 4 * SEGMENT).contains(&p.addr());
    assert!(blocks.iter().filter(again).count() >= 2);
    for &p in &blocks {
        // SAFETY: `zeroed` initialises it.
        let bytes = unsafe { std::slice::from_raw_parts(p, SEGMENT) };
        assert!(bytes.iter().all(|&b| b == 0));
    }
    blocks.into_iter().chain([wall]).for_each(free);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn large_blocks_grow_to_the_end_of_their_segment_and_no_further() {
    let _turn = turn();
    let mut blocks: Vec<_> = (0..80).map(|_| take(2 * SLOT)).collect();
    let is_last = |p: &*mut u8| (p.addr() + 2 * SLOT).is_multiple_of(SEGMENT);
    let last: Vec<_> = blocks.extract_if(.., |p| is_last(p)).collect();
    assert!(last.len() >= 2);
    for p in last {
        let before = p.wrapping_sub(2 * SLOT);
        let i = blocks.iter().position(|&p| p == before);
        let moved = resize(p, 3 * SLOT);
        assert!(moved != p && usable(moved) == 3 * SLOT);
        // What it left is kept at hand.
        c::trim();
        assert_eq!(resize(before, 4 * SLOT), before);
        let i = i.expect("they lie side by side");
        blocks[i] = resize(before, 5 * SLOT);
        assert_ne!(blocks[i], before);
        free(moved);
    }
    blocks.into_iter().for_each(free);
}

/// A heap uses the pages that it emptied again, also after it gave up all that was free. It has no
/// remote frees to merge meanwhile.
#[test]
fn empty_pages_are_kept_for_the_next() {
    let _turn = turn();
    let own = || {
        let snapshot = stats::Snapshot::take();
        let own = |h: &stats::ThreadHeap| h.state == stats::HeapUse::Own;
        snapshot.heaps().find(own)
    };
    free(take(1));
    let merges = || own().map(|h| h.merges);
    let (mut before, at_first) = (0, merges());
    for round in 0..20 {
        if round % 5 == 0 {
            c::trim();
        }
        let blocks: Vec<_> = (0..6 * SLOT / 256).map(|_| take(256)).collect();
        let now = own().map_or(0, |h| h.cached_pages);
        assert!(round % 5 == 0 || now > before, "round {round}");
        before = now;
        blocks.into_iter().for_each(free);
    }
    assert_eq!(merges(), at_first);
}
