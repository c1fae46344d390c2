//! Makes system calls fail on purpose, for tests. Only builds with the feature `fault-injection`
//! have this file.
//!
//! A plan names kinds of calls. While it is in force, hakmem numbers the calls of these kinds, the
//! first one with 1. It does not make the `count` calls from `first` on: they fail. A *partial*
//! failure leaves behind what the kernel may leave when it gives up half-way. It may have changed a
//! part of a range of several maps, up to the one that refuses. And an mremap to a fixed place may
//! have unmapped the memory there.

use super::linux::raw;
use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// The kinds of calls that a plan can make fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Reserving address space.
    Mmap,
    /// Giving address space up.
    Munmap,
    /// Making address space accessible.
    Mprotect,
    /// Giving memory back, populating, huge pages.
    Madvise,
    /// Moving page tables.
    Mremap,
    /// Asking which memory is resident.
    Pagemap,
    /// Making the scavenger's thread.
    Clone,
}

/// Every kind, in the order of its number.
pub const CALLS: [Call; 7] = [
    Call::Mmap,
    Call::Munmap,
    Call::Mprotect,
    Call::Madvise,
    Call::Mremap,
    Call::Pagemap,
    Call::Clone,
];

/// Which calls fail.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Bit i: the plan numbers the calls of the kind with number i.
    pub kinds: u32,
    /// The first one that fails, from 1.
    pub first: u64,
    /// How many fail.
    pub count: u64,
    /// True if they fail half-way.
    pub partial: bool,
}

static ARMED: AtomicBool = AtomicBool::new(false);
static KINDS: AtomicU32 = AtomicU32::new(0);
static FIRST: AtomicU64 = AtomicU64::new(0);
static LAST: AtomicU64 = AtomicU64::new(0);
static PARTIAL: AtomicBool = AtomicBool::new(false);
static NUMBER: AtomicU64 = AtomicU64::new(0);
static REACHED: [AtomicU64; CALLS.len()] = [const { AtomicU64::new(0) }; CALLS.len()];
static REFUSED: [AtomicU64; CALLS.len()] = [const { AtomicU64::new(0) }; CALLS.len()];

/// Puts a plan in force. The caller sees to it that no other thread allocates.
pub fn arm(plan: Plan) {
    KINDS.store(plan.kinds, Relaxed);
    FIRST.store(plan.first, Relaxed);
    LAST.store(plan.first.saturating_add(plan.count - 1), Relaxed);
    PARTIAL.store(plan.partial, Relaxed);
    NUMBER.store(0, Relaxed);
    ARMED.store(true, Relaxed);
}

/// Ends the plan: no call fails any more.
pub fn disarm() {
    ARMED.store(false, Relaxed);
}

/// For each kind: how many calls the plans so far have numbered, and how many have failed.
pub fn counts() -> ([u64; CALLS.len()], [u64; CALLS.len()]) {
    (REACHED.each_ref().map(|n| n.load(Relaxed)), REFUSED.each_ref().map(|n| n.load(Relaxed)))
}

/// The negated error number with which this call fails. None: the caller makes the call.
pub(super) fn refuse(number: libc::c_long, a: [usize; 6]) -> Option<isize> {
    let call = match number {
        libc::SYS_mmap => Call::Mmap,
        libc::SYS_munmap => Call::Munmap,
        libc::SYS_mprotect => Call::Mprotect,
        libc::SYS_madvise => Call::Madvise,
        libc::SYS_mremap => Call::Mremap,
        libc::SYS_openat | libc::SYS_pread64 | libc::SYS_mincore => Call::Pagemap,
        libc::SYS_clone => Call::Clone,
        _ => return None,
    };
    if !ARMED.load(Relaxed) || KINDS.load(Relaxed) & 1 << call as u32 == 0 {
        return None;
    }
    REACHED[call as usize].fetch_add(1, Relaxed);
    let now = NUMBER.fetch_add(1, Relaxed) + 1;
    if !(FIRST.load(Relaxed)..=LAST.load(Relaxed)).contains(&now) {
        return None;
    }
    REFUSED[call as usize].fetch_add(1, Relaxed);
    if PARTIAL.load(Relaxed) {
        half_done(call, number, a);
    }
    Some(-(if call == Call::Clone { libc::EAGAIN } else { libc::ENOMEM } as isize))
}

/// Does what the kernel may have done before it gave up.
fn half_done(call: Call, number: libc::c_long, mut a: [usize; 6]) {
    match call {
        Call::Mprotect | Call::Madvise => {
            a[1] = (a[1] / 2).next_multiple_of(super::page_size()).min(a[1]);
            raw(number, a);
        }
        Call::Mremap if a[3] & libc::MREMAP_FIXED as usize != 0 => {
            raw(libc::SYS_munmap, [a[4], a[2], 0, 0, 0, 0]);
        }
        _ => {}
    }
}
