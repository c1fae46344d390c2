//! Runs of segments: a claim takes a run and makes it accessible, and later gives it back. Idle
//! runs become inaccessible.

use super::bits::Set;
use super::*;
use crate::backend::nodes::{self, Groups};

/// Unused segments side by side that `decommit_unused` makes inaccessible: 16 MiB or more, so that
/// it makes few maps.
const WORTH_DECOMMITTING: usize = 8;

impl Arena {
    /// The first place for `n` unused segments at a multiple of `align` that begins in one of the
    /// `wanted` groups. In a place that is too small, the search goes on behind the last used
    /// segment of it. It begins where a search of these groups, or of all, for no more than `n`
    /// ended.
    /// O(segments / n), and mostly O(n / 4096). The caller holds the lock.
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(super) fn first_fit(&self, n: usize, align: usize, wanted: Groups) -> Option<usize> {
        let segments = self.segments.load(Relaxed);
        let used = self.bits(Set::Used);
        let phase = self.data.load(Relaxed) / SEGMENT;
        let aligned = |s: usize| (s + phase).next_multiple_of(align) - phase;
        let node = wanted.node();
        let near = node.and_then(|node| self.near.get(node));
        let from = near
            .into_iter()
            .chain([&*self.hints])
            .flatten()
            .filter(|hint| hint.len.load(Relaxed) <= n)
            .map(|hint| hint.from.load(Relaxed))
            .max();
        let mut start = aligned(from.unwrap_or(0));
        let mut known = start;
        let found = loop {
            if start.checked_add(n)? > segments {
                break None;
            }
            let group = wanted.next(start / GROUP);
            if group != start / GROUP {
                start = aligned(group * GROUP);
                continue;
            }
            let Some(last) = used.last_in(start.max(known), start + n) else { break Some(start) };
            known = start + n;
            start = aligned(used.first_out(last + 1));
        };
        if align == 1 {
            let hints = near.unwrap_or(&self.hints);
            let hint = &hints[(n.ilog2() as usize).min(HINTS - 1)];
            hint.len.store(n, Relaxed);
            hint.from.store(start, Relaxed);
        }
        found
    }

    pub(super) fn is_unused(&self, first: usize, n: usize) -> bool {
        first + n <= self.segments.load(Relaxed)
            && self.bits(Set::Used).first_in(first, first + n).is_none()
    }

    /// Marks `n` segments from `first` on as used. Does not touch their memory. The caller holds
    /// the lock.
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(super) fn mark_used(&self, first: usize, n: usize) -> bool {
        if !self.make_ready((first + n - 1) / GROUP + 1) {
            return false;
        }
        self.bits(Set::Used).insert(first, n);
        true
    }

    /// Makes those of the first `len` segments from `first` on accessible that are not. The caller
    /// owns them, and does not hold the lock, so no thread waits while the system is asked.
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(super) fn commit(&self, first: usize, len: usize) -> bool {
        let end = first + len;
        let mut done = (first, first);
        // Of all of it: the system would not see what is accessible already.
        if !os::may_have(len * SEGMENT) {
            REFUSED.store(true, Relaxed);
            return false;
        }
        loop {
            let (from, to) = {
                let _held = LOCK.lock();
                let committed = self.bits(Set::Committed);
                let is_first = || committed.first_in(0, committed.end()).is_none();
                if !self.is_left_out.load(Relaxed) && !os::is_filtered() && !is_first() {
                    self.leave_rest_out_of_dumps();
                }
                if done.0 < done.1 {
                    committed.insert(done.0, done.1 - done.0);
                }
                let from = committed.first_out(done.1);
                (from, committed.first_in(from, end).unwrap_or(end))
            };
            if from >= end {
                return true;
            }
            let (at, len) = (self.slot_address(from * (SEGMENT / SLOT)), (to - from) * SEGMENT);
            let is_done = os::commit(at, len) || self.make_room_for_maps() && os::commit(at, len);
            if !is_done {
                REFUSED.store(true, Relaxed);
                return false;
            }
            tell_choice(at, len);
            COMMITTED.fetch_add((to - from) * SEGMENT, Relaxed);
            done = (from, to);
        }
    }

    /// Up to `most` segments behind `first` that are neither used nor accessible and lie in its
    /// group. 0 if `first` is accessible. The caller holds the lock.
    fn to_commit(&self, first: usize, most: usize) -> usize {
        let (used, committed) = (self.bits(Set::Used), self.bits(Set::Committed));
        let group_end = (first / GROUP + 1) * GROUP;
        let end = (first + 1 + most).min(group_end).min(self.segments.load(Relaxed));
        let free_end = used.first_in(first + 1, end).unwrap_or(end);
        committed.first_in(first, free_end).unwrap_or(free_end).saturating_sub(first + 1)
    }

    /// Marks `n` segments from `first` on as unused. The caller holds the lock.
    pub(super) fn unmark(&self, first: usize, n: usize) {
        self.bits(Set::Used).remove(first, n);
        let near = if nodes::are_several() { &self.near[..] } else { &[] };
        for hint in near.iter().chain([&*self.hints]).flatten() {
            // Any place for `len` segments that was not there before contains one of these
            // segments.
            hint.from.fetch_min(first.saturating_sub(hint.len.load(Relaxed)), Relaxed);
        }
    }

