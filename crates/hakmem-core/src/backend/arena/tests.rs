//! Tests of the arena against a plain model. They run alone in a process, as totals, maps and the
//! chain of arenas are the process's.

extern crate std;

use super::run::chain;
use super::*;
use crate::testing::Random;
use crate::testing::{alone, in_child};
use std::boxed::Box;
use std::collections::BTreeSet;
use std::vec::Vec;

/// More groups than one word of the summary covers.
const SEGMENTS: usize = 70 * GROUP + 11;

/// An arena that is in no list and has no memory.
fn nobodys() -> &'static Arena {
    Box::leak(Box::new(Arena::new()))
}

/// An arena that is in no list, with memory.
fn arena() -> &'static Arena {
    let arena = nobodys();
    assert!(arena.reserve(SEGMENTS * SEGMENT));
    assert!(arena.segments.load(Relaxed) >= SEGMENTS);
    arena.segments.store(SEGMENTS, Relaxed);
    arena
}

/// True if a byte is mapped.
fn is_mapped(address: usize) -> bool {
    let mut resident = 0;
    // SAFETY: `mincore` only asks about one system page, and writes one byte, to `resident`.
    unsafe { libc::mincore(at(address & !4095).cast(), 1, &raw mut resident) == 0 }
}

#[test]
fn the_books_are_told_from_the_blocks() {
    alone("backend::arena::tests::the_books_are_told_from_the_blocks", || {
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

#[test]
fn the_lowest_place_that_fits_is_found() {
    alone("backend::arena::tests::the_lowest_place_that_fits_is_found", || {
        let arena = arena();
        let phase = arena.data.load(Relaxed) / SEGMENT;
        let mut used = std::vec![false; SEGMENTS];
        let mut random = Random(1);
        let mut runs = Vec::new();
        for round in 0..3000 {
            let n = 1 + random.below([3, 40, 300][round % 3]);
            let align = 1 << random.below(8);
            let fits =
                |&s: &usize| (s + phase).is_multiple_of(align) && used[s..s + n].iter().all(|u| !u);
            let expected = (0..=SEGMENTS - n).find(fits);
            assert_eq!(arena.first_fit(n, align), expected, "{n} at {align}");
            // The arena fills up, and then has gaps of all sizes.
            if let Some(first) = expected {
                assert!(arena.is_unused(first, n) && arena.mark_used(first, n));
                used[first..first + n].fill(true);
                runs.push((first, n));
            }
            while expected.is_none() && !runs.is_empty() && random.below(8) > 0 {
                let (first, n) = runs.swap_remove(random.below(runs.len()));
                arena.unmark(first, n);
                used[first..first + n].fill(false);
            }
            let first = random.below(SEGMENTS + 10);
            let is_unused =
                used.get(first..first + n).is_some_and(|range| range.iter().all(|u| !u));
            assert_eq!(arena.is_unused(first, n), is_unused, "{n} from {first}");
            if round % 100 == 0 {
                let expected: Vec<usize> = (0..SEGMENTS).filter(|&s| used[s]).collect();
                assert_eq!(arena.used().collect::<Vec<_>>(), expected);
            }
        }
        assert_eq!(arena.first_fit(usize::MAX, 1), None);
    });
}

#[test]
fn sets_of_segments_are_like_a_plain_model() {
    alone("backend::arena::tests::sets_of_segments_are_like_a_plain_model", || {
        let arena = arena();
        assert!(arena.make_ready(SEGMENTS.div_ceil(GROUP)));
        for which in [Set::Used, Set::Committed] {
            let set = arena.bits(which);
            let mut model = std::vec![false; set.end()];
            let mut random = Random(3);
            for round in 0..4000 {
                let n = 1 + random
                    .below([3, 70, 300, 5000 * usize::from(round % 200 == 0) + 1][round % 4]);
                let n = n.min(SEGMENTS);
                let first = random.below(SEGMENTS - n + 1);
                // By turns more and more segments are used, and fewer and fewer.
                let put = random.below(100) < if round / 500 % 2 == 0 { 70 } else { 30 };
                if put {
                    set.insert(first, n);
                } else {
                    set.remove(first, n);
                }
                model[first..first + n].fill(put);
                let (a, b) = (random.below(SEGMENTS), random.below(SEGMENTS + 300));
                let (from, to) = (a.min(b), a.max(b));
                let mut range = from..to.min(model.len());
                let there = |&s: &usize| model[s];
                assert_eq!(set.first_in(from, to), range.clone().find(there), "{from} to {to}");
                assert_eq!(set.last_in(from, to), range.clone().rfind(there), "{from} to {to}");
                assert_eq!(
                    set.count(from, range.end),
                    range.clone().filter(there).count(),
                    "{from} to {to}"
                );
                let out = range.find(|&s| !model[s]).unwrap_or_else(|| set.first_out(from).max(to));
                assert_eq!(set.first_out(from), out, "from {from}");
            }
            set.remove(0, SEGMENTS);
            assert_eq!(set.first_in(0, set.end()), None);
        }
    });
}

/// The search begins at the first group that is not full. That may later be an earlier group again.
#[test]
fn what_comes_back_to_a_full_group_is_found() {
    alone("backend::arena::tests::what_comes_back_to_a_full_group_is_found", || {
        let arena = arena();
        assert!(arena.mark_used(0, 3 * GROUP));
        assert_eq!(arena.first_fit(1, 1), Some(3 * GROUP));
        for back in [2 * GROUP - 1, GROUP, 5] {
            arena.unmark(back, 1);
            assert_eq!(arena.first_fit(1, 1), Some(back));
        }
        assert!(arena.mark_used(5, 1));
        assert_eq!(arena.first_fit(1, 1), Some(GROUP));
    });
}

/// The bitmaps of a large arena need more room than the rounding leaves before the metadata.
#[test]
fn parts_of_a_large_arena_do_not_overlap() {
    alone("backend::arena::tests::parts_of_a_large_arena_do_not_overlap", || {
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
fn rows_list_what_was_listed() {
    alone("backend::arena::tests::rows_list_what_was_listed", || {
        let arena = arena();
        assert!(arena.make_ready(SEGMENTS.div_ceil(GROUP)));
        let mut random = Random(2);
        let mut rows = [const { BTreeSet::new() }; ROWS];
        for round in 0..20_000 {
            let (row, segment) = (random.below(ROWS), random.below(SEGMENTS));
            // By turns more and more segments are listed, and fewer and fewer.
            if random.below(100) < if round / 4000 % 2 == 0 { 90 } else { 3 } {
                arena.list(row, segment);
                rows[row].insert(segment);
            } else if let Some(&segment) = rows[row].range(segment..).next() {
                arena.unlist(row, segment);
                rows[row].remove(&segment);
            }
            if round % 500 == 0 {
                for (row, expected) in rows.iter().enumerate() {
                    assert!(arena.listed(row).eq(expected.iter().copied()), "row {row}");
                }
            }
        }
        for (row, segments) in rows.iter().enumerate() {
            segments.iter().for_each(|&segment| arena.unlist(row, segment));
            assert_eq!(arena.listed(row).next(), None);
            // A search in vain clears the group's bit in the summary.
            for group in 0..SEGMENTS.div_ceil(GROUP) {
                let (word, bit) = arena.summary(row, group);
                assert_eq!(word.load(Relaxed) & bit, 0, "group {group}");
            }
        }
    });
}

#[test]
fn memory_is_committed_once_and_counted() {
    alone("backend::arena::tests::memory_is_committed_once_and_counted", || {
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
    alone("backend::arena::tests::a_tail_is_given_up", || {
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
            assert_eq!(arena.first_fit(room + 1, 1), (used > room + 1).then_some(0));
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
    alone("backend::arena::tests::metadata_and_data_lie_between_guards", || {
        let is_readable = |address| os::copy_readable(address, &mut [0]) == 1;
        // Arenas that are chained have only guards around them.
        assert!(take_run(1, 1, 1).is_some());
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
    alone("backend::arena::tests::a_scrap_has_guards_around_its_metadata_and_its_slots", || {
        if os::page_size() > SEGMENT_META {
            return;
        }
        let is_readable = |address| os::copy_readable(address, &mut [0]) == 1;
        assert!(take_run(1, 1, 1).is_some());
        let (arena, first, end) = take_scrap(1).unwrap();
        let (summary, metas) = (arena.summary.load(Relaxed).addr(), arena.meta(0).addr());
        let metas_end = metas + 2 * SEGMENT_META;
        let (slots, slots_end) = (arena.slot_address(first), arena.slot_address(end));
        let inside = [summary, metas_end - 1, slots, slots_end - 1];
        assert!(inside.into_iter().all(is_readable), "{inside:x?}");
        let outside = [summary - 1, metas_end, slots - 1, slots_end];
        assert!(outside.into_iter().all(|at| is_mapped(at) && !is_readable(at)), "{outside:x?}");
    });
}

#[test]
fn addresses_lead_to_pages_and_back() {
    alone("backend::arena::tests::addresses_lead_to_pages_and_back", || {
        let (first, _) = take_run(1, 1, 1).unwrap();
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

#[test]
fn runs_are_extended_while_there_is_room() {
    alone("backend::arena::tests::runs_are_extended_while_there_is_room", || {
        let run = take_run(2, 1, 0).unwrap();
        let next = (run.0, run.1 + 2);
        assert!(extend_run(run, 2, 3));
        let behind = take_run(1, 1, 0).unwrap();
        assert_eq!(behind.1, run.1 + 5);
        assert!(!extend_run(run, 5, 1));
        // SAFETY: this test has just taken the run, and nobody has touched it.
        unsafe { give_run(next, 1) };
        assert_eq!(take_run(1, 1, 1).unwrap().1, next.1);
        assert!(commit_run(run, 5));
        // SAFETY: this test has just taken the run, and nobody has touched it.
        unsafe { give_run(behind, 1) };
        assert!(extend_run(run, 5, 1));
    });
}

/// What lies beyond is no slot of the first arena for the fast path either.
#[test]
fn the_fast_path_knows_where_the_first_arena_ends() {
    alone("backend::arena::tests::the_fast_path_knows_where_the_first_arena_ends", || {
        let (first, segment) = take_run(3, 1, 1).unwrap();
        let (before, data) = (HOT.limit(), first.slot_address(0));
        fit_limit(0, || ());
        let end = first.segments.load(Relaxed) * SEGMENT;
        assert!(core::ptr::eq(first, &raw const ARENAS[0]));
        assert!(((segment + 3) * SEGMENT..before).contains(&end));
        assert_eq!((HOT.data(), HOT.limit(), HOT.limit16()), (data, end, end / 16));
    });
}

#[test]
fn a_process_that_grows_commits_ahead() {
    in_child(|| {
        let (mut taken, mut changes) = (std::vec::Vec::new(), 0);
        for _ in 0..256 {
            let before = COMMITTED.load(Relaxed);
            taken.push(take_segment().unwrap());
            let more = (COMMITTED.load(Relaxed) - before) / SEGMENT;
            assert!(more <= 1 + (before / SEGMENT / 8).min(16), "{more} of {before}");
            changes += usize::from(more > 0);
        }
        assert!((10..100).contains(&changes), "{changes} calls for 256 segments");
        // What lies ahead belongs to nobody: the next run that needs it gets it.
        let (arena, first) = *taken.last().unwrap();
        assert!(arena.is_unused(first + 1, 8));
        let committed = arena.bits(super::bits::Set::Committed);
        let in_set = committed.count(0, committed.end()) * SEGMENT;
        assert!(
            COMMITTED.load(Relaxed) >= in_set && COMMITTED.load(Relaxed) - in_set < SEGMENT,
            "the rest is metadata"
        );
    });
}
