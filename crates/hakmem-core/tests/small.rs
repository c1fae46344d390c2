//! Every path once, with little memory: what an interpreter can run (`ci/miri`).
#![cfg(not(any(loom, shuttle)))]

use crate::oracle;

use oracle::{Block, C, FrontEnd, Oracle, Ranges, Rust};
use std::alloc::Layout;
use std::sync::mpsc;
use std::thread;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

/// Blocks of all kinds: small, medium, large, huge blocks, aligned, zeroed.
fn some(oracle: &mut Oracle<'_, impl FrontEnd>) -> Vec<Block> {
    let mut blocks: Vec<_> = [1, 8, 24, 100, 1000, 5000, 66_000]
        .map(|size| oracle.alloc(layout(size, 8)))
        .into();
    blocks.extend([1, 100, 3000].map(|size| oracle.alloc_zeroed(layout(size, 16))));
    blocks.push(oracle.alloc(layout(10, 4096)));
    blocks
}

fn alone<D: FrontEnd>(front_end: D) {
    let ranges = Ranges::default();
    let mut oracle = Oracle::new(front_end, &ranges, 1);
    let mut blocks = some(&mut oracle);
    for size in [30, 6000, 66_000, 50] {
        let block = blocks.pop().unwrap();
        blocks.insert(0, oracle.realloc(block, size));
    }
    blocks.drain(..).for_each(|block| oracle.dealloc(block));
    // A page that fills, filled, unfulled, and becomes empty.
    blocks.extend((0..20).map(|_| oracle.alloc(layout(4100, 8))));
    while !blocks.is_empty() {
        let block = blocks.swap_remove(blocks.len() / 2);
        oracle.dealloc(block);
    }
    ranges.assert_empty();
}

#[test]
fn one_thread() {
    alone(Rust);
    // Takes the interpreter minutes more, and differs in the front end alone.
    if !cfg!(miri) {
        alone(C);
    }
}

/// Blocks freed by other threads, by ones that end, and by ones that come after their owner.
#[test]
fn several_threads() {
    // The first allocation of the process, before there are threads (`arena` rule 1).
    let ranges = Ranges::default();
    let mut oracle = Oracle::new(Rust, &ranges, 1);
    let first = oracle.alloc(layout(8, 8));
    oracle.dealloc(first);
    let (to, from) = mpsc::channel::<Block>();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut oracle = Oracle::new(Rust, &ranges, 2);
            for block in from {
                oracle.dealloc(block);
            }
        });
        for salt in 3..6 {
            let (to, ranges) = (to.clone(), &ranges);
            scope.spawn(move || {
                let mut oracle = Oracle::new(Rust, ranges, salt);
                for i in 0..8 {
                    to.send(oracle.alloc(layout(200, 8))).unwrap();
                    to.send(oracle.alloc(layout(16 + i, 8))).unwrap();
                }
            });
        }
        drop(to);
    });
    hakmem_core::c::trim();
    ranges.assert_empty();
}

/// A huge block grows, is moved, shrinks and is given back. Only its ends are written: an
/// interpreter is slow.
#[test]
fn a_huge() {
    use hakmem_core::c;
    // SAFETY: blocks are live, of that size, and this test's.
    unsafe {
        let block = c::malloc(2 << 20);
        let behind = c::malloc(2 << 20);
        block.write(1);
        block.add((2 << 20) - 1).write(2);
        let grown = c::realloc(block, 3 << 20);
        assert_eq!((grown.read(), grown.add((2 << 20) - 1).read()), (1, 2));
        let shrunk = c::realloc(grown, 2 << 20);
        assert_eq!((shrunk.read(), shrunk.add((2 << 20) - 1).read()), (1, 2));
        c::free(shrunk);
        c::free(behind);
        c::trim();
        let fresh = c::zeroed(2 << 20);
        assert_eq!((fresh.read(), fresh.add((2 << 20) - 1).read()), (0, 0));
        c::free(fresh);
    }
}

/// A heap of the program, a scope of it, and what is left of both.
#[test]
fn a_heap_of_the_program() {
    use hakmem_core::Heap;
    use std::alloc::Layout;
    let mut heap = Heap::builder().name("small").limit(1 << 20).build();
    let layout = Layout::from_size_align(100, 8).unwrap();
    for _ in 0..3 {
        let block = heap.allocate_zeroed(layout).unwrap().cast::<u8>();
        // SAFETY: the heap has just returned the block, of 100 bytes.
        unsafe {
            block.write_bytes(7, 100);
            heap.deallocate(block, layout);
        }
        assert!(heap.allocate(Layout::new::<[u8; 100_000]>()).is_ok());
        assert!(heap.allocate(layout).is_ok());
        heap.reset();
    }
    let routed = heap.scope(|| {
        // SAFETY: any size may be asked for.
        [20, 3000].map(|size| unsafe { hakmem_core::c::malloc(size) })
    });
    assert_eq!(heap.stats().blocks(), 2);
    drop(heap);
    // SAFETY: the blocks are live, and freed once.
    routed
        .into_iter()
        .for_each(|p| unsafe { hakmem_core::c::free(p) });
}
