//! Huge blocks, more than 1 MiB: runs of whole segments, and a cache of runs that were freed
//! recently.
//!
//! A freed run stays in the cache with its memory until its decay is over, as faulting memory in
//! again costs ten times what keeping it does. The best fit serves a request, and what is left of
//! it stays in the cache. A request that no run fits takes the longest one and what is unused
//! behind it, and a block grows into the run behind it. A block that grows again and again gets
//! address space behind it, which costs nothing until it is used. Where there is none, the kernel
//! moves the block's page tables, not its bytes. In a program of many heaps, each heap keeps some
//! freed blocks itself (`kept`).
//!
//! Rules
//! 1. The entries of the cache change under the lock of their part only. A cached run is dirty,
//!    accessible, and belongs to the cache.
//! 2. The metadata of a live huge block's first slot belongs to the owner of the block. Every other
//!    slot of the run says `Kind::Free`. In each segment of the run, `cleared` of the first slot is
//!    the owner's, too. It outlives the block: calloc may find that of an earlier run, and then
//!    zeroes more than it needs to, or gives more back.
//! 3. Of a run of `reserve` segments, the first `span` are accessible and may be dirty. The rest is
//!    clean.
//! 4. A run is *native* or *moved*. A native run consists of the maps that hakmem reserved as the
//!    arena. A moved run is one map that the kernel brought from elsewhere. It is two if the block
//!    had tried huge pages in a part, or where a limit of the process forbids one. The kernel never
//!    joins it with its neighbours. So hakmem does not join or extend a moved run either. Before
//!    the run goes back to the arena, hakmem replaces it by a fresh map, which does join. Otherwise
//!    a program that grows many blocks would end with a map for each segment, and every move would
//!    take as many calls.

mod cache;
mod clear;
mod grow;
pub mod kept;
mod thp;

use crate::backend::arena::{self, Run, SEGMENT, SLOT};
use crate::backend::held;
use crate::backend::nodes::Groups;
use crate::backend::page::{Kind, Meta, THP, TRIED, UNTOLD};
use crate::backend::tried;
use crate::backend::{filling, first_touch};
use crate::base::sync::Ordering::Relaxed;
use crate::base::usage;
use crate::os;
use crate::policy::Thp;
use crate::policy::learner;

pub use cache::{
    CACHED, HANDED, HITS, LOCK, RETURNED, after_fork, cached_bytes, counts, forget_part,
    further_locks, is_beyond_bound, keep_bound, purge, signed_cached_bytes,
};
use cache::{Entry, drop_entry, give_excess, put_back, put_entry, take_cached, take_longest};
pub use clear::clear;
use grow::{give_clean, is_plain};
pub use grow::{resize, will_be_filled};
use kept::{Kept, Put};
use thp::{ask_at_once, filled_part, is_filled_by, set_told, wants_look};

/// No request and no alignment above this can be met: no address space is larger.
pub const TOO_LARGE: usize = arena::LARGEST;

fn note_live(segments: i64) {
    let change = segments * SEGMENT as i64;
    usage::HUGE.fetch_add(change, Relaxed);
    usage::add(change, change);
    learner::huge(change);
}

fn segments_for(n: usize) -> usize {
    n.div_ceil(SEGMENT)
}

fn head_of(run: Run) -> &'static Meta {
    // SAFETY: a run that was taken lies in groups in use, whose metadata is accessible for ever
    // (`arena` rule 4). All fields may be shared between threads.
    unsafe { &*run.0.meta(run.1 * (SEGMENT / SLOT)).cast::<Meta>() }
}

fn run_of(meta: &Meta) -> Run {
    meta.segment_in_arena()
}

fn address(run: Run) -> usize {
    run.0.slot_address(run.1 * (SEGMENT / SLOT))
}

/// True if the run of a huge block was moved (rule 4).
fn is_moved(huge: &Meta) -> bool {
    huge.back.load(Relaxed) != 0
}

