//! Runs of segments: which place they get, and how they grow.

use super::*;

#[test]
fn the_lowest_place_that_fits_is_found() {
    alone("backend::arena::tests::runs::the_lowest_place_that_fits_is_found", || {
        let arena = arena();
        let phase = arena.data.load(Relaxed) / SEGMENT;
        let _on = os::on_node(3);
        assert_eq!(nodes::here(), 3);
        let mut used = std::vec![false; SEGMENTS];
        let mut random = Random(1);
        let mut runs = Vec::new();
        for round in 0..3000 {
            let n = 1 + random.below([3, 40, 300][round % 3]);
            let align = 1 << random.below(8);
            let wanted =
                Groups([u64::MAX, u64::MAX, (u64::MAX / 3) << 1, u64::MAX / 15][random.below(4)]);
            let fits = |&s: &usize| {
                (s + phase).is_multiple_of(align)
                    && wanted.0 >> (s / GROUP % 64) & 1 == 1
                    && used[s..s + n].iter().all(|u| !u)
            };
            let expected = (0..=SEGMENTS - n).find(fits);
            assert_eq!(arena.first_fit(n, align, wanted), expected, "{n} at {align}");
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
        assert_eq!(arena.first_fit(usize::MAX, 1, Groups::ALL), None);
    });
}

/// The search begins at the first group that is not full. That may later be an earlier group again.
#[test]
fn what_comes_back_to_a_full_group_is_found() {
    alone("backend::arena::tests::runs::what_comes_back_to_a_full_group_is_found", || {
        let arena = arena();
        assert!(arena.mark_used(0, 3 * GROUP));
        assert_eq!(arena.first_fit(1, 1, Groups::ALL), Some(3 * GROUP));
        for back in [2 * GROUP - 1, GROUP, 5] {
            arena.unmark(back, 1);
            assert_eq!(arena.first_fit(1, 1, Groups::ALL), Some(back));
        }
        assert!(arena.mark_used(5, 1));
        assert_eq!(arena.first_fit(1, 1, Groups::ALL), Some(GROUP));
    });
}

#[test]
fn runs_are_extended_while_there_is_room() {
    alone("backend::arena::tests::runs::runs_are_extended_while_there_is_room", || {
        let run = take_run(2, 1, 0, Groups::ALL).unwrap();
        let next = (run.0, run.1 + 2);
        assert!(extend_run(run, 2, 3));
        let behind = take_run(1, 1, 0, Groups::ALL).unwrap();
        assert_eq!(behind.1, run.1 + 5);
        assert!(!extend_run(run, 5, 1));
        // SAFETY: this test has just taken the run, and nobody has touched it.
        unsafe { give_run(next, 1) };
        assert_eq!(take_run(1, 1, 1, Groups::ALL).unwrap().1, next.1);
        assert!(commit_run(run, 5));
        // SAFETY: this test has just taken the run, and nobody has touched it.
        unsafe { give_run(behind, 1) };
        assert!(extend_run(run, 5, 1));
    });
}

#[test]
fn a_process_that_grows_commits_ahead() {
    in_child(|| {
        let (mut taken, mut changes) = (std::vec::Vec::new(), 0);
        for _ in 0..256 {
            let before = COMMITTED.load(Relaxed);
            taken.push(take_segment(Groups::ALL).unwrap());
            let more = (COMMITTED.load(Relaxed) - before) / SEGMENT;
            assert!(more <= 1 + (before / SEGMENT / 8).min(16), "{more} of {before}");
            changes += usize::from(more > 0);
        }
        assert!((10..100).contains(&changes), "{changes} calls for 256 segments");
        // What lies ahead belongs to nobody: the next run that needs it gets it.
        let (arena, first) = *taken.last().unwrap();
        assert!(arena.is_unused(first + 1, 8));
        let committed = arena.bits(Set::Committed);
        let in_set = committed.count(0, committed.end()) * SEGMENT;
        assert!(
            COMMITTED.load(Relaxed) >= in_set && COMMITTED.load(Relaxed) - in_set < SEGMENT,
            "the rest is metadata"
        );
    });
}

#[test]
fn a_sealed_segment_stays_committed() {
    alone("backend::arena::tests::runs::a_sealed_segment_stays_committed", || {
        const MSEAL: libc::c_long = 462;
        let arena = arena();
        assert!(arena.mark_used(5, 6) && arena.commit(5, 2));
        let committed = totals().1;
        let sealed = arena.slot_address(5 * (SEGMENT / SLOT));
        // SAFETY: the memory is this test's. A seal changes nothing that is in it.
        if unsafe { libc::syscall(MSEAL, sealed, 4096, 0) } != 0 {
            return; // Before Linux 6.10.
        }
        // SAFETY: the segments are this test's, and nobody uses what is in them.
        let decommit = |first, n| unsafe { decommit_run((arena, first), n) };
        for n in [1, 2, 6] {
            assert!(!decommit(5, n), "the seal forbids it");
            assert_eq!(totals().1, committed, "{n}");
        }
        arena.unmark(5, 1);
        assert!(arena.mark_used(5, 1) && arena.commit(5, 1), "nor would it allow a commit");
        // SAFETY: the segment is accessible, and nobody else uses this arena.
        unsafe { at(sealed).write(1) };
        // Of a run whose first segment is not accessible, none counts afterwards.
        assert!(arena.mark_used(4, 1) && !decommit(4, 3), "the seal forbids it");
        assert_eq!(totals().1, committed - 2 * SEGMENT);
        assert!(arena.commit(6, 1));
        assert!(decommit(6, 5));
        assert_eq!(totals().1, committed - 2 * SEGMENT);
    });
}
