//! The child of a fork counts anew, and goes on with all that its parent's threads had.
//!
//! Each runs in a process of its own, as the figures are the process's.
#![cfg(not(any(loom, shuttle)))]

use crate::oracle;

use hakmem_core::c;
use hakmem_core::stats::{HeapUse, Snapshot, ThreadHeap};
use oracle::{alone, goes_well_in_child};
use std::cell::Cell;
use std::sync::{Barrier, mpsc};
use std::thread;

const MIB: usize = 1 << 20;
const SLOT: usize = 64 << 10;

/// A block, as a number that threads may pass on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Block(usize);

fn take(n: usize) -> Block {
    // SAFETY: any size may be asked for.
    let p = unsafe { c::malloc(n) };
    assert!(!p.is_null());
    Block(p.expose_provenance())
}
fn free(block: Block) {
    // SAFETY: the tests free what they took, once.
    unsafe { c::free(std::ptr::with_exposed_provenance_mut(block.0)) }
}

/// Frees blocks from a thread that has given its heap back already: in a destructor of pthread's,
/// which runs after the allocator's, whose key is older.
fn free_late(blocks: Vec<Block>) {
    extern "C" fn at_exit(blocks: *mut libc::c_void) {
        // SAFETY: the vector that was made below.
        let blocks = unsafe { Box::from_raw(blocks.cast::<Vec<Block>>()) };
        blocks.into_iter().for_each(free);
    }
    let late = move || {
        let mut key = 0;
        // SAFETY: the destructor takes what is set here.
        unsafe {
            assert_eq!(libc::pthread_key_create(&mut key, Some(at_exit)), 0);
            let blocks = Box::into_raw(Box::new(blocks));
            assert_eq!(libc::pthread_setspecific(key, blocks.cast()), 0);
        }
        free(take(100)); // It has a heap.
    };
    thread::spawn(late).join().unwrap();
}

/// Pages of which one block each is out, the first of them parked; and that a block of such a page
/// came back. Two were given up once none was out.
fn park() -> Vec<Block> {
    let mut pages = std::collections::BTreeMap::<usize, Vec<Block>>::new();
    for block in (0..20 * SLOT / 256).map(|_| take(256)) {
        pages.entry(block.0 / SLOT).or_default().push(block);
    }
    let mut kept = Vec::new();
    for blocks in pages.into_values() {
        kept.extend(&blocks[..2]);
        blocks[2..].iter().copied().for_each(free);
    }
    assert!(own().pages_parked > 5);
    kept.iter().copied().step_by(2).for_each(free);
    let mut kept: Vec<_> = kept.into_iter().skip(1).step_by(2).collect();
    kept.drain(..2).for_each(free);
    c::trim();
    let snapshot = Snapshot::take();
    let in_all: u64 = snapshot.classes().map(|c| c.empty_pages).sum();
    let by_heaps: u64 = snapshot.heaps().map(|h| h.empty_pages).sum();
    assert_eq!(in_all - by_heaps, 2);
    kept
}

fn own() -> ThreadHeap {
    let own = |heap: &ThreadHeap| heap.state == HeapUse::Own;
    let snapshot = Snapshot::take();
    let mut heaps = snapshot.heaps().filter(own);
    heaps.next().expect("the thread has allocated")
}

/// Everything that is counted, but for what is there.
fn counted(snapshot: &Snapshot) -> Vec<(&'static str, u64)> {
    let p = snapshot.process();
    let mut all = vec![
        ("allocations", p.allocations),
        ("remote frees", p.remote_frees),
        ("refills", p.refills),
        ("large allocations", p.large_allocations),
        ("large hits", p.large_hits),
        ("large frees", p.large_frees),
        ("huge block allocations", p.huge_allocations),
        ("huge block hits", p.huge_hits),
        ("huge block frees", p.huge_frees),
    ];
    for c in snapshot.classes() {
        all.extend([
            ("allocations of a class", c.allocations),
            ("remote frees of a class", c.remote_frees),
            ("takes", c.takes),
            ("carves", c.carves),
            ("filled", c.filled),
            ("unfulled", c.unfulled),
            ("new pages", c.new_pages),
            ("cached pages", c.cached_pages),
            ("empty pages", c.empty_pages),
        ]);
    }
    for h in snapshot.heaps() {
        all.extend([
            ("takes of a heap", h.takes),
            ("carves of a heap", h.carves),
            ("next pages", h.next_pages),
            ("holes filled", h.holes_filled),
            ("filled of a heap", h.filled),
            ("unfulled of a heap", h.unfulled),
            ("new pages of a heap", h.new_pages),
            ("cached pages of a heap", h.cached_pages),
            ("empty pages of a heap", h.empty_pages),
            ("parked pages", h.pages_parked),
            ("pages unparked", h.pages_unparked),
            ("merges", h.merges),
            ("batches received", h.batches_received),
            ("blocks received", h.blocks_received),
            ("blocks sent", h.blocks_sent),
            ("batches sent", h.batches_sent),
            ("batches sent", h.chains_sent),
            ("large allocations of a heap", h.large_allocations),
            ("large hits of a heap", h.large_hits),
            ("large frees of a heap", h.large_frees),
        ]);
    }
    all
}

