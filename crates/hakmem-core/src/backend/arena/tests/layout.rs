//! The layout of an arena: its parts, the guards around them, and the end that is given up.

use super::super::layout::summary_bytes;
use super::super::run::chain;
use super::*;

#[test]
fn the_books_are_told_from_the_blocks() {
    alone("backend::arena::tests::layout::the_books_are_told_from_the_blocks", || {
        let arena = arena();
        let (books, metas) = (arena.summary.load(Relaxed).addr(), arena.metas.load(Relaxed).addr());
        let known = arena.known.load(Relaxed);
        let end = metas + known * SEGMENT_META;
        assert!(books < metas && end <= arena.data.load(Relaxed));
        assert!([books, metas - 1, metas, end - 1].iter().all(|&at| arena.has_in_books(at)));
        assert!(
            ![books - 1, end, arena.data.load(Relaxed)].iter().any(|&at| arena.has_in_books(at))
        );
        arena.known.store(known - 1, Relaxed); // As when its tail is given up.
        assert!(!arena.has_in_books(end - 1));
    });
}

/// The bitmaps of a large arena need more room than the rounding leaves before the metadata.
#[test]
fn parts_of_a_large_arena_do_not_overlap() {
    alone("backend::arena::tests::layout::parts_of_a_large_arena_do_not_overlap", || {
        let arena = nobodys();
        assert!(arena.reserve(1500 * GROUP * SEGMENT));
        let groups = arena.groups.load(Relaxed).addr();
        let segments = arena.segments.load(Relaxed);
        assert!(arena.summary.load(Relaxed).addr() + summary_bytes(segments) <= groups);
        assert!(groups + segments.div_ceil(GROUP) * size_of::<Group>() <= arena.meta(0).addr());
        assert!(arena.meta(0).addr() + segments * SEGMENT_META <= arena.slot_address(0));
    });
}

#[test]
fn memory_is_committed_once_and_counted() {
    alone("backend::arena::tests::layout::memory_is_committed_once_and_counted", || {
        let arena = arena();
        let committed = || totals().1;
        let before = committed();
        assert!(arena.mark_used(60, 10));
        // The metadata of two groups, and the bitmaps in front of it, are accessible now.
        let metas = arena.metas.load(Relaxed).addr() - arena.summary.load(Relaxed).addr()
            + 2 * GROUP * SEGMENT_META;
        assert_eq!(committed() - before, metas);
        assert!(arena.make_ready(1) && arena.make_ready(2));
        assert_eq!(committed() - before, metas);
        let before = committed();
        for (first, n, more) in [(62, 2, 2), (62, 1, 0), (60, 3, 2), (60, 10, 6), (60, 10, 0)] {
            let before = committed();
            assert!(arena.commit(first, n));
            assert_eq!((committed() - before) / SEGMENT, more, "{n} from {first}");
            for s in first..first + n {
                // SAFETY: `commit` has made the segment accessible, and nobody else uses this
                // arena.
                unsafe { at(arena.slot_address(s * (SEGMENT / SLOT))).write(1) };
                // SAFETY: the segment's last byte; `commit` has made the segment accessible.
                unsafe { at(arena.slot_address((s + 1) * (SEGMENT / SLOT)) - 1).write(1) };
                // SAFETY: `make_ready` has made the metadata accessible, and nobody else uses this
                // arena.
                unsafe { arena.meta((s + 1) * (SEGMENT / SLOT) - 1).write(1) };
            }
        }
        assert_eq!(committed() - before, 10 * SEGMENT);
        // The last group is a part of one.
        assert!(arena.mark_used(SEGMENTS - 1, 1) && arena.commit(SEGMENTS - 1, 1));
        let all = arena.metas.load(Relaxed).addr() - arena.summary.load(Relaxed).addr()
            + SEGMENTS * SEGMENT_META;
        assert_eq!(committed() - before, 11 * SEGMENT + all - metas);
    });
}

