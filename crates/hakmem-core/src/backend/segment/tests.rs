//! Unit tests of what segments hold together.

use super::home::Home;
use super::totals::{in_use, small_segments};
use super::{
    TOTALS, claim_fresh, expected_dirty_bytes, note_small, refuse_thp, signed_dirty_bytes, thp,
};
use crate::api::c;
use crate::backend::arena::SLOT;
use crate::backend::nodes::Groups;
use crate::backend::owner::HEAPS;
use crate::backend::page::{self, NOT_THP, THP, TRIED, UNTOLD};
use crate::backend::{density, first_touch};
use crate::base::sync::Ordering::Relaxed;
use crate::testing::in_child;

/// Heaps tell of their pages in steps, so one that gives up many may be the first to tell.
#[test]
fn a_total_below_zero_is_taken_for_none() {
    in_child(|| {
        note_small(-1_000_000);
        assert_eq!(small_segments(), 0);
        // It asks what the total is.
        let claimed = claim_fresh(1, Groups::ALL);
        assert!(claimed.is_some());
    });
}

/// Each such segment is a map of its own among its neighbours.
#[test]
fn no_more_segments_are_refused_huge_pages_than_there_may_be_maps() {
    in_child(|| {
        let refused = |told, before| {
            let page = claim_fresh(1, Groups::ALL).expect("memory").0;
            page.segment().thp.store(told, Relaxed);
            thp::REFUSED.store(before, Relaxed);
            refuse_thp(page);
            let now = thp::REFUSED.load(Relaxed) - before;
            assert_eq!(now == 1, page.segment().thp.load(Relaxed) == NOT_THP);
            now == 1
        };
        assert!(refused(UNTOLD, thp::MOST_UNTOLD - 1) && !refused(UNTOLD, thp::MOST_UNTOLD));
        assert!(refused(THP, thp::MOST_UNTOLD) && refused(THP, thp::MOST - 1));
        assert!(!refused(THP, thp::MOST) && !refused(TRIED, thp::MOST));
    });
}

/// What a heap has not told counts once a pass has looked, and once it is told no more than once.
#[test]
fn what_heaps_have_not_told_is_expected() {
    in_child(|| {
        // SAFETY: all zero bytes are a heap without a home.
        let home: Home = unsafe { core::mem::zeroed() };
        home.begin(1);
        let before = signed_dirty_bytes();
        let seen = || {
            let slots = |bytes: isize| (bytes - before) / SLOT as isize;
            (slots(signed_dirty_bytes()), slots(expected_dirty_bytes()))
        };
        assert!(!home.note_dirty(-5));
        assert_eq!(seen(), (0, 0));
        home.look_at_untold();
        home.look_at_untold();
        assert_eq!(seen(), (0, -5));
        assert!(!home.note_dirty(7));
        home.look_at_untold();
        assert_eq!(seen(), (0, 2));
        home.tell();
        assert_eq!(seen(), (2, 2));
    });
}

/// Segments of medium blocks try huge pages where the program fills such blocks.
#[test]
fn medium_blocks_get_huge_pages_where_the_program_fills_them() {
    for fills in [true, false] {
        in_child(|| {
            const N: usize = 12_000;
            crate::os::see_filters();
            first_touch::IS_UNTIMED.store(1, Relaxed);
            let mut trying = 0;
            for _ in 0..(32 << 20) / N {
                // SAFETY: `malloc` takes any size, and the block has as many bytes. It is not
                // freed.
                let p = unsafe { c::malloc(N) };
                if fills {
                    // SAFETY: as above.
                    unsafe { p.write_bytes(1, N) };
                }
                let segment = page::lookup(p).expect("a block").segment();
                trying += usize::from(segment.thp.load(Relaxed) == TRIED);
            }
            let here = (&raw const trying).addr() & !(SLOT - 1);
            let tells = density::of(here, 1).is_some();
            assert_eq!(trying > (8 << 20) / N, fills && tells, "{trying}");
        });
    }
}

/// Where system pages are dear, a fresh segment for a page tries huge pages once the process has
/// two segments for each heap. With more than a few heaps, it does not while the pages are not
/// carved. One for a large block never does so.
#[test]
fn fresh_segments_try_huge_pages_where_system_pages_are_dear() {
    for (heaps, is_dear) in [(2, true), (5, true), (2, false)] {
        in_child(|| {
            let ns = if is_dear { 50_000 } else { 1000 };
            (0..16).for_each(|_| first_touch::note(ns, 1, false));
            TOTALS.in_use.store(heaps, Relaxed);
            HEAPS.store(heaps as u64, Relaxed);
            note_small(1000); // None of them is carved.
            for n in [5, 1, 8].into_iter().cycle().take(3 * heaps) {
                let page = claim_fresh(n, Groups::ALL).expect("memory").0;
                let tries = page.segment().thp.load(Relaxed) == TRIED;
                let may = is_dear && in_use() >= 2 * heaps && heaps == 2 && n != 5;
                assert_eq!(tries, may, "{n} slots, {heaps} heaps");
            }
            assert!(in_use() > 2 * heaps);
        });
    }
}

#[test]
fn fresh_segments_seldom_ask_where_huge_pages_are_dear() {
    in_child(|| {
        HEAPS.store(1, Relaxed);
        note_small(1000);
        TOTALS.carved.store(1000 * SLOT as i64, Relaxed);
        let mut asks = [false; 40].map(|_| {
            let page = claim_fresh(1, Groups::ALL).expect("memory").0;
            page.segment().is_thp()
        });
        assert_eq!(asks, [true; 40], "the program fills its pages");
        first_touch::note(1500, 1, false);
        (0..8).for_each(|_| first_touch::note(4_500_000, 1, true));
        asks.fill_with(|| {
            let page = claim_fresh(1, Groups::ALL).expect("memory").0;
            page.segment().is_thp()
        });
        assert!((0..asks.len()).filter(|&i| asks[i]).eq([0, 16]));
    });
}
