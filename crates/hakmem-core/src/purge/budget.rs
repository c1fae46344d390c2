//! The budget: how much free memory may stay resident before its decay is over.
//!
//! The decay alone does not bound free memory. A program whose block sizes change frees pages of
//! one size as fast as it needs pages of another, and each segment's clock begins anew with each
//! slot that is freed in it. So free memory may be as much as what the program needed lately and
//! needs no more, and a little beyond. Slow paths that free pages purge the rest: parked pages
//! first, because only blocks of one size can use their holes.

use super::Held;
use crate::backend::arena::{Arena, SEGMENT, SLOT};
use crate::backend::lately::Lately;
use crate::backend::segment;
use crate::base::sync::{
    Ordering::Relaxed,
    plain::{AtomicU32, AtomicUsize},
};
use crate::base::usage;
use crate::heap::reclaim::parked;
use crate::os;
use crate::policy;

/// Free memory beyond what was needed lately may be `SURPLUS_MIB`, and one in so many of the bytes
/// that are needed.
const SHARE: usize = 16;
/// A slow path that frees a page gives back so much at most.
pub const STEP: usize = 512 << 10;

/// The largest need lately.
static NEED: Lately = Lately::new();
/// The place of the segment that was purged last. The next one lies behind it, so that each has its
/// turn.
static CURSOR: AtomicUsize = AtomicUsize::new(0);
/// When the system took nothing back, in coarse milliseconds. 0: it took something the last time.
static STUCK: AtomicU32 = AtomicU32::new(0);
/// After such a time the budget is not kept for so many milliseconds.
const REST_MS: u32 = 50;

/// The bytes of free memory beyond the budget at `now`.
pub fn excess(now: u32, decay: u32) -> usize {
    let (parked, unpurged) = parked::bytes();
    let need = (usage::live().0 as usize).saturating_sub(parked);
    let peak = NEED.note(need, now, decay);
    let surplus = (policy::SURPLUS_MIB.get() as usize) << 20;
    let allowed = surplus + need / SHARE + peak.saturating_sub(need);
    (segment::expected_dirty_bytes() + unpurged.cast_signed() - allowed.cast_signed())
        .max(0)
        .cast_unsigned()
}

/// Purges what is beyond the budget: `most` bytes, and what else is dirty in the last segment.
/// Returns the bytes given back. O(segments that are listed as dirty, and what is given back).
pub(super) fn purge(_: &Held, now: u32, decay: u32, most: usize) -> usize {
    // SAFETY: the caller's `Held` says that this thread holds `purge::LOCK`.
    let mut given = unsafe { parked::purge_oldest(excess(now, decay).min(most)) };
    // Threads that find the lock taken leave more here.
    let last = CURSOR.load(Relaxed);
    let is_behind = |&(arena, segment): &(&Arena, usize)| place(arena, segment) > last;
    let behind = super::dirty_segments().filter(is_behind);
    let mut dirty = behind.chain(super::dirty_segments().filter(|at| !is_behind(at)));
    let mut is_stuck = false;
    while given < most && excess(now, decay) > 0 && super::is_welcome() {
        let Some((arena, segment)) = dirty.next() else { break };
        CURSOR.store(place(arena, segment), Relaxed);
        // A segment whose dirty slots were all claimed again is listed until a purge sees that.
        let purged = segment::purge(arena, segment, now, 0);
        given += purged.given;
        if purged.is_refused && purged.given == 0 {
            is_stuck = given == 0;
            break;
        }
    }
    STUCK.store(if is_stuck { now.max(1) } else { 0 }, Relaxed);
    given
}

/// True if the system took nothing back a moment before `now`: the program may have locked its
/// memory.
pub fn is_stuck(now: u32) -> bool {
    let since = STUCK.load(Relaxed);
    since != 0 && os::age(now, since) < REST_MS
}

