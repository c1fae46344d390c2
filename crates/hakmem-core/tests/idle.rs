//! What is free goes back by itself, and the thread that sees to it is there only while it has
//! work.
//!
//! Each runs in a process of its own, as the knobs, the figures and the threads are the process's.
#![cfg(not(any(loom, shuttle)))]

use crate::oracle;

use hakmem_core::c;
use hakmem_core::stats;
use oracle::alone;
use oracle::plain::{configure, free, resize};
use std::time::{Duration, Instant};

pub const MIB: usize = 1 << 20;

pub fn take(size: usize) -> *mut u8 {
    // SAFETY: any size may be asked for, and the block holds a byte.
    unsafe {
        let p = c::malloc(size);
        p.write(1);
        p
    }
}

/// Takes `bytes` in blocks of `size` and frees them.
pub fn come_and_go(size: usize, bytes: usize) {
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

pub fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// What a thread may do, as a set of bits. None: it has ended.
fn capabilities(thread: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()?;
    let mask = status.lines().find_map(|l| l.strip_prefix("CapPrm:"))?;
    Some(u64::from_str_radix(mask.trim(), 16).unwrap())
}

/// Looks until it is so; far more often than it may take is a failure.
pub fn until(what: &str, is_so: impl Fn() -> bool) {
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
    let all = stats::process();
    all.syscalls().find(|s| s.name == "futex").unwrap().calls
}

fn idle_memory() {
    let before = threads();
    // Huge blocks, large blocks, and pages of small ones. With the heap stay a few.
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

/// What is freed while the thread is at work is given back by it, too, though it would not be worth
/// one.
fn little_more_memory() {
    let before = threads();
    let start = Instant::now();
    come_and_go(4 * MIB, 64 * MIB);
    let late = take(2 * MIB);
    until("some time has passed", || {
        start.elapsed() > Duration::from_millis(300)
    });
    assert_eq!(threads(), before + 1);
    free(late);
    until("all is given back", || dirty() == 0);
    until("the thread ends", || threads() == before);
}

/// The kernel judges access by thread: one with fewer rights than the process would be a way into
/// it.
fn privileged_program() {
    // The thread stays while it is looked at.
    configure(&[c"HAKMEM_DECAY_MS=60000"]);
    let names = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        tasks.map(|t| t.unwrap().file_name().into_string().unwrap())
    };
    let before: Vec<_> = names().collect();
    if capabilities(&before[0]) == Some(0) {
        return println!("this user has none");
    }
    come_and_go(4 * MIB, 64 * MIB);
    let new: Vec<_> = names().filter(|t| !before.contains(t)).collect();
    assert_eq!(new.len(), 1);
    assert_eq!(capabilities(&new[0]), capabilities(&before[0]));
}

/// The thread does not stay for what the system does not take back.
fn locked_memory() {
    configure(&[c"HAKMEM_DECAY_MS=20"]);
    let before = threads();
    // It asks for no huge pages: what asked goes back by a fresh map, whether it is locked or not.
    let locked = take(MIB + MIB / 4);
    // SAFETY: a part of the block.
    if unsafe { libc::mlock(locked.cast(), 4096) } != 0 {
        return println!("memory cannot be locked here");
    }
    // Of what lies side by side in the cache all would stay.
    let _between = take(2 * MIB);
    let rest: Vec<_> = (0..10).map(|_| take(4 * MIB)).collect();
    free(locked);
    rest.into_iter().for_each(free);
    assert_eq!(threads(), before + 1);
    until("the rest is given back", || dirty() == 2 * MIB as u64);
    until("the thread ends", || threads() == before);
    assert_eq!(dirty(), 2 * MIB as u64);
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

/// Large blocks shrink where they are, and the program frees nothing.
fn shrunk() {
    let before = threads();
    let blocks: Vec<_> = (0..64).map(|_| take(MIB)).collect();
    let shrunk: Vec<_> = blocks.into_iter().map(|p| resize(p, MIB / 8)).collect();
    assert_eq!(threads(), before + 1);
    until("what they leave is given back", || dirty() == 0);
    until("the thread ends", || threads() == before);
    shrunk.into_iter().for_each(free);
}

fn without_the_thread() {
    // Nothing goes back meanwhile, however slow the machine is.
    configure(&[c"HAKMEM_SCAVENGER=0", c"HAKMEM_DECAY_MS=1000000"]);
    let before = threads();
    come_and_go(4 * MIB, 64 * MIB);
    come_and_go(1000, 64 * MIB);
    assert_eq!(threads(), before);
    assert!(dirty() > 16 * MIB as u64);
    configure(&[c"HAKMEM_DECAY_MS=40"]);
    // Whoever frees something sees to it, now and then.
    until("what is free goes back", || {
        come_and_go(3 * MIB, 3 * MIB);
        dirty() <= 4 * MIB as u64
    });
    assert_eq!(threads(), before);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn idle_memory_goes_back_by_itself() {
    alone("idle_memory_goes_back_by_itself", idle_memory);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn little_more_memory_goes_back_too() {
    alone("little_more_memory_goes_back_too", little_more_memory);
}

#[test]
fn the_thread_has_the_capabilities_of_its_maker() {
    alone(
        "the_thread_has_the_capabilities_of_its_maker",
        privileged_program,
    );
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn locked_memory_is_not_waited_for() {
    alone("locked_memory_is_not_waited_for", locked_memory);
}

#[test]
fn what_shrunk_blocks_leave_goes_back() {
    alone("what_shrunk_blocks_leave_goes_back", shrunk);
}

#[test]
fn little_memory_is_not_worth_a_thread() {
    alone("little_memory_is_not_worth_a_thread", little_memory);
}

#[test]
fn without_the_thread_frees_give_back() {
    alone("without_the_thread_frees_give_back", without_the_thread);
}
