//! Threads that free each other's blocks: `exchange THREADS OPERATIONS SLOTS MOST`.
//!
//! In each operation a thread allocates a block of 16 to MOST bytes by the system's malloc, writes
//! to its beginning, puts it into a random one of SLOTS slots that all threads share, and frees
//! what was there. Under `LD_PRELOAD` it measures another allocator. It prints the milliseconds of
//! all OPERATIONS of each thread, and the MiB that are resident before the threads end.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Barrier;
use std::sync::atomic::{AtomicPtr, Ordering::AcqRel};
use std::time::Instant;

/// Room in front of a block's contents, where its size is.
const WORD: usize = size_of::<usize>();

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, WORD).expect("a layout")
}

fn allocate(size: usize) -> *mut usize {
    // SAFETY: the layout is not empty. The word lies in the block, which is aligned to it.
    unsafe {
        let p = System.alloc(layout(size)).cast::<usize>();
        assert!(!p.is_null());
        p.write(size);
        p
    }
}

/// # Safety
/// The block is from `allocate`, and no other thread has it.
unsafe fn free(p: *mut usize) {
    // SAFETY: the caller has the block, whose first word says how large it is.
    unsafe { System.dealloc(p.cast(), layout(p.read())) };
}

fn resident_mib() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("the statm of this process");
    let pages = statm.split(' ').nth(1).expect("a second number");
    pages.parse::<usize>().expect("a number") / 256
}

fn main() {
    let arguments: Vec<usize> = std::env::args()
        .skip(1)
        .map(|text| text.parse().expect("a number"))
        .collect();
    let [threads, operations, slots, most] = arguments[..] else {
        panic!("usage: exchange THREADS OPERATIONS SLOTS MOST")
    };
    let table: Vec<_> = (0..slots)
        .map(|_| AtomicPtr::new(std::ptr::null_mut::<usize>()))
        .collect();
    let over = Barrier::new(threads + 1);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for number in 1..=threads as u64 {
            let (table, over) = (&table, &over);
            scope.spawn(move || {
                let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                for _ in 0..operations {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    let random = state as usize;
                    let block = allocate(16 + (random >> 20) % (most - 15));
                    let before = table[(random >> 33) % slots].swap(block, AcqRel);
                    if !before.is_null() {
                        // SAFETY: the swap gave the block to this thread alone.
                        unsafe { free(before) };
                    }
                }
                over.wait();
                over.wait();
            });
        }
        over.wait();
        println!(
            "{:.0} {}",
            start.elapsed().as_secs_f64() * 1e3,
            resident_mib()
        );
        over.wait();
    });
}