/// A number by which segments are in order: where their metadata lies.
fn place(arena: &Arena, segment: usize) -> usize {
    arena.meta(segment * (SEGMENT / SLOT)).addr()
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    extern crate std;

    use super::*;
    use crate::api::c;
    use crate::purge;
    use crate::testing::in_child;
    use std::vec::Vec;

    /// Allocates and frees `mib` MiB of small blocks.
    fn come_and_go(mib: usize) {
        // SAFETY: each block is freed once.
        unsafe {
            let blocks: Vec<_> = (0..mib << 10).map(|_| c::malloc(1 << 10)).collect();
            blocks.into_iter().for_each(|p| c::free(p));
        }
    }

    #[test]
    fn what_is_no_more_needed_goes_back_and_the_rest_stays() {
        in_child(|| {
            policy::SCAVENGE_MIB.set(0);
            policy::DECAY_MS.set(u32::MAX);
            come_and_go(64);
            let (kept, given) = (segment::dirty_bytes(), purge::purged_bytes());
            assert!(kept > 60 << 20, "{kept}: it was needed lately");
            // The time in which it was needed is over.
            NEED.forget();
            come_and_go(1);
            let now = segment::dirty_bytes();
            assert!(now < kept, "{now} of {kept}");
            (0..200).for_each(|_| purge::tick());
            let now = segment::dirty_bytes();
            assert!((8 << 20..20 << 20).contains(&now), "{now} stays");
            assert!(purge::purged_bytes() - given > 40 << 20);
        });
    }

    /// Segments are listed as dirty until a purge sees that no slot of them is so any more.
    #[test]
    fn segments_that_were_used_again_do_not_hold_up_the_others() {
        in_child(|| {
            policy::SCAVENGE_MIB.set(0);
            policy::DECAY_MS.set(u32::MAX);
            come_and_go(128);
            let block = |_| {
                // SAFETY: any size may be asked for. The block is not freed.
                assert!(!unsafe { c::malloc(1 << 10) }.is_null());
            };
            (0..64 << 10).for_each(block);
            let kept = segment::dirty_bytes();
            assert!((50 << 20..80 << 20).contains(&kept), "{kept}");
            NEED.forget();
            (0..200).for_each(|_| purge::tick());
            let kept = segment::dirty_bytes();
            assert!(kept < 24 << 20, "{kept}: what is needed is 64 MiB");
        });
    }

    #[test]
    fn what_smaller_blocks_leave_goes_back_for_a_huge_block() {
        in_child(|| {
            policy::SCAVENGE_MIB.set(0);
            policy::DECAY_MS.set(u32::MAX);
            come_and_go(64);
            let kept = segment::dirty_bytes();
            assert!(kept > 60 << 20, "{kept}: it was needed lately");
            for _ in 0..20 {
                // SAFETY: any size may be asked for. The block is not freed.
                assert!(!unsafe { c::malloc(3 << 20) }.is_null());
            }
            let kept = segment::dirty_bytes();
            assert!(kept < 30 << 20, "{kept}: the process needs less beside huge blocks");
        });
    }

    #[test]
    fn a_thread_that_ends_gives_all_beyond_the_budget_back() {
        in_child(|| {
            policy::SCAVENGE_MIB.set(0);
            policy::DECAY_MS.set(u32::MAX);
            policy::SURPLUS_MIB.set(1 << 20);
            come_and_go(64);
            NEED.forget();
            // SAFETY: the block is freed once.
            let come_and_end =
                || std::thread::spawn(|| unsafe { c::free(c::malloc(1)) }).join().unwrap();
            let before = segment::dirty_bytes();
            come_and_end();
            assert!(segment::dirty_bytes() >= before, "as much may stay");
            policy::SURPLUS_MIB.set(30);
            come_and_end();
            let now = segment::dirty_bytes();
            assert!((28 << 20..=30 << 20).contains(&now), "{before} before, {now} now");
        });
    }
}
