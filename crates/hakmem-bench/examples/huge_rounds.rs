//! Buffers that are all freed at once, and needed again at once: `huge_rounds MIB COUNT ROUNDS`.
//!
//! A round allocates COUNT buffers by the system's malloc, writes to each system page of them, and
//! frees all of them. Their sizes are random, from a quarter of MIB to MIB; a MIB that begins with
//! `=` is the size of all. Under `LD_PRELOAD` it measures another allocator. It prints the
//! milliseconds of a round: the median of all.

use std::alloc::{GlobalAlloc, Layout, System};
use std::time::Instant;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mib, count, rounds] = &arguments[..] else {
        panic!("usage: huge_rounds MIB COUNT ROUNDS")
    };
    let number = |text: &str| text.parse::<usize>().expect("a number");
    let (most, is_fixed) = match mib.strip_prefix('=') {
        Some(mib) => (number(mib) << 20, true),
        None => (number(mib) << 20, false),
    };
    let mut state = 1_u32;
    let mut size = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let random = (state >> 8) as usize;
        if is_fixed {
            most
        } else {
            most / 4 + most / 4 * 3 * random / (1 << 24)
        }
    };
    let mut times: Vec<f64> = (0..number(rounds))
        .map(|_| {
            let start = Instant::now();
            let buffers: Vec<_> = (0..number(count))
                .map(|_| {
                    let layout = Layout::from_size_align(size() - 64, 16).expect("a layout");
                    // SAFETY: the layout is not empty. Each write lies in the block.
                    unsafe {
                        let p = System.alloc(layout);
                        assert!(!p.is_null());
                        (0..layout.size())
                            .step_by(4096)
                            .for_each(|at| p.add(at).write_volatile(1));
                        (p, layout)
                    }
                })
                .collect();
            for (p, layout) in buffers {
                // SAFETY: the block was allocated above for this layout, and is freed once.
                unsafe { System.dealloc(p, layout) };
            }
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{:.2}", times[times.len() / 2]);
}
