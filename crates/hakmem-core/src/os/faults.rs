//! System calls that are refused on purpose, for tests: compiled with the feature `fault-injection` alone.
//!
//! While a plan is in force, the calls of its kinds are numbered from 1, and those from `first` on, `count` of them, fail
//! without being made. A *partial* failure is what the kernel may leave behind when it gives up half-way: a range of
//! several maps is changed up to the one that refuses, and an mremap to a fixed place has unmapped what was there.

use super::linux::raw;
use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// The kinds of calls that can be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Reserving address space.
    Mmap,
    /// Giving it up.
    Munmap,
    /// Making it accessible.
    Mprotect,
    /// Giving memory back, populating, huge pages.
    Madvise,
    /// Moving page tables.
    Mremap,
    /// Asking what is resident.
    Pagemap,
    /// Making the scavenger.
    Clone,
}

/// Every kind, in the order of its number.
pub const CALLS: [Call; 7] =
    [Call::Mmap, Call::Munmap, Call::Mprotect, Call::Madvise, Call::Mremap, Call::Pagemap, Call::Clone];

/// Which calls fail.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Bit i: calls of the kind with number i are numbered, and may fail.
    pub kinds: u32,
    /// The first one that fails, from 1.
    pub first: u64,
    /// How many fail.
    pub count: u64,
    /// Whether they fail half-way.
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

/// Puts a plan in force. Not while other threads allocate.
pub fn arm(plan: Plan) {
    KINDS.store(plan.kinds, Relaxed);
    FIRST.store(plan.first, Relaxed);
    LAST.store(plan.first.saturating_add(plan.count - 1), Relaxed);
    PARTIAL.store(plan.partial, Relaxed);
    NUMBER.store(0, Relaxed);
    ARMED.store(true, Relaxed);
}

/// Ends the plan: no call is refused any more.
pub fn disarm() {
    ARMED.store(false, Relaxed);
}

/// Calls of each kind that the plans so far have numbered, and those that were refused.
pub fn counts() -> ([u64; CALLS.len()], [u64; CALLS.len()]) {
    (REACHED.each_ref().map(|n| n.load(Relaxed)), REFUSED.each_ref().map(|n| n.load(Relaxed)))
}

/// The negated error number with which a call is refused; None: it is to be made.
pub(super) fn refuse(number: libc::c_long, a: [usize; 6]) -> Option<isize> {
    let call = match number {
        libc::SYS_mmap => Call::Mmap,
        libc::SYS_munmap => Call::Munmap,
        libc::SYS_mprotect => Call::Mprotect,
        libc::SYS_madvise => Call::Madvise,
        libc::SYS_mremap => Call::Mremap,
        libc::SYS_openat | libc::SYS_pread64 => Call::Pagemap,
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

/// What the kernel has done already when it gives up.
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
