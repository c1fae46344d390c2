//! Huge blocks grow and shrink where they are. If one cannot, the kernel moves its page tables, so
//! that its bytes are not copied.

use super::cache::{give_excess, purge_run, put_back, take_behind};
use super::clear::mostly_absent;
use super::thp::{end_trial, set_told, tried_of};
use super::{
    TOO_LARGE, address, head_of, is_moved, note_live, run_of, segments_for, set_moved, size,
};
use crate::backend::arena::{self, Run, SEGMENT};
use crate::backend::nodes::{self, Groups};
use crate::backend::page::{Kind, Meta, THP, UNTOLD};
use crate::backend::tried;
use crate::backend::{first_touch, held};
use crate::base::sync::Ordering::Relaxed;
use crate::os::{self, Moved};
use crate::policy::Thp;
use crate::profile;

/// Makes the huge block at `meta` hold `n` bytes. Moves it if it must, to a multiple of SEGMENT.
/// Returns where it is then. None: it cannot have them, and nothing has changed.
///
/// # Safety
/// It is a live huge block. Nobody else uses it during the call, nor the bytes behind `n`
/// afterwards.
pub unsafe fn resize(meta: &'static Meta, n: usize) -> Option<&'static Meta> {
    if n > TOO_LARGE {
        return None;
    }
    let run = run_of(meta);
    let (len, reserve) = (meta.span.load(Relaxed) as usize, meta.reserve.load(Relaxed) as usize);
    let new = segments_for(n);
    if new <= len {
        // SAFETY: the caller promises what `shrink` asks for, and these are the block's lengths.
        unsafe { shrink(meta, run, len, reserve, new) };
        return Some(meta);
    }
    let more = (new - len) * SEGMENT;
    if !held::take(more) {
        return None;
    }
    // SAFETY: the caller promises what `grow` asks for, and these are the block's lengths.
    let grown = unsafe { grow(meta, run, len, reserve, new) };
    if grown.is_none() {
        held::give(more);
    }
    give_excess(os::now_ms());
    grown
}

/// Makes a huge block of `len` segments in a run of `reserve` hold `new` segments, more than `len`.
///
/// # Safety
/// As [`resize`].
unsafe fn grow(
    meta: &'static Meta,
    run: Run,
    len: usize,
    reserve: usize,
    new: usize,
) -> Option<&'static Meta> {
    let grown = meta.stamp.fetch_add(1, Relaxed);
    // The first growth may be the only one. From the second on, half as much again is reserved
    // behind.
    let slack = if grown > 0 { new / 2 } else { 0 };
    let mut room = extend(meta, run, reserve, [new + slack, new]);
    if room < new && extend_into_cache(meta, run, reserve, new) {
        room = new;
    }
    if room < new {
        // SAFETY: the caller promises what `relocate` asks for, and these are the block's run and
        // length.
        return unsafe { relocate(meta, run, len, new, slack) };
    }
    meta.reserve.store(room as u32, Relaxed);
    if !arena::commit_run(run, new) {
        return None;
    }
    if meta.segment().is_thp() {
        // A block that is tried may have asked in a part.
        let told = if tried_of(meta, len) != 0 { 0 } else { reserve };
        if room > told && !first_touch::is_huge_dear() {
            os::want_thp(address((run.0, run.1 + told)), (room - told) * SEGMENT);
        }
    } else if is_dense(run, len) {
        ask_for_thp(meta, run, room);
    }
    end_trial(meta, len);
    meta.span.store(new as u32, Relaxed);
    note_live(new as i64 - len as i64);
    Some(meta)
}

/// Asks for huge pages in a fresh huge block for `n` bytes that begins with a copy of `old` bytes.
/// It does so if these are at least half of the block, and if little of it lies behind the `n`
/// bytes. A program that grows such a block is likely to fill it.
#[cold]
pub fn will_be_filled(meta: &Meta, old: usize, n: usize) {
    let (run, size) = (run_of(meta), size(meta));
    let filled = old >= size / 2 && n >= size / 8 * 7;
    let is_huge = profile::plain(meta.kind()) == Kind::Huge;
    let len = size / SEGMENT;
    let may_ask = Thp::now() == Thp::Auto && !first_touch::is_huge_dear();
    if filled && is_huge && may_ask && may_ask_for_more(meta, len) {
        end_trial(meta, len);
        ask_for_thp(meta, run, len);
    }
}

