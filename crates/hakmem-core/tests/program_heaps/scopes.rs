//! Scopes: which calls come from the heap, and how long their blocks live.

use super::{MIB, assert_empty, boxed, free, layout, layout_by};
use crate::oracle::{Block, C, FrontEnd, Oracle, Random, Ranges, Rust, elsewhere, in_child, share};
use hakmem_core::stats::Snapshot;
use hakmem_core::{Heap, c};
use std::panic::catch_unwind;
use std::thread;

/// The ordinary calls of a thread come from the heap while it is in a scope, and from the inner one
/// of two.
#[test]
fn a_scope_routes_the_calls_of_its_thread() {
    let (outer, inner) = (Heap::named("outer"), Heap::named("inner"));
    let before = boxed(0);
    let mut kept = Vec::new();
    outer.scope(|| {
        free(before);
        kept.push(boxed(1));
        inner.scope(|| kept.push(boxed(2)));
        assert_eq!(inner.stats().blocks(), 1);
        kept.push(boxed(3));
        elsewhere(|| free(boxed(4)));
        outer.scope(|| kept.push(boxed(5)));
    });
    kept.push(boxed(6));
    assert_eq!((outer.stats().blocks(), inner.stats().blocks()), (3, 1));
    for (p, is) in kept.iter().zip([1, 2, 3, 5, 6]) {
        // SAFETY: the block is live.
        assert_eq!(unsafe { p.read() }, is);
    }
    let addresses: Vec<usize> = kept.iter().map(|p| p.expose_provenance()).collect();
    elsewhere(|| {
        addresses
            .iter()
            .for_each(|&at| free(std::ptr::with_exposed_provenance_mut(at)))
    });
    assert_empty(&outer);
    assert_empty(&inner);
}

/// A scope may get fewer blocks than it wanted, at the end of a page. The peak has those alone.
#[test]
fn the_peak_has_the_blocks_that_a_scope_got() {
    let heap = Heap::named("peak");
    let mut kept = Vec::with_capacity(3000);
    heap.scope(|| {
        for _ in 0..kept.capacity() {
            kept.push(Rust.alloc(layout(48, 16)));
            let now = heap.stats();
            assert!(now.peak_live_bytes <= now.held_bytes, "{now:?}");
        }
    });
    for p in kept {
        Rust.dealloc(p, layout(48, 16));
    }
    assert_empty(&heap);
}

#[test]
fn a_panic_ends_the_scope() {
    let heap = Heap::new();
    let panicked = catch_unwind(|| heap.scope(|| panic!("on purpose")));
    assert!(panicked.is_err());
    let p = boxed(1);
    assert_eq!(heap.stats().blocks(), 0, "the thread is outside");
    free(p);
}

/// Both front ends in scopes, against the oracle: also sizes without a class, alignments, and
/// reallocs within and without.
#[test]
fn calls_in_a_scope_keep_what_callers_rely_on() {
    fn of<D: FrontEnd>(front_end: D) {
        let (heap, ranges) = (Heap::named("routed"), Ranges::default());
        let (mut oracle, mut random) = (Oracle::new(front_end, &ranges, 1), Random(11));
        let mut blocks: Vec<Block> = Vec::new();
        let mut some = |oracle: &mut Oracle<'_, D>, blocks: &mut Vec<Block>| {
            for _ in 0..share(1000) {
                match random.below(8) {
                    0..3 => blocks.push(oracle.alloc(layout_by(&mut random))),
                    3 => blocks.push(oracle.alloc_zeroed(layout_by(&mut random))),
                    choice if !blocks.is_empty() => {
                        let block = blocks.swap_remove(random.below(blocks.len()));
                        if choice == 4 {
                            blocks.push(oracle.realloc(block, layout_by(&mut random).size()));
                        } else {
                            oracle.dealloc(block);
                        }
                    }
                    _ => {}
                }
            }
        };
        for _ in 0..4 {
            heap.scope(|| some(&mut oracle, &mut blocks));
            some(&mut oracle, &mut blocks);
        }
        blocks.into_iter().for_each(|block| oracle.dealloc(block));
        ranges.assert_empty();
        assert_empty(&heap);
    }
    of(Rust);
    of(C);
}