    /// The first run from `from` on of at least `least` segments that are accessible and not used.
    fn idle_run(&self, from: usize, least: usize) -> Option<(usize, usize)> {
        let (used, committed) = (self.bits(Set::Used), self.bits(Set::Committed));
        let end = self.segments.load(Relaxed);
        let mut at = from;
        loop {
            let first = used.first_out(committed.first_in(at, end)?);
            let Some(begin) = committed.first_in(first, end).filter(|&begin| begin == first) else {
                at = first;
                continue;
            };
            let behind = committed.first_out(begin).min(end);
            let behind = used.first_in(begin, behind).unwrap_or(behind);
            if behind - begin >= least {
                return Some((begin, behind - begin));
            }
            at = behind;
        }
    }

    /// Makes owned segments inaccessible and clean. False: the system refuses, and the memory is as
    /// before.
    ///
    /// The set of committed segments loses them first (rule 8). If the system refuses, it may never
    /// allow a commit either: the program has sealed the memory of a block (mseal). So the set gets
    /// them back, if they were the first ones of the run. Not where the program, or a call that
    /// failed half-way, has left a gap among them: that is not accessible. Of other segments the
    /// next owner commits once more, which changes nothing where nobody sealed anything.
    fn decommit(&self, first: usize, n: usize) -> bool {
        let (had, is_first) = {
            let _held = LOCK.lock();
            let committed = self.bits(Set::Committed);
            let had = committed.count(first, first + n);
            let is_first = committed.count(first, first + had) == had;
            COMMITTED.fetch_sub(had * SEGMENT, Relaxed);
            committed.remove(first, n);
            (had, is_first)
        };
        let at = self.slot_address(first * (SEGMENT / SLOT));
        let is_done = os::decommit(at, n * SEGMENT);
        if !is_done && had > 0 && is_first && os::is_mapped(at, had * SEGMENT) {
            let _held = LOCK.lock();
            self.bits(Set::Committed).insert(first, had);
            COMMITTED.fetch_add(had * SEGMENT, Relaxed);
        }
        is_done
    }

    /// Makes runs of at least `least` unused segments inaccessible, so that the system does not
    /// charge them to the process. O(groups in use + runs).
    fn decommit_unused(&self, least: usize) {
        let mut at = 0;
        loop {
            let (first, n) = {
                let _held = LOCK.lock();
                let Some((first, n)) = self.idle_run(at, least) else { return };
                // This thread owns them meanwhile, so nobody else takes them (rule 3).
                self.bits(Set::Used).insert(first, n);
                (first, n)
            };
            self.decommit(first, n);
            let _held = LOCK.lock();
            self.unmark(first, n);
            at = first + n;
        }
    }
}