/// True unless all of the huge block of `len` segments asks for huge pages for good.
fn may_ask_for_more(meta: &Meta, len: usize) -> bool {
    !meta.segment().is_thp() || tried_of(meta, len) != 0
}

/// Extends a run of `reserve` segments to the first length of `wanted` that it can have. Returns
/// the run's length then. A moved run stays as it is (`huge` rule 4).
fn extend(meta: &Meta, run: Run, reserve: usize, wanted: [usize; 2]) -> usize {
    let fits = |&want: &usize| {
        reserve >= want || (!is_moved(meta) && arena::extend_run(run, reserve, want - reserve))
    };
    wanted.iter().copied().find(fits).map_or(reserve, |want| want.max(reserve))
}

/// Extends a run of `reserve` segments to `new` ones by a run of the cache and, if that is not long
/// enough, by unused segments behind it. All of the run is accessible then.
fn extend_into_cache(meta: &Meta, run: Run, reserve: usize, new: usize) -> bool {
    if is_moved(meta) {
        return false;
    }
    let end = (run.0, run.1 + reserve);
    let has_thp = meta.segment().is_thp();
    let Some(entry) = take_behind(end, new - reserve, nodes::of(meta), has_thp) else {
        return false;
    };
    let (known, rest) = (reserve + entry.len, new - reserve - entry.len);
    let extends = rest == 0 || arena::extend_run(run, known, rest);
    if !extends || !arena::commit_run(run, new) {
        if extends && rest > 0 {
            // SAFETY: `extend_run` has just taken the segments, which were unused and so clean, and
            // nobody has written to them.
            unsafe { arena::give_run((run.0, run.1 + known), rest) };
        }
        put_back(entry);
        return false;
    }
    tried::give(entry.tried);
    held::give(entry.len * SEGMENT); // It was held before, by the cache.
    true
}

/// Moves a huge block of `len` segments at `run` to a run with room for `new`, and for `slack` more
/// if there is one.
///
/// # Safety
/// It is a live huge block, and nobody else uses it during the call.
unsafe fn relocate(
    meta: &'static Meta,
    run: Run,
    len: usize,
    new: usize,
    slack: usize,
) -> Option<&'static Meta> {
    let reserve = meta.reserve.load(Relaxed) as usize;
    // The whole new run is accessible, so that what moves there as one map stays one.
    // The memory stays on its node.
    let wanted = Groups::of(nodes::of(meta));
    let take = |room| Some((arena::take_run(room, 1, room, wanted)?, room));
    let (to, room) = take(new + slack).or_else(|| take(new))?;
    let moved = head_of(to);
    moved.segment().slots.retire();
    let thp = meta.segment().is_thp();
    // A block that is tried may have asked in a part, and is likely to be filled, as it grows.
    let is_tried = tried_of(meta, len) != 0 && !first_touch::is_huge_dear();
    let wants_thp = is_tried || !thp && is_dense(run, len);
    // SAFETY: the block's run and the new run are accessible and belong to this thread, as the
    // caller promises that nobody else uses the block. They are apart, as both are taken.
    if unsafe { !move_memory(run, len, to, room) } {
        // The new run stays taken for ever, and nobody touches it.
        return None;
    }
    set_moved(moved, true);
    set_told(moved, if thp { THP } else { UNTOLD });
    if wants_thp {
        ask_for_thp(moved, to, room);
    }
    moved.span.store(new as u32, Relaxed);
    moved.reserve.store(room as u32, Relaxed);
    moved.stamp.store(meta.stamp.load(Relaxed), Relaxed);
    moved.set_kind(Kind::Huge);
    meta.set_kind(Kind::Free);
    end_trial(meta, len);
    let is_plain = is_plain(meta);
    // Before the run is given: then another thread may write there what it tells the kernel.
    set_told(meta, UNTOLD);
    // SAFETY: the old run belonged to the huge block, which has another run now. It is clean: the
    // memory of its first `len` segments has moved away, and the rest was clean (`huge` rule 3).
    unsafe { give_clean(run, reserve, is_plain) };
    note_live(new as i64 - len as i64);
    Some(moved)
}

/// True if the run of a huge block is native, and the kernel was told nothing of it.
pub fn is_plain(huge: &Meta) -> bool {
    !is_moved(huge) && !huge.segment().is_thp()
}