/// A request beyond the limit fails in a scope as without memory, for all sizes.
#[test]
fn a_scope_has_the_limit_of_its_heap() {
    let heap = Heap::builder().limit(64 * 1024).build();
    let taken = heap.scope(|| {
        // SAFETY: any size may be asked for.
        let taken: Vec<_> =
            std::iter::from_fn(|| Some(unsafe { c::malloc(200) }).filter(|p| !p.is_null()))
                .collect();
        for n in [250, 5000, 100_000, 2 * MIB] {
            // SAFETY: malloc asks nothing of its caller.
            assert!(unsafe { c::malloc(n) }.is_null(), "{n}");
        }
        taken
    });
    let most = 64 * 1024 / 224;
    assert!((most - 1..=most).contains(&taken.len()), "{}", taken.len());
    assert!(heap.stats().refused >= 4);
    taken.into_iter().for_each(free);
    assert_empty(&heap);
}

/// A list of a scope may begin in one segment, and go on in another.
#[test]
fn a_scope_may_have_many_segments() {
    let heap = Heap::named("segments");
    let mut blocks: Vec<*mut u8> = Vec::with_capacity(16 * MIB / 128);
    for _ in 0..2 {
        // SAFETY: any size may be asked for.
        heap.scope(|| blocks.extend((0..16 * MIB / 128).map(|_| unsafe { c::malloc(100) })));
        assert!(heap.stats().held_bytes > 14 << 20);
        // The lists then mix pages.
        (0..blocks.len()).step_by(7).for_each(|i| free(blocks[i]));
        let mut number = 0;
        blocks.retain(|_| (number += 1, number % 7 != 1).1);
        // SAFETY: malloc asks nothing of its caller.
        heap.scope(|| blocks.extend((0..20_000).map(|_| unsafe { c::malloc(100) })));
        blocks.drain(..).for_each(free);
    }
    assert_empty(&heap);
}

/// Blocks of a scope live on after their heap. Its memory goes when the last one is freed.
#[test]
fn blocks_of_a_scope_outlive_their_heap() {
    let named = || {
        Snapshot::take()
            .program_heaps()
            .find(|heap| heap.name() == "to be dropped")
    };
    let mut heap = Heap::named("to be dropped");
    heap.allocate(layout(100, 8)).unwrap();
    let blocks = heap.scope(|| [boxed(1), boxed(2)]);
    heap.reset();
    assert_eq!(heap.stats().blocks(), 2);
    drop(heap);
    let left = named().expect("it has blocks");
    assert!(left.dropped && left.blocks() == 2);
    for (p, is) in blocks.iter().zip([1, 2]) {
        // SAFETY: the block is live.
        assert_eq!(unsafe { p.read() }, is);
        free(*p);
    }
    assert!(named().is_none());
}

/// A thread that ends in a scope leaves it.
#[test]
fn a_thread_may_end_in_a_scope() {
    let heap: &'static Heap = Box::leak(Box::new(Heap::named("of a thread that ended")));
    let p = thread::spawn(move || {
        extern "C" fn run(heap: *mut libc::c_void) -> *mut libc::c_void {
            // SAFETY: the heap that was passed.
            let heap = unsafe { &*heap.cast::<Heap>() };
            // SAFETY: a handle of a live heap.
            unsafe { c::heaps::enter(c::heaps::handle_of(heap)) };
            boxed(7).cast()
        }
        // SAFETY: the thread runs `run`, which returns a block.
        unsafe {
            let (mut thread, mut got) = (std::mem::zeroed(), std::ptr::null_mut());
            let arg = std::ptr::from_ref(heap).cast_mut().cast();
            assert_eq!(
                libc::pthread_create(&mut thread, std::ptr::null(), run, arg),
                0
            );
            assert_eq!(libc::pthread_join(thread, &mut got), 0);
            got.expose_provenance()
        }
    });
    let p = p.join().unwrap();
    assert_eq!(
        heap.stats().blocks(),
        1,
        "what was in the lists of the scope is back"
    );
    free(std::ptr::with_exposed_provenance_mut(p));
    assert_empty(heap);
}

/// The child of a fork has the heaps, in a scope and outside. One that another thread was using is
/// no more.
#[test]
fn the_child_of_a_fork_has_the_heaps() {
    let mut heap = Heap::named("forked");
    heap.allocate(layout(100, 8)).unwrap();
    heap.scope(|| {
        let before = boxed(3);
        in_child(|| {
            free(before);
            free(boxed(4));
            assert!(heap.allocate(layout(100, 8)).is_ok());
        });
        free(before);
    });
    assert_eq!(heap.stats().blocks(), 1);
    heap.reset();
    assert_empty(&heap);
}
