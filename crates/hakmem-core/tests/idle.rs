//! What is free goes back by itself, and the thread that sees to it is there only while it has work.
//!
//! Each runs in a process of its own, as the knobs, the figures and the threads are the process's.
#![cfg(not(any(loom, shuttle)))]

mod oracle;

use hakmem_core::{c, stats};
use oracle::alone;
use std::ffi::CStr;
use std::time::Duration;

const MIB: usize = 1 << 20;

fn configure(options: &[&CStr]) {
    let mut envp: Vec<_> = options.iter().map(|o| o.as_ptr()).collect();
    envp.push(std::ptr::null());
    // SAFETY: a NULL-terminated array.
    unsafe { c::configure(envp.as_ptr()) }
}

/// Takes `bytes` in blocks of `size` and frees them.
fn come_and_go(size: usize, bytes: usize) {
    // SAFETY: blocks of this allocator, each freed once.
    unsafe {
        let blocks: Vec<_> = (0..bytes / size).map(|_| c::malloc(size)).collect();
        for p in blocks {
            p.write(1);
            c::free(p);
        }
    }
}

fn dirty() -> u64 {
    stats::process().dirty_bytes
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Looks until it is so; far more often than it may take is a failure.
fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}

/// Waits and wakes so far.
fn waits() -> u64 {
    let calls = stats::process().syscalls;
    calls.iter().find(|s| s.name == "futex").unwrap().calls
}

fn idle_memory() {
    let before = threads();
    // Whales, large blocks, and pages of small ones. With the heap stay a few.
    for (size, stays) in [(4 * MIB, 0), (300 << 10, MIB), (1000, 5 * 65_536)] {
        for _ in 0..2 {
            let purged = stats::process().purged_bytes;
            come_and_go(size, 64 * MIB);
            assert_eq!(threads(), before + 1, "a thread sees to it");
            until("all is given back", || dirty() == 0);
            let given = (stats::process().purged_bytes - purged) as usize;
            assert!(given + stays >= 16 * MIB, "{given} of {size}");
            until("the thread ends", || threads() == before);
        }
    }
    // Whoever waits by spinning makes a thousand calls in no time.
    assert!(waits() < 1000, "{}", waits());
}

fn little_memory() {
    let before = threads();
    come_and_go(1000, 12 * MIB);
    come_and_go(2 * MIB, 2 * MIB);
    assert_eq!(threads(), before, "it is not worth a thread");
    configure(&[c"HAKMEM_SCAVENGER=8"]);
    come_and_go(2 * MIB, 4 * MIB);
    assert_eq!(threads(), before + 1);
    until("all is given back", || dirty() == 0);
    until("the thread ends", || threads() == before);
}

fn without_the_thread() {
    configure(&[c"HAKMEM_SCAVENGER=0", c"HAKMEM_DECAY_MS=40"]);
    let before = threads();
    come_and_go(4 * MIB, 64 * MIB);
    come_and_go(1000, 64 * MIB);
    assert_eq!(threads(), before);
    assert!(dirty() > 16 * MIB as u64);
    // Whoever frees something sees to it, now and then.
    until("what is free goes back", || {
        come_and_go(3 * MIB, 3 * MIB);
        dirty() <= 4 * MIB as u64
    });
    assert_eq!(threads(), before);
}

#[test]
fn idle_memory_goes_back_by_itself() {
    alone("idle_memory_goes_back_by_itself", idle_memory);
}

#[test]
fn little_memory_is_not_worth_a_thread() {
    alone("little_memory_is_not_worth_a_thread", little_memory);
}

#[test]
fn without_the_thread_frees_give_back() {
    alone("without_the_thread_frees_give_back", without_the_thread);
}