#[test]
fn a_tail_is_given_up() {
    alone("backend::arena::tests::layout::a_tail_is_given_up", || {
        // The segments end behind the last used one; but at least as many stay as the call asked
        // for.
        for (used, least, end) in
            [(5, 0, 5), (5, 3, 5), (5, 200, 200), (64, 0, 64), (65, 0, 65), (128, 20, 128)]
        {
            let arena = arena();
            let all = arena.known.load(Relaxed);
            arena.segments.store(all, Relaxed);
            assert!(arena.mark_used(used - 1, 1) && arena.commit(used - 1, 1));
            // A segment behind the end was used before.
            assert!(arena.commit(used - 1, 2.min(used.next_multiple_of(GROUP) - used + 1)));
            let (reserved, committed) = totals();
            let behind = if used % GROUP == 0 || end > used { 0 } else { SEGMENT };
            arena.give_tail_up(least, false);
            assert_eq!(arena.segments.load(Relaxed), end);
            let together = (os::page_size() / SEGMENT_META).max(1);
            let stays = end.max(used.next_multiple_of(GROUP)).next_multiple_of(together);
            assert_eq!(arena.known.load(Relaxed), stays);
            assert_eq!(totals().1, committed - behind);
            assert!(arena.commit(used - 1, 1));
            assert_eq!(totals().1, committed - behind, "it is accessible as before");
            assert_eq!(reserved - totals().0, (all - end) * SEGMENT + (all - stays) * SEGMENT_META);
            let (data, metas) = (arena.slot_address(0), arena.meta(0).addr());
            for (from, stays, all) in [
                (data, end * SEGMENT, all * SEGMENT),
                (metas, stays * SEGMENT_META, all * SEGMENT_META),
            ] {
                assert!(is_mapped(from) && is_mapped(from + stays - 1));
                assert!(!is_mapped(from + stays) && !is_mapped(from + all - 1));
            }
            let room = end - used;
            assert_eq!(arena.first_fit(room + 1, 1, Groups::ALL), (used > room + 1).then_some(0));
            // A second call changes nothing.
            let before = totals();
            arena.give_tail_up(least, false);
            assert_eq!(totals(), before);
        }
    });
}

/// Wherever the system puts an arena: a write before its first block, behind its last block, or
/// behind the map in front of the arena meets no metadata.
#[test]
fn metadata_and_data_lie_between_guards() {
    alone("backend::arena::tests::layout::metadata_and_data_lie_between_guards", || {
        let is_readable = |address| os::copy_readable(address, &mut [0]) == 1;
        // Arenas that are chained have only guards around them.
        assert!(take_run(1, 1, 1, Groups::ALL).is_some());
        for _ in 0..SEGMENT / SLOT {
            // The next one lies lower by this.
            assert!(os::reserve(SLOT).is_some());
            let arena = nobodys();
            let before = totals().0;
            assert!(arena.reserve(SEGMENT) && arena.mark_used(0, 1) && arena.commit(0, 1));
            let segments = arena.segments.load(Relaxed);
            let summary = arena.summary.load(Relaxed).addr();
            let (metas, data) = (arena.meta(0).addr(), arena.slot_address(0));
            let (metas_end, data_end) =
                (metas + segments * SEGMENT_META, data + segments * SEGMENT);
            assert!([summary, metas, metas_end - 1, data].into_iter().all(is_readable));
            // The last system page of the metadata may be larger than the rest of the metadata.
            let behind_metas = metas_end.next_multiple_of(os::page_size());
            for guard in [summary - SLOT, behind_metas, data - SLOT, data_end] {
                let ends = [guard, guard + SLOT - 1];
                assert!(
                    ends.into_iter().all(|at| is_mapped(at) && !is_readable(at)),
                    "{summary:x} {guard:x}"
                );
            }
            give_up(summary - SLOT, totals().0 - before);
        }
    });
}