/// A run of segments: its arena, and its first segment.
pub type Run = (&'static Arena, usize);

/// Takes `n` clean segments at a multiple of `align` segments, and makes the first `commit` of them
/// accessible. In `wanted` groups, or anywhere if these have no room. None: the system has no more
/// to give. O(arenas), and the search.
pub fn take_run(n: usize, align: usize, commit: usize, wanted: Groups) -> Option<Run> {
    let run = take_run_in(n, align, commit, wanted);
    if run.is_none() && wanted != Groups::ALL {
        return take_run_in(n, align, commit, Groups::ALL);
    }
    run
}

#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
fn take_run_in(n: usize, align: usize, commit: usize, wanted: Groups) -> Option<Run> {
    let run = find_run(n, align, wanted)?;
    if !run.0.commit(run.1, commit) {
        // SAFETY: this thread has just taken the run, so it owns it, and nobody has touched it: it
        // is clean.
        unsafe { give_run(run, n) };
        return None;
    }
    Some(run)
}

/// One in so many of the committed segments is committed in advance …
const AHEAD: usize = 8;
/// … but no more than so many: 32 MiB.
const MOST_AHEAD: usize = 16;

/// [`take_run`] for one segment, in `wanted` groups alone. Where the process grows, this makes some
/// segments behind accessible too, for later calls: each change of the map of a process stalls the
/// page faults of all its threads. If the system refuses, the one segment has to do.
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn take_segment(wanted: Groups) -> Option<Run> {
    let (run, ahead) = find_segment(wanted)?;
    let (arena, first) = run;
    let mut is_committed = arena.commit(first, 1 + ahead);
    if ahead > 0 {
        is_committed = is_committed || arena.commit(first, 1);
        let _held = LOCK.lock();
        arena.unmark(first + 1, ahead);
    }
    if !is_committed {
        // SAFETY: this thread has just taken the run, so it owns it, and nobody has touched it: it
        // is clean.
        unsafe { give_run(run, 1) };
        return None;
    }
    Some(run)
}

/// Finds a segment, and how many segments behind it are to be made accessible with it. The caller
/// owns these too, until it unmarks them (rule 8).
#[inline(always)]
fn find_segment(wanted: Groups) -> Option<(Run, usize)> {
    let held = LOCK.lock();
    let run = find_run_held(1, 1, wanted)?;
    let (arena, first) = run;
    let ahead = (COMMITTED.load(Relaxed) / SEGMENT / AHEAD).min(MOST_AHEAD);
    if ahead == 0 {
        return Some((run, 0));
    }
    let ahead = arena.to_commit(first, ahead);
    if ahead > 0 {
        arena.bits(Set::Used).insert(first + 1, ahead);
    }
    drop(held);
    Some((run, ahead))
}

#[inline(always)]
fn find_run(n: usize, align: usize, wanted: Groups) -> Option<Run> {
    let _held = LOCK.lock();
    find_run_held(n, align, wanted)
}

/// [`find_run`] for a caller that holds the lock.
#[inline(always)]
fn find_run_held(n: usize, align: usize, wanted: Groups) -> Option<Run> {
    let mut found = all().find_map(|a| Some((a, a.first_fit(n, align, wanted)?)));
    // Before there is a further arena, the other groups of those that there are have their turn.
    if found.is_none() && (wanted == Groups::ALL || COUNT.load(Relaxed) == 0) {
        let arena = chain(n.checked_add(align)?)?;
        found = Some((arena, arena.first_fit(n, align, wanted)?));
    }
    found.filter(|&(arena, first)| arena.mark_used(first, n))
}

/// Takes the `more` segments behind the run of `n` segments too, if they are unused. O(more /
/// 4096).
pub fn extend_run(run: Run, n: usize, more: usize) -> bool {
    let (arena, first) = run;
    let _held = LOCK.lock();
    arena.is_unused(first + n, more) && arena.mark_used(first + n, more)
}

/// Tells the kernel the option's choice about huge pages for fresh memory. Tells nothing if the
/// choice is the system's.
fn tell_choice(at: usize, len: usize) {
    match policy::Thp::now() {
        policy::Thp::Auto => {}
        policy::Thp::Never => _ = os::refuse_thp(at, len),
        policy::Thp::Always => _ = os::want_thp(at, len),
    }
}

/// Maps `n` segments of an owned run afresh, as the arena was reserved: clean and inaccessible, and
/// the kernel was told nothing about them. False: the memory is unchanged. O(n / 4096).
///
/// # Safety
/// The caller owns the segments, and nobody uses what is in them any more.
pub unsafe fn decommit_run(run: Run, n: usize) -> bool {
    run.0.decommit(run.1, n)
}

/// Makes `n` segments of an owned run accessible. O(n / 4096).
pub fn commit_run(run: Run, n: usize) -> bool {
    run.0.commit(run.1, n)
}

/// Gives clean segments back (rule 9).
///
/// # Safety
/// The caller owns the run, and uses it no more. All of it is clean.
pub unsafe fn give_run(run: Run, n: usize) {
    {
        let _held = LOCK.lock();
        run.0.unmark(run.1, n);
    }
    // Release, and after `unmark`: a thread that sees `GIVEN` set finds the run unused.
    if !GIVEN.load(Relaxed) {
        GIVEN.store(true, Release);
    }
}

/// True if a thread gave runs back since `decommit_unused` last checked.
#[unsafe(link_section = ".data.hakmem")]
static GIVEN: AtomicBool = AtomicBool::new(false);

/// Makes unused segments inaccessible where many lie side by side. O(groups in use), or O(1) if no
/// thread gave a run back since the last time.
pub fn decommit_unused() {
    if GIVEN.load(Relaxed) && GIVEN.swap(false, Acquire) {
        all().for_each(|arena| arena.decommit_unused(WORTH_DECOMMITTING));
    }
}

/// True if the system refused to make memory accessible since `decommit_after_refusal` last
/// checked.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Makes all unused segments inaccessible if the system has refused memory. It may charge the
/// process for them (`vm.overcommit_memory=2`, RLIMIT_DATA). False: it has not refused any.
/// O(groups in use + runs).
pub fn decommit_after_refusal() -> bool {
    let is_refused = REFUSED.swap(false, Relaxed);
    if is_refused {
        all().for_each(|arena| arena.decommit_unused(1));
    }
    is_refused
}

/// Adds an arena with room for `n` segments. The caller holds the lock.
#[unsafe(link_section = ".text.hot.hakmem")]
pub(super) fn chain(n: usize) -> Option<&'static Arena> {
    let count = COUNT.load(Relaxed);
    let arena = ARENAS.get(usize::from(count))?;
    let least = n.checked_mul(SEGMENT)?;
    if least > space::LARGEST || !arena.reserve(least) {
        return None;
    }
    // Not if the first arena is a scrap (rule 5).
    if count == 0 {
        let bytes = arena.segments.load(Relaxed) * SEGMENT;
        HOT.set(arena.metas.load(Relaxed), arena.data.load(Relaxed), bytes);
    }
    COUNT.store(count + 1, Release);
    Some(arena)
}