fn set_moved(huge: &Meta, moved: bool) {
    huge.back.store(u8::from(moved), Relaxed);
}

/// [`alloc`] from what the calling thread's heap keeps. None: it has no such block.
#[inline(never)]
pub fn take_kept(n: usize, align: usize, kept: &Kept) -> Option<(&'static Meta, bool)> {
    let meta = kept.take(segments_for(n.max(1)), align)?;
    meta.stamp.store(0, Relaxed);
    meta.set_kind(Kind::Huge);
    Some((meta, false))
}

/// Takes a block for `n` bytes at a multiple of `align`, a power of two. The flag says whether it
/// is zero. `written`: the program will write the block before it reads it, so most of it is likely
/// to be used. `node` is the caller's. None: out of memory. O(RING) from the cache, else O(groups +
/// n / 2 MiB).
pub fn alloc(n: usize, align: usize, written: bool, node: usize) -> Option<(&'static Meta, bool)> {
    debug_assert!(n <= TOO_LARGE && align <= TOO_LARGE);
    let len = segments_for(n.max(1));
    let mut cached = 0;
    let (entry, zero) = match take_cached(len, align, node) {
        Ok(entry) => (entry, false),
        Err(segments) => {
            cached = segments;
            let (run, told, zero) = if cached > 0
                && written
                && let Some((run, told)) = extend_cached(n, len, align, node)
            {
                (run, told, false)
            } else {
                if cached >= len {
                    learner::misfit(len * SEGMENT);
                }
                (take_fresh(len, align, Groups::of(node))?, UNTOLD, true)
            };
            let told = if told == UNTOLD { ask_at_once(run, n, len, written) } else { told };
            let thp = told != UNTOLD || Thp::now() == Thp::Always;
            // One that asked although huge pages are dear shows whether they still are.
            if zero && (written || thp && first_touch::is_huge_dear()) {
                // SAFETY: `zero` says that `take_fresh` took the run: it is this thread's alone,
                // accessible and zero.
                unsafe { first_touch::touch_large(head_of(run).start(), thp) };
            }
            let tried = if told == TRIED { len } else { 0 };
            (Entry { run, len, stamp: 0, moved: false.into(), thp: thp.into(), tried }, zero)
        }
    };
    let meta = head_of(entry.run);
    set_moved(meta, entry.moved.is_set());
    let told = entry.told();
    if told != TRIED {
        tried::give(entry.tried); // A part of a run that was tried: the block does not count.
    }
    set_told(meta, told);
    // Perhaps this segment never had a page. Then this keeps others from claiming its slots.
    meta.segment().slots.retire();
    meta.span.store(len as u32, Relaxed);
    meta.reserve.store(len as u32, Relaxed);
    meta.stamp.store(0, Relaxed);
    if zero {
        meta.cleared.set(0);
    }
    meta.set_kind(Kind::Huge);
    note_live(len as i64);
    HANDED.fetch_add(1, Relaxed);
    if cached > 0 {
        give_excess(os::now_ms());
    }
    Some((meta, zero))
}

/// Takes the longest run of the cache that has less than `len` segments, and unused segments behind
/// it, so that it has `len`. They are for a block of `n` bytes that will be written: one that need
/// be zero had better be fresh. Returns what the kernel was told. None: there are none.
fn extend_cached(n: usize, len: usize, align: usize, node: usize) -> Option<(Run, u8)> {
    let is_filled = is_filled_by(n, len);
    let entry = take_longest(len, align, node, is_filled)?;
    let (run, more) = (entry.run, len - entry.len);
    if !held::take(more * SEGMENT) {
        put_back(entry);
        return None;
    }
    if !arena::extend_run(run, entry.len, more) {
        held::give(more * SEGMENT);
        put_back(entry);
        return None;
    }
    if !arena::commit_run(run, len) {
        held::give(more * SEGMENT);
        // SAFETY: `extend_run` has just taken the segments, which were unused and so clean, and
        // nobody has written to them.
        unsafe { arena::give_run((run.0, run.1 + entry.len), more) };
        put_back(entry);
        return None;
    }
    let asks = !first_touch::is_huge_dear();
    let told = match (entry.thp.is_set(), is_filled && asks, entry.tried) {
        (false, ..) => UNTOLD,
        (_, true, tried) => {
            os::want_thp(address(run), len * SEGMENT);
            tried::give(tried);
            THP
        }
        (_, _, 0) => THP,
        (_, _, tried) => {
            if asks {
                os::want_thp(address(run), filled_part(n, len).max(entry.len) * SEGMENT);
            }
            tried::give(tried);
            tried::take(len);
            TRIED
        }
    };
    Some((run, told))
}

