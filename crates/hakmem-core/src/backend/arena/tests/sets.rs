//! Sets and rows of segments, against a plain model.

use super::*;

#[test]
fn sets_of_segments_are_like_a_plain_model() {
    alone("backend::arena::tests::sets::sets_of_segments_are_like_a_plain_model", || {
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

#[test]
fn rows_list_what_was_listed() {
    alone("backend::arena::tests::sets::rows_list_what_was_listed", || {
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
                    let all = || expected.iter().copied();
                    assert!(arena.listed(row, Groups::ALL).eq(all()), "row {row}");
                    let third = arena.listed(row, Groups((u64::MAX / 15) << 2));
                    assert!(third.eq(all().filter(|s| s / GROUP % 4 == 2)), "row {row}");
                }
            }
        }
        for (row, segments) in rows.iter().enumerate() {
            segments.iter().for_each(|&segment| arena.unlist(row, segment));
            assert_eq!(arena.listed(row, Groups::ALL).next(), None);
            // A search in vain clears the group's bit in the summary.
            for group in 0..SEGMENTS.div_ceil(GROUP) {
                let (word, bit) = arena.summary(row, group);
                assert_eq!(word.load(Relaxed) & bit, 0, "group {group}");
            }
        }
    });
}
