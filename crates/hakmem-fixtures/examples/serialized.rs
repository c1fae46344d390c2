//! A program that passes its figures on by serde. It writes lines of JSON: those of a snapshot, the
//! report of the same moment, and an object of the parts that a program may pass on by themselves.

use hakmem_core::report::{self, Format};
use hakmem_core::stats::{Decision, HeapUse, Site, Snapshot, What};
use hakmem_core::{Hakmem, c, options};
use serde_json::json;
use std::hint::black_box;
use std::thread;

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

/// Blocks of all kinds, of two threads, and a pointer that is nobody's. What stays is returned.
fn work() -> Vec<Vec<u8>> {
    let sizes = [16, 100, 1000, 40_000, 100_000, 3 << 20];
    let blocks = move || -> Vec<Vec<u8>> {
        let sizes = sizes.into_iter().cycle().take(600);
        black_box(sizes.map(Vec::with_capacity).collect())
    };
    let mut all = blocks();
    all.extend(thread::spawn(blocks).join().expect("its blocks"));
    all.truncate(700);
    options::set("FOREIGN", "leak").expect("an option");
    let mut foreign = [0u64; 8];
    // SAFETY: the option leaves it alone.
    unsafe { c::free((&raw mut foreign).cast()) };
    all
}

fn main() {
    let kept = work();
    // There before: what is allocated meanwhile would be in one of them and not in the other.
    let (mut ours, mut reported) = (Vec::with_capacity(1 << 20), String::with_capacity(1 << 20));
    // At first: the report asks the system, which it counts.
    serde_json::to_writer(&mut ours, &Snapshot::take()).expect("there is room");
    report::write(&mut reported, Format::Json).expect("a report");
    println!("{}", str::from_utf8(&ours).expect("JSON"));
    print!("{reported}");

    let snapshot = Snapshot::take();
    let stats = snapshot.process();
    let decision = Decision {
        at_ms: 1,
        what: What::Decay,
        from: 2,
        to: 3,
        from_fault_us: 4,
        from_hold_us: 5,
        to_fault_us: 6,
        to_hold_us: 7,
        round_ms: 8,
        from_rating: 1400,
        to_rating: 1600,
    };
    let site = Site {
        address: 0xabc,
        frees: 3,
    };
    let parts = json!({
        "stats": stats,
        "heap_walk": snapshot.heap_walk(),
        "class": snapshot.class(0),
        "heap": snapshot.heaps().next(),
        "syscall": stats.syscalls().next(),
        "site": site,
        "decision": decision,
        "states": [HeapUse::Own, HeapUse::Running, HeapUse::Idle],
    });
    println!("{parts}");
    drop(kept);
}
