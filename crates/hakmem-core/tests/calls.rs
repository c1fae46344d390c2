//! Which system calls are made, and how they are counted.
//!
//! Each runs in a process of its own, as the figures are the process's.
#![cfg(not(any(loom, shuttle)))]

use crate::oracle;

use hakmem_core::c;
use hakmem_core::stats::{self, Syscall};
use oracle::alone;
use oracle::plain::{free, take};
use std::ffi::CStr;

const SLOT: usize = 64 << 10;
const MIB: usize = 1 << 20;

fn configure(option: &CStr) {
    // SAFETY: a NULL-terminated array.
    unsafe { c::configure([option.as_ptr(), std::ptr::null()].as_ptr()) }
}

fn call(name: &str) -> Syscall {
    let all = stats::process();
    let found = all.syscalls().find(|s| s.name == name);
    *found.expect("it is one of the kinds")
}

/// Blocks of all kinds come and go.
fn come_and_go() {
    for n in [8, 100, 9000, 3 * SLOT, 3 * MIB] {
        let blocks: Vec<_> = (0..40).map(|_| take(n)).collect();
        blocks.into_iter().for_each(free);
    }
    c::trim();
}

/// Locks that nobody else wants are taken and let go without a call.
fn locks_alone() {
    configure(c"HAKMEM_SCAVENGER=0");
    come_and_go();
    assert_eq!(call("futex").calls, 0);
    assert_eq!(call("clone").calls, 0);
}

fn counts() {
    come_and_go();
    for s in stats::process().syscalls() {
        assert_eq!((s.failures, s.nanos), (0, 0), "{}", s.name);
    }
    let (commits, advice) = (call("mprotect").calls, call("madvise").calls);
    assert!(commits > 0 && advice > 0 && call("mmap").calls > 0);
    configure(c"HAKMEM_TIMING=1");
    come_and_go();
    assert!(call("madvise").calls > advice);
    let spent = call("madvise").nanos;
    // Each takes some nanoseconds, and all of them less than a day.
    assert!(spent > 0 && spent < 86_400_000_000_000, "{spent}");
    configure(c"HAKMEM_TIMING=0");
    come_and_go();
    assert_eq!(call("madvise").nanos, spent);
    // No address space for another arena.
    let limit = libc::rlimit {
        rlim_cur: 1 << 30,
        rlim_max: 1 << 30,
    };
    // SAFETY: reads the structure.
    let done = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    assert_eq!(done, 0);
    let before = call("mmap");
    // SAFETY: any size may be asked for.
    assert!(unsafe { c::malloc(1 << 43) }.is_null());
    let after = call("mmap");
    assert!(after.failures > before.failures);
    assert_eq!(after.failures - before.failures, after.calls - before.calls);
}

/// A large huge block that is little written to is cleared by giving it back; others are by hand,
/// and nobody is asked about those of 32 MiB or less.
fn clearing() {
    configure(c"HAKMEM_SCAVENGER=0");
    configure(c"HAKMEM_HUGE_CACHE_MIB=64");
    let cleared = |size, written| {
        c::trim();
        let p = take(size);
        // SAFETY: the block holds that.
        unsafe { p.write_bytes(0xa5, written) };
        free(p);
        let before = [call("madvise").calls, call("pagemap").calls];
        // SAFETY: any size.
        let again = unsafe { c::zeroed(size) };
        let now = [call("madvise").calls, call("pagemap").calls];
        assert_eq!(again, p);
        // SAFETY: `zeroed` initialises it.
        let bytes = unsafe { std::slice::from_raw_parts(again, size) };
        assert!(bytes.iter().all(|&b| b == 0));
        free(again);
        (now[0] - before[0], now[1] > before[1])
    };
    assert_eq!(cleared(34 * MIB, MIB / 2), (1, true));
    assert_eq!(cleared(34 * MIB, 34 * MIB), (0, true));
    assert_eq!(cleared(32 * MIB, MIB / 2), (0, false));
    c::set_filtered(true);
    assert_eq!(
        cleared(34 * MIB, MIB / 2),
        (0, false),
        "not in a process with a filter"
    );
    c::set_filtered(false);
    assert_eq!(cleared(34 * MIB, MIB / 2), (1, true));
}

/// Whether the end of the slot at `p` is resident.
fn is_filled(p: *mut u8) -> bool {
    let last = p.wrapping_add(SLOT - 4096);
    let mut resident = 0;
    // SAFETY: asks about one page.
    let done = unsafe { libc::mincore(last.cast(), 4096, &raw mut resident) };
    assert_eq!(done, 0);
    resident & 1 != 0
}

/// Fresh pages of small blocks are faulted in whole once the heap has enough pages, and has filled
/// some of the class; those that are in memory anyway are not asked for.
fn populating() {
    // Their number is known again after many came and went.
    configure(c"HAKMEM_POPULATE_FROM_PAGES=0");
    for _ in 0..10 {
        let blocks: Vec<_> = (0..40 * SLOT / 1024).map(|_| take(1024)).collect();
        let (kept, gone): (Vec<_>, Vec<_>) =
            blocks.into_iter().partition(|p| p.addr() % SLOT < 4096);
        gone.into_iter().for_each(free);
        c::trim();
        kept.into_iter().for_each(free);
        c::trim();
    }
    let mut kept = Vec::new();
    let mut fill = |size: usize, pages: usize| -> Vec<bool> {
        let blocks: Vec<_> = (0..pages * SLOT / size)
            .map(|_| {
                let p = take(size);
                (p, p.addr().is_multiple_of(SLOT) && is_filled(p))
            })
            .collect();
        kept.extend(blocks.iter().map(|b| b.0));
        let starts = blocks.iter().filter(|b| b.0.addr().is_multiple_of(SLOT));
        starts.map(|b| b.1).collect()
    };
    let from = |filled: &[bool]| filled.iter().position(|&f| f);
    assert_eq!(from(&fill(1024, 8)), None, "never");
    // The heap has eight pages and more soon, but four of a class have to come first.
    configure(c"HAKMEM_POPULATE_FROM_PAGES=10");
    let filled = fill(512, 10);
    assert_eq!((from(&filled), filled.len()), (Some(4), 10));
    assert!(filled[4..].iter().all(|&f| f));
    configure(c"HAKMEM_POPULATE_FROM_PAGES=27");
    let filled = fill(256, 12);
    assert_eq!((from(&filled), filled.len()), (Some(9), 12));
    // Pages of several slots are not.
    let before = call("madvise").calls;
    let medium: Vec<_> = (0..20 * 8).map(|_| take(8 * SLOT / 8)).collect();
    assert_eq!(call("madvise").calls, before);
    medium.into_iter().chain(kept).for_each(free);
    // Nor those that come back to be pages of another class.
    configure(c"HAKMEM_POPULATE_FROM_PAGES=1");
    let (few, before) = (take(100), call("madvise").calls);
    let again: Vec<_> = (0..10 * SLOT / 2048).map(|_| take(2048)).collect();
    assert_eq!(call("madvise").calls, before);
    again.into_iter().chain([few]).for_each(free);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn pages_are_populated_where_they_will_be_filled() {
    alone("pages_are_populated_where_they_will_be_filled", populating);
}

#[test]
fn locks_that_nobody_wants_cost_no_call() {
    alone("locks_that_nobody_wants_cost_no_call", locks_alone);
}

#[test]
fn calls_are_counted_by_kind() {
    alone("calls_are_counted_by_kind", counts);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn huge_are_cleared_the_cheaper_way() {
    alone("huge_are_cleared_the_cheaper_way", clearing);
}
