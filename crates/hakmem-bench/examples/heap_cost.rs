//! What a program heap costs, beside malloc and an arena: `heap_cost PART REQUESTS`.
//!
//! A request allocates 200 blocks of 16 to 512 bytes, writes the first and the last byte of each,
//! and gives all of them back. `ci/heap-cost` counts the instructions of each part. Without
//! valgrind the program prints the nanoseconds of a block.

use bumpalo::Bump;
use hakmem_core::{Hakmem, Heap};
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::NonNull;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

/// Blocks of a request.
const BLOCKS: usize = 200;

type Sizes = [Layout; BLOCKS];
type Blocks = [NonNull<u8>; BLOCKS];

/// The same sizes in each run: small ones more often.
fn sizes() -> Sizes {
    let mut state = 0x2545_f491_u32;
    std::array::from_fn(|_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        let most = 32 << (state % 5);
        let size = 16 + (state >> 8) as usize % (most - 15);
        Layout::from_size_align(size, 8).expect("a layout")
    })
}

/// Allocates all blocks.
fn all(sizes: &Sizes, allocate: impl Fn(Layout) -> *mut u8) -> Blocks {
    sizes.map(|layout| {
        let block = NonNull::new(allocate(layout)).expect("memory");
        // SAFETY: the block was just allocated for the layout, which has 16 bytes at least.
        unsafe {
            block.write_volatile(1);
            block.add(layout.size() - 1).write_volatile(2);
        }
        block
    })
}

/// One block after the other, by an allocator.
fn singly(allocator: &impl GlobalAlloc, sizes: &Sizes) {
    // SAFETY: no layout has 0 bytes.
    let blocks = all(sizes, |layout| unsafe { allocator.alloc(layout) });
    for (block, &layout) in blocks.iter().zip(sizes) {
        // SAFETY: the block was allocated above, for this layout, and nobody uses it any more.
        unsafe { allocator.dealloc(block.as_ptr(), layout) };
    }
}

fn of_heap(heap: &Heap, sizes: &Sizes) -> Blocks {
    all(sizes, |layout| {
        heap.allocate(layout).expect("memory").as_ptr().cast()
    })
}

fn run(part: &str, requests: usize) {
    let sizes = &sizes();
    let (mut heap, mut bump) = (Heap::named("request"), Bump::new());
    for _ in 0..requests {
        match part {
            "glibc" => singly(&System, sizes),
            "hakmem" => singly(&ALLOCATOR, sizes),
            "scope" => heap.scope(|| singly(&ALLOCATOR, sizes)),
            "free" => {
                for (block, &layout) in of_heap(&heap, sizes).iter().zip(sizes) {
                    // SAFETY: the block is the heap's, of this layout, and nobody uses it any more.
                    unsafe { heap.deallocate(*block, layout) };
                }
            }
            "reset" => {
                of_heap(&heap, sizes);
                heap.reset();
            }
            "bumpalo" => {
                all(sizes, |layout| bump.alloc_layout(layout).as_ptr());
                bump.reset();
            }
            "nothing" => {}
            _ => panic!("no part is called {part}"),
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (part, requests) = (arguments.next(), arguments.next());
    let (Some(part), Some(Ok(requests))) = (part, requests.map(|n| n.parse())) else {
        panic!("usage: heap_cost PART REQUESTS");
    };
    run(&part, 10);
    let start = Instant::now();
    run(&part, requests);
    let nanos = start.elapsed().as_nanos() as f64;
    println!("{part} {:.1}", nanos / (requests * BLOCKS) as f64);
}
