//! Runs of segments: taken, made accessible, and given back.

use super::*;

impl Arena {
    /// First fit for `n` unused segments at a multiple of `align`. O(groups used + n).
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(super) fn first_fit(&self, n: usize, align: usize) -> Option<usize> {
        let segments = self.segments.load(Relaxed);
        let groups = self.groups();
        let phase = self.data.load(Relaxed) / SEGMENT;
        let aligned = |s: usize| (s + phase).next_multiple_of(align) - phase;
        let mut start = aligned(self.first_free.load(Relaxed) * GROUP);
        'from: while start.checked_add(n)? <= segments {
            let mut s = start;
            while s < start + n {
                // Beyond the groups in use everything is unused.
                let Some(group) = groups.get(s / GROUP) else { return Some(start) };
                let used = group.used.load(Relaxed) >> (s % GROUP);
                if used == 0 {
                    s = (s / GROUP + 1) * GROUP;
                } else if used.trailing_zeros() > 0 {
                    s += used.trailing_zeros() as usize;
                    if s < start + n {
                        start = aligned(s + 1);
                        continue 'from;
                    }
                } else {
                    start = aligned(s + used.trailing_ones() as usize);
                    continue 'from;
                }
            }
            return Some(start);
        }
        None
    }

    pub(super) fn is_unused(&self, first: usize, n: usize) -> bool {
        let groups = self.groups();
        first + n <= self.segments.load(Relaxed)
            && (first..first + n)
                .all(|s| groups.get(s / GROUP).is_none_or(|g| g.used.load(Relaxed) >> (s % GROUP) & 1 == 0))
    }

    /// Marks `n` segments from `first` used; their memory is not touched. Under the lock.
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(super) fn mark_used(&self, first: usize, n: usize) -> bool {
        if !self.make_ready((first + n - 1) / GROUP + 1) {
            return false;
        }
        for s in first..first + n {
            let (group, bit) = self.group_of(s);
            group.used.fetch_or(bit, Relaxed);
        }
        let full = self.groups().iter().skip(self.first_free.load(Relaxed));
        let full = full.take_while(|g| g.used.load(Relaxed) == u64::MAX).count();
        self.first_free.fetch_add(full, Relaxed);
        true
    }

    /// Makes the first `len` segments from `first` accessible, those that are not yet. Under the lock or by the owner.
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(super) fn commit(&self, first: usize, len: usize) -> bool {
        let is = |s: usize| {
            let (group, bit) = self.group_of(s);
            group.committed.load(Relaxed) & bit != 0
        };
        let mut s = first;
        while s < first + len {
            if is(s) {
                s += 1;
                continue;
            }
            let end = (s..first + len).find(|&e| is(e)).unwrap_or(first + len);
            if !os::commit(self.page_address(s * (SEGMENT / PAGE)), (end - s) * SEGMENT) {
                return false;
            }
            COMMITTED.fetch_add((end - s) * SEGMENT, Relaxed);
            for done in s..end {
                let (group, bit) = self.group_of(done);
                group.committed.fetch_or(bit, Relaxed);
            }
            s = end;
        }
        true
    }

    pub(super) fn unmark(&self, first: usize, n: usize) {
        for s in first..first + n {
            let (group, bit) = self.group_of(s);
            group.used.fetch_and(!bit, Relaxed);
        }
        self.first_free.fetch_min(first / GROUP, Relaxed);
    }
}

/// A run of segments: arena, first segment.
pub type Run = (&'static Arena, usize);

/// Takes `n` clean segments at a multiple of `align` segments, the first `commit` of them accessible. None if the
/// system has no more to give. O(groups + n).
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn take_run(n: usize, align: usize, commit: usize) -> Option<Run> {
    let _held = LOCK.lock();
    let mut found = all().find_map(|a| Some((a, a.first_fit(n, align)?)));
    if found.is_none() {
        let arena = chain(n.checked_add(align)?)?;
        found = Some((arena, arena.first_fit(n, align)?));
    }
    let (arena, first) = found?;
    if !arena.mark_used(first, n) {
        return None;
    }
    if !arena.commit(first, commit) {
        arena.unmark(first, n);
        return None;
    }
    Some((arena, first))
}

/// Takes the `more` segments behind the run of `n` at `first` too, if they are free. O(more).
pub fn extend_run(run: Run, n: usize, more: usize) -> bool {
    let (arena, first) = run;
    let _held = LOCK.lock();
    arena.is_unused(first + n, more) && arena.mark_used(first + n, more)
}

/// Makes `n` segments of an owned run accessible. O(n).
pub fn commit_run(run: Run, n: usize) -> bool {
    let _held = LOCK.lock();
    run.0.commit(run.1, n)
}

/// Gives clean segments back (rule 3).
///
/// # Safety
/// The caller owns the run, and all of it is clean.
pub unsafe fn give_run(run: Run, n: usize) {
    let _held = LOCK.lock();
    run.0.unmark(run.1, n);
}

/// Adds an arena with room for `n` segments. Under the lock.
pub(super) fn chain(n: usize) -> Option<&'static Arena> {
    let count = COUNT.load(Relaxed);
    let arena = ARENAS.get(usize::from(count))?;
    let least = n.checked_mul(SEGMENT)?;
    if least > space::LARGEST || !arena.reserve(least) {
        return None;
    }
    if count == 0 {
        let bytes = arena.segments.load(Relaxed) * SEGMENT;
        HOT.set(arena.metas.load(Relaxed), arena.data.load(Relaxed), bytes);
    }
    COUNT.store(count + 1, Release);
    Some(arena)
}