/// Gives segments of a huge block back to the arena. If the block was not plain, first makes them
/// native, with nothing that the kernel was told.
///
/// # Safety
/// The segments belong to the caller, which uses them no more. They are clean.
pub unsafe fn give_clean(run: Run, len: usize, is_plain: bool) {
    if !is_plain {
        // SAFETY: by the caller's promise the run is the caller's, and its contents are unused.
        unsafe { arena::decommit_run(run, len) };
    }
    // SAFETY: by the caller's promise the run is the caller's, given up and clean. A fresh map is
    // clean, too.
    unsafe { arena::give_run(run, len) };
}

/// True if most of a huge block was written to. A block that is then grown further is likely to be
/// filled, so huge pages are no waste. False if the option decides instead, or if huge pages are
/// dear.
fn is_dense(run: Run, len: usize) -> bool {
    Thp::now() == Thp::Auto
        && !first_touch::is_huge_dear()
        && !mostly_absent(address(run), len * SEGMENT)
}

/// Asks for huge pages in a huge block's run of `room` segments. It asks for the whole run alike,
/// so that a run of one map stays one, whose page tables the kernel can move.
fn ask_for_thp(huge: &Meta, run: Run, room: usize) {
    if os::want_thp(address(run), room * SEGMENT) {
        set_told(huge, THP);
    }
}

/// Gives the segments behind the first `new` back. Where the system refuses, the block keeps its
/// length.
///
/// # Safety
/// It is a live huge block of `len` segments in a run of `reserve`. Nobody uses the segments behind
/// the first `new` any more.
unsafe fn shrink(meta: &Meta, run: Run, len: usize, reserve: usize, new: usize) {
    if new == len {
        return;
    }
    let tail = (run.0, run.1 + new);
    // SAFETY: the tail belongs to the block, and by the caller's promise nobody uses it any more.
    if unsafe { !purge_run(tail, len - new, false) } {
        // The block keeps its length. Nothing is lost.
        return;
    }
    meta.span.store(new as u32, Relaxed);
    meta.reserve.store(new as u32, Relaxed);
    note_live(new as i64 - len as i64);
    held::give((len - new) * SEGMENT);
    if tried_of(meta, len) != 0 {
        tried::give(len - new);
    }
    // SAFETY: the tail belonged to the huge block, whose length no longer includes it. `purge_run`
    // made its accessible part clean, and the rest was clean (`huge` rule 3).
    unsafe { give_clean(tail, reserve - new, is_plain(meta)) };
}

/// Moves the memory of `len` segments to the beginning of a run of `room` segments: page tables if
/// possible, else bytes. `from` is clean afterwards. False: the memory is unchanged, and nobody may
/// use `to` again. The kernel moves one map at a time. If a run lies in several maps (it tried
/// huge pages in a part, or the program forked), this moves it by halves.
///
/// # Safety
/// The first `len` segments of `from` and the first `room` of `to` are accessible and belong to the
/// caller. The two runs do not overlap, and `room` is at least `len`.
unsafe fn move_memory(from: Run, len: usize, to: Run, room: usize) -> bool {
    let (a, b, bytes) = (address(from), address(to), len * SEGMENT);
    match os::move_pages(a, bytes, b, room * SEGMENT) {
        Moved::Yes => return true,
        Moved::Lost => return false,
        Moved::No => {}
    }
    if len > 1 {
        let half = len / 2;
        // SAFETY: the first halves of runs for which the caller promises the same.
        if unsafe { !move_memory(from, half, to, half) } {
            return false;
        }
        let (rest, rest_to) = ((from.0, from.1 + half), (to.0, to.1 + half));
        // SAFETY: the second halves of runs for which the caller promises the same.
        if unsafe { !move_memory(rest, len - half, rest_to, room - half) } {
            // SAFETY: both halves are accessible, do not overlap, and belong to the caller. The
            // bytes of the first one are in `to` now, and it reads as zero since.
            unsafe { os::copy_to_zeroes(b, a, half * SEGMENT) };
            // Nobody may use the target again, but the caller has this half of it.
            os::purge(b, half * SEGMENT);
            return false;
        }
        return true;
    }
    // SAFETY: both runs are accessible for `bytes` bytes, do not overlap, and belong to the caller.
    // The new one is clean.
    unsafe {
        os::copy_to_zeroes(a, b, bytes);
        if !os::purge(a, bytes) {
            arena::at(a).write_bytes(0, bytes);
        }
    }
    true
}