/// What there is: live bytes, pages and full ones by class; the huge blocks.
fn there_is(snapshot: &Snapshot) -> (Vec<[u64; 4]>, [u64; 3]) {
    let p = snapshot.process();
    let classes = snapshot.classes();
    (
        classes
            .map(|c| [c.pages, c.full_pages, c.page_bytes, c.carved_bytes])
            .collect(),
        [p.huge_cached_bytes, p.huge_live_bytes, p.heaps],
    )
}

fn live(snapshot: &Snapshot) -> Vec<(u64, u64)> {
    let classes = snapshot.classes().map(|c| (c.size, c.live_bytes));
    classes.filter(|&(_, live)| live != 0).collect()
}

/// A life in which everything happens that is counted.
fn eventful() -> (Vec<Block>, Vec<Block>) {
    let mut mine: Vec<_> = (0..3000).map(|_| take(96)).collect();
    mine.drain(500..900).for_each(free);
    mine.extend((0..100).map(|_| take(96)));
    // Pages are emptied and used again.
    for _ in 0..3 {
        let blocks: Vec<_> = (0..6 * SLOT / 512).map(|_| take(512)).collect();
        blocks.into_iter().for_each(free);
    }
    assert!(own().cached_pages > 0);
    mine.extend(park());
    mine.extend((0..300).map(|_| take(256)));
    for n in [2 * SLOT, 3 * SLOT, 2 * MIB, 4 * MIB] {
        free(take(n));
        mine.push(take(n));
        free(take(n));
    }
    let late = [96, 96, 3 * SLOT, 3 * MIB].map(take);
    let before = Snapshot::take().process();
    free_late(late.into());
    let now = Snapshot::take().process();
    assert_eq!(now.remote_frees - before.remote_frees, 2);
    assert_eq!(now.large_frees - before.large_frees, 1);
    assert_eq!(now.huge_frees - before.huge_frees, 1);
    let sent = mine.split_off(mine.len() - 5);
    (mine, sent)
}

fn a_child_counts_anew() {
    let (mine, more) = eventful();
    let (to_main, from_other) = mpsc::channel();
    let over = Barrier::new(2);
    let lost = Cell::new(0);
    let (before, after) = (Cell::new(None), Cell::new(None));
    thread::scope(|scope| {
        let (over, given) = (&over, &mine[..20]);
        scope.spawn(move || {
            let theirs: Vec<_> = (0..2000)
                .map(|_| take(96))
                .chain((0..50).map(|_| take(1000)))
                .collect();
            free(take(5 * SLOT)); // Kept at hand.
            // Too few to be sent yet.
            given.iter().copied().for_each(free);
            to_main.send(theirs).unwrap();
            over.wait();
        });
        let theirs = from_other.recv().unwrap();
        theirs[..700].iter().copied().for_each(free);
        lost.set(given.len());
        before.set(Some(there_is(&Snapshot::take())));
        let goes_well = goes_well_in_child(|| {
            let now = Snapshot::take();
            assert_eq!(now.running_heaps(), 0);
            let odd: Vec<_> = counted(&now).into_iter().filter(|c| c.1 != 0).collect();
            assert!(odd.is_empty(), "{odd:?}");
            // What came back before, and was not handed out again.
            let waiting = now.process().frees;
            for c in now.classes() {
                let known = c.frees * c.size + c.live_bytes;
                assert!(known <= c.carved_bytes, "{c:?}");
            }
            assert_eq!(now.process().in_flight, 0);
            assert_eq!(Some(there_is(&now)), before.take());
            assert_eq!(now.heaps().filter(|h| h.state == HeapUse::Own).count(), 1);
            after.set(Some(now));

            // The other thread's heap is the next one's.
            let (there, over) = (Barrier::new(2), Barrier::new(2));
            let anew = thread::scope(|scope| {
                let next = scope.spawn(|| {
                    let blocks: Vec<_> = (0..1000).map(|_| take(96)).collect();
                    there.wait();
                    over.wait();
                    blocks
                });
                there.wait();
                let own: Vec<_> = (0..1000).map(|_| take(96)).collect();
                let now = Snapshot::take();
                let figures = (now.running_heaps(), now.process().heaps);
                over.wait();
                assert_eq!(figures, (1, after.take().unwrap().process().heaps));
                let mut both = next.join().unwrap();
                both.extend(own);
                both
            });
            let rest = [&mine[20..], &more, &theirs[700..], &anew].concat();
            let mut all = rest.clone();
            all.sort();
            all.dedup();
            assert_eq!(all.len(), rest.len(), "none is handed out twice");
            let count = rest.len() as u64;
            rest.into_iter().for_each(free);
            c::trim();
            let now = Snapshot::take();
            let p = now.process();
            assert_eq!(
                (p.allocations, p.frees - waiting, p.in_flight),
                (2000, count, 0)
            );
            // What was on its way from the thread that is no more.
            assert_eq!(live(&now), [(96, 96 * lost.get() as u64)]);
            assert_eq!((p.huge_live_bytes, p.dirty_bytes), (0, 0));
        });
        over.wait();
        assert!(goes_well);
    });
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn a_child_counts_anew_and_goes_on() {
    alone("a_child_counts_anew_and_goes_on", a_child_counts_anew);
}