/// The same of a scrap.
#[test]
fn a_scrap_has_guards_around_its_metadata_and_its_slots() {
    alone(
        "backend::arena::tests::layout::a_scrap_has_guards_around_its_metadata_and_its_slots",
        || {
            if os::page_size() > SEGMENT_META {
                return;
            }
            let is_readable = |address| os::copy_readable(address, &mut [0]) == 1;
            assert!(take_run(1, 1, 1, Groups::ALL).is_some());
            let (arena, first, end) = take_scrap(1).unwrap();
            let (summary, metas) = (arena.summary.load(Relaxed).addr(), arena.meta(0).addr());
            let metas_end = metas + 2 * SEGMENT_META;
            let (slots, slots_end) = (arena.slot_address(first), arena.slot_address(end));
            let inside = [summary, metas_end - 1, slots, slots_end - 1];
            assert!(inside.into_iter().all(is_readable), "{inside:x?}");
            let outside = [summary - 1, metas_end, slots - 1, slots_end];
            assert!(
                outside.into_iter().all(|at| is_mapped(at) && !is_readable(at)),
                "{outside:x?}"
            );
        },
    );
}

#[test]
fn addresses_lead_to_pages_and_back() {
    alone("backend::arena::tests::layout::addresses_lead_to_pages_and_back", || {
        let (first, _) = take_run(1, 1, 1, Groups::ALL).unwrap();
        let second = {
            let _held = LOCK.lock();
            chain(3).unwrap()
        };
        for (arena, is_hot) in [(first, true), (second, false)] {
            let (data, segments) = (arena.slot_address(0), arena.segments.load(Relaxed));
            let pages = segments * (SEGMENT / SLOT);
            for page in [0, 1, 31, 32, 1000.min(pages - 1), pages - 1] {
                let (start, meta) = (arena.slot_address(page), arena.meta(page).addr());
                for address in [start, start + 1, start + SLOT - 1] {
                    let (found, number) = find(address).unwrap();
                    assert!(core::ptr::eq(found, arena) && number == page);
                }
                assert_eq!(start_of(meta), start);
                let (found, number) = of_meta(meta);
                assert!(core::ptr::eq(found, arena) && number == page);
            }
            assert!(find(data - 1).is_none() && find(data + pages * SLOT).is_none());
            let (metas, behind) = (arena.meta(0).addr(), arena.meta(pages).addr());
            assert!(is_meta(metas) && is_meta(behind - META) && !is_meta(metas + META / 2));
            assert!(!is_meta(metas - META) && !is_meta(behind));
            if is_hot {
                assert_eq!(
                    (HOT.data(), HOT.limit(), HOT.limit16()),
                    (data, pages * SLOT, pages * SLOT / 16)
                );
                assert_eq!(HOT.metas(), arena.meta(0));
            }
            assert!(data.is_multiple_of(SEGMENT) && arena.meta(0).addr().is_multiple_of(SLOT));
        }
        assert!(all().count() == 2 && find(0).is_none());
    });
}

/// What lies beyond is no slot of the first arena for the fast path either.
#[test]
fn the_fast_path_knows_where_the_first_arena_ends() {
    alone("backend::arena::tests::layout::the_fast_path_knows_where_the_first_arena_ends", || {
        let (first, segment) = take_run(3, 1, 1, Groups::ALL).unwrap();
        let (before, data) = (HOT.limit(), first.slot_address(0));
        // Whoever looks at a number that may be no address asks first whether it is in the tail.
        let in_use = data + GROUP * SEGMENT;
        assert!(is_for_ever(data) && is_for_ever(in_use - 1) && !is_for_ever(data - 1));
        assert!(find(in_use).is_some() && !is_for_ever(in_use) && !is_for_ever(data + before - 1));
        fit_limit(0, || ());
        let end = first.segments.load(Relaxed) * SEGMENT;
        assert!(core::ptr::eq(first, &raw const ARENAS[0]));
        assert!(((segment + 3) * SEGMENT..before).contains(&end));
        assert_eq!((HOT.data(), HOT.limit(), HOT.limit16()), (data, end, end / 16));
    });
}
