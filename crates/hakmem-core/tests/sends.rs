//! What a thread frees for others.
//!
//! Each runs in a process of its own, whose counts begin with nothing.
#![cfg(not(any(loom, shuttle)))]

use crate::oracle;

use hakmem_core::stats;
use oracle::{Block, Oracle, Ranges, Rust, alone, elsewhere, free_all, layout};

/// The counts of the calling thread's heap.
fn own() -> stats::ThreadHeap {
    let is_own = |heap: &stats::ThreadHeap| heap.state == stats::HeapUse::Own;
    let snapshot = stats::Snapshot::take();
    snapshot.heaps().find(is_own).expect("it has allocated")
}

/// A thread that has all blocks of another's full page keeps the page for itself, if it has fewer
/// than four such pages. Else the page goes back to its segment.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn whole_pages_of_others_are_at_hand() {
    alone("whole_pages_of_others_are_at_hand", || {
        const OF_PAGE: usize = 64;
        let ranges = Ranges::default();
        let mut oracle = Oracle::new(Rust, &ranges, 20);
        let first = oracle.alloc(layout(48));
        let theirs = elsewhere(|| {
            let mut oracle = Oracle::new(Rust, &ranges, 21);
            (0..6 * OF_PAGE + 1)
                .map(|_| oracle.alloc(layout(1024)))
                .collect::<Vec<_>>()
        });
        let pages = || {
            let snapshot = stats::Snapshot::take();
            let walk = snapshot.heap_walk();
            (walk.page_slots, walk.kept_slots)
        };
        assert_eq!(pages(), (8, 0));
        let before = own();
        free_all(&ranges, theirs);
        // Six pages end when the thread needs one. The last page has a block, and is not full.
        let mine: Vec<Block> = [200, 300, 400, 500, 600]
            .map(|size| oracle.alloc(layout(size)))
            .into();
        let after = own();
        assert_eq!(after.cached_pages - before.cached_pages, 4);
        assert_eq!(after.new_pages - before.new_pages, 1);
        assert_eq!(pages(), (7, 0));
        free_all(&ranges, mine);
        free_all(&ranges, vec![first]);
    });
}