/// Takes `len` clean segments at a multiple of `align`, in `wanted` groups if it can. None: out of
/// memory, or of what the hard limit allows.
fn take_fresh(len: usize, align: usize, wanted: Groups) -> Option<Run> {
    if !held::take(len * SEGMENT) {
        return None;
    }
    let run = arena::take_run(len, (align / SEGMENT).max(1), len, wanted);
    if run.is_none() {
        held::give(len * SEGMENT);
    }
    run
}

/// [`free`] into what the calling thread's heap keeps. Returns the bytes by which the cache became
/// larger. None: the heap does not keep the block, which is live as before.
///
/// # Safety
/// It is a live huge block, and the caller gives it up if the heap keeps it.
#[inline(never)]
pub unsafe fn keep(meta: &Meta, kept: &Kept) -> Option<usize> {
    let (len, reserve) = (meta.span.load(Relaxed) as usize, meta.reserve.load(Relaxed) as usize);
    // A block that is too long is for `free`, which asks itself.
    if len > kept::LONGEST || wants_look(meta, len) {
        return None;
    }
    if reserve > len {
        let run = run_of(meta);
        meta.reserve.store(len as u32, Relaxed);
        // SAFETY: the segments behind `len` belong to the block, which is about to be freed, and
        // are clean (rule 3).
        unsafe { give_clean((run.0, run.1 + len), reserve - len, is_plain(meta)) };
    }
    meta.set_kind(Kind::Free);
    // SAFETY: the caller gives the block up. `len` is `LONGEST` at most, and nothing lies behind
    // it.
    match unsafe { kept.put(meta, len) } {
        Put::Kept => Some(0),
        Put::KeptMore => Some(len * SEGMENT),
        Put::No => {
            meta.set_kind(Kind::Huge);
            None
        }
    }
}

/// Frees the huge block at `meta`. Returns the bytes freed.
///
/// # Safety
/// It is a live huge block, and the caller gives it up.
pub unsafe fn free(meta: &Meta) -> usize {
    let run = run_of(meta);
    let (len, reserve) = (meta.span.load(Relaxed) as usize, meta.reserve.load(Relaxed) as usize);
    let now = os::now_ms();
    let entry = Entry::of(meta, len, now);
    meta.set_kind(Kind::Free);
    note_live(-(len as i64));
    RETURNED.fetch_add(1, Relaxed);
    if reserve > len {
        // SAFETY: the segments behind `len` belonged to the block, which the caller gave up, and
        // are clean (rule 3).
        unsafe { give_clean((run.0, run.1 + len), reserve - len, is_plain(meta)) };
    }
    let is_sparse = wants_look(meta, len) && filling::is_sparse(address(run), len * SEGMENT);
    set_told(meta, UNTOLD);
    CACHED.fetch_add(len * SEGMENT, Relaxed);
    if is_sparse {
        // Little of it is resident, and the next block in it would touch huge pages.
        drop_entry(entry);
    } else {
        put_entry::<false>(entry, now);
    }
    len * SEGMENT
}

/// Bytes of the huge block at `meta`.
pub fn size(meta: &Meta) -> usize {
    meta.span.load(Relaxed) as usize * SEGMENT
}
#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests;
