//! The cache of runs that were freed lately. The best fit serves a request, and the oldest run goes
//! back to the system first.
//!
//! Each node of memory has a part of the cache, with a lock of its own. A run goes to the part of
//! the node that its first group is of, and serves threads of that node (`backend::nodes`). What a
//! request leaves of a run stays in the part, wherever it begins. The bound is for all parts
//! together.
//!
//! Rules
//! 1. The entries of a part change under its lock only. A cached run is dirty, accessible, and
//!    belongs to the cache. A run that left the cache belongs to the thread that took it out.
//! 2. `CACHED` is the bytes of the entries and of what heaps may keep (`kept`). It changes without
//!    a lock, so it may differ for a moment.
//! 3. No thread takes the lock of a second part while it has one.

use super::thp::tried_of;
use super::{address, head_of, is_moved, kept, run_of};
use crate::backend::arena::{self, Run, SEGMENT};
use crate::backend::held;
use crate::backend::lately::Lately;
use crate::backend::nodes;
use crate::backend::page::{Meta, THP, TRIED, UNTOLD};
use crate::backend::tried;
use crate::base::renew::Renew;
use crate::base::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::base::usage;
use crate::os;
use crate::policy;
use crate::proto::lock::Lock;
use core::cell::UnsafeCell;
use crossbeam_utils::CachePadded;

pub(super) const RING: usize = 16;

/// Yes or no, as a byte that may have any value. So an absent entry is all zero bytes, and those of
/// the further parts take no room in the executable.
#[derive(Clone, Copy)]
pub(super) struct Flag(u8);

impl From<bool> for Flag {
    fn from(is_set: bool) -> Self {
        Self(is_set.into())
    }
}

impl Flag {
    pub(super) fn is_set(self) -> bool {
        self.0 != 0
    }
}

#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) run: Run,
    pub(super) len: usize,
    pub(super) stamp: u32,
    /// Set for a moved run (`huge` rule 4).
    pub(super) moved: Flag,
    /// Set if hakmem asked for huge pages in some of it.
    pub(super) thp: Flag,
    /// How many segments of it the count of `tried` has.
    pub(super) tried: usize,
}

impl Entry {
    /// Of the run of a freed block, which has `len` segments and was freed at `stamp`.
    pub(super) fn of(meta: &Meta, len: usize, stamp: u32) -> Self {
        Self {
            run: run_of(meta),
            len,
            stamp,
            moved: is_moved(meta).into(),
            thp: meta.segment().is_thp().into(),
            tried: tried_of(meta, len),
        }
    }

    /// The first `len` segments, and what is left. What was tried counts as the rest's, unless all
    /// of the first part was.
    fn split(self, len: usize) -> (Self, Option<Self>) {
        if len >= self.len {
            return (self, None);
        }
        let tried = if self.tried >= len { len } else { 0 };
        let run = (self.run.0, self.run.1 + len);
        let rest = Self { run, len: self.len - len, tried: self.tried - tried, ..self };
        (Self { len, tried, ..self }, Some(rest))
    }

    /// What a huge block of the run says that the kernel was told.
    pub(super) fn told(&self) -> u8 {
        match (self.thp.is_set(), self.tried == self.len) {
            (false, _) => UNTOLD,
            (true, false) => THP,
            (true, true) => TRIED,
        }
    }
}

type Entries = [Option<Entry>; RING];

struct Part(UnsafeCell<Entries>);
// SAFETY: only `with_part` and `after_fork` use the entries, and both hold the lock of the part
// (rule 1).
unsafe impl Sync for Part {}

/// A thread holds it for every use of the part of node 0.
#[unsafe(link_section = ".data.hakmem")]
pub static LOCK: Lock = Lock::new();
static PART: Part = Part(UnsafeCell::new([None; RING]));
/// The other parts. A machine of one node never touches them.
static FURTHER: [CachePadded<(Lock, Part)>; nodes::MOST - 1] =
    [const { CachePadded::new((Lock::new(), Part(UnsafeCell::new([None; RING])))) };
        nodes::MOST - 1];
/// The most live bytes of huge blocks lately.
static LIVE: Lately = Lately::new();
/// The most live bytes of all blocks lately, when a huge block was freed.
static ALL_LIVE: Lately = Lately::new();
/// When the cache last was too full, and nothing could be given back, in coarse milliseconds. 0:
/// never.
static STUCK: AtomicU32 = AtomicU32::new(0);
/// After such a time [`keep_bound`] does nothing for so many milliseconds.
const REST_MS: u32 = 50;
#[unsafe(link_section = ".data.hakmem")]
pub static CACHED: AtomicUsize = AtomicUsize::new(0);
pub static HANDED: AtomicU64 = AtomicU64::new(0);
#[unsafe(link_section = ".data.hakmem")]
pub static RETURNED: AtomicU64 = AtomicU64::new(0);
pub static HITS: AtomicU64 = AtomicU64::new(0);

/// Allocations, frees and allocations served from the cache so far.
pub fn counts() -> (u64, u64, u64) {
    (HANDED.load(Relaxed), RETURNED.load(Relaxed), HITS.load(Relaxed))
}

/// Counts anew. For the child of a fork: another thread may have been between a change of the cache
/// and its count. If this thread was there, because its signal handler forked, the count stays too
/// low by what the thread takes or puts. `allowed` is what heaps may keep.
pub fn after_fork(allowed: i64) {
    let allowed = allowed as usize;
    let before = kept::ALLOWED.load(Relaxed);
    kept::ALLOWED.renew(allowed);
    CACHED.renew(CACHED.load(Relaxed).wrapping_add(allowed.wrapping_sub(before)));
    for counter in [&HANDED, &RETURNED, &HITS] {
        counter.renew(0);
    }
    let mut bytes = allowed;
    for (lock, part) in (0..nodes::count()).map(part) {
        // If the lock is not free, this thread's signal handler has interrupted it under the lock.
        let Some(_held) = lock.try_lock() else { return };
        // SAFETY: this thread holds the lock (rule 1), so nobody changes the entries.
        let entries = unsafe { &*part.0.get() };
        let cached = entries.iter().flatten().map(|e| e.len * SEGMENT).sum();
        bytes = bytes.wrapping_add(cached); // `allowed` may be below zero.
    }
    CACHED.renew(bytes);
}

/// Empties the part of a node. For the child of a fork in the middle of a change. Nobody ever uses
/// the cached runs again.
pub fn forget_part(node: usize) {
    let lost = with_part(node, |entries| core::mem::replace(entries, [None; RING]));
    tried::give(lost.iter().flatten().map(|entry| entry.tried).sum());
    CACHED.fetch_sub(lost.iter().flatten().map(|entry| entry.len * SEGMENT).sum(), Relaxed);
}

/// The part of a node, and its lock.
#[inline(always)]
fn part(node: usize) -> (&'static Lock, &'static Part) {
    match FURTHER.get(node.wrapping_sub(1)) {
        Some(further) => (&further.0, &further.1),
        None => (&LOCK, &PART),
    }
}

/// The locks of the parts of all nodes but the first. None if there is one node.
pub fn further_locks() -> impl Iterator<Item = &'static Lock> {
    (1..nodes::count()).map(|node| part(node).0)
}

/// Bytes in the cache.
pub fn cached_bytes() -> usize {
    signed_cached_bytes().max(0).cast_unsigned()
}

/// [`cached_bytes`]. Below zero: in the child of a fork, `after_fork` counted this thread's change
/// before the thread did. Or two threads gave the same part of the bound up (`kept` rule 4).
#[inline(always)]
pub fn signed_cached_bytes() -> isize {
    CACHED.load(Relaxed).cast_signed()
}

/// False: only heaps have cached runs (`kept`). A hint, as both counts change without a lock.
fn has_entries() -> bool {
    signed_cached_bytes() > kept::ALLOWED.load(Relaxed).cast_signed()
}

/// Runs `f` on the part of a node under its lock.
#[inline(always)]
pub(super) fn with_part<R>(node: usize, f: impl FnOnce(&mut Entries) -> R) -> R {
    let (lock, part) = part(node);
    let _held = lock.lock();
    // SAFETY: this thread holds the lock (rule 1). `f` gets only the entries, and no `f` here uses
    // the cache in another way, so this is the only reference.
    f(unsafe { &mut *part.0.get() })
}

/// Takes the smallest cached run of a node that fits. What the request does not need stays in the
/// cache, with the count of what was tried, unless all of the request was tried. Err: none fits,
/// and the node's part has so many segments in all.
pub(super) fn take_cached(len: usize, align: usize, node: usize) -> Result<Entry, usize> {
    if !has_entries() {
        return Err(0);
    }
    let taken = with_part(node, |entries| {
        let fits = |e: &Entry| e.len >= len && address(e.run).is_multiple_of(align);
        let best = entries.iter_mut().filter(|slot| slot.as_ref().is_some_and(fits));
        let best = best.min_by_key(|slot| slot.as_ref().map_or(usize::MAX, |e| e.len));
        let Some((best, entry)) = best.and_then(|slot| slot.take().map(|entry| (slot, entry)))
        else {
            return Err(entries.iter().flatten().map(|e| e.len).sum::<usize>());
        };
        let (taken, rest) = entry.split(len);
        *best = rest;
        Ok(taken)
    })?;
    CACHED.fetch_sub(len * SEGMENT, Relaxed);
    HITS.fetch_add(1, Relaxed);
    Ok(taken)
}

/// Takes the longest run of a node that has less than `len` segments, lies at a multiple of `align`
/// and was not moved. The caller extends it, or puts it back. A run that tries huge pages is for a
/// block that the program is likely to fill, or for one that may try them as a whole.
pub(super) fn take_longest(
    len: usize,
    align: usize,
    node: usize,
    is_filled: bool,
) -> Option<Entry> {
    let taken = with_part(node, |entries| {
        let may = |e: &Entry| {
            let may_try = || {
                is_filled || e.tried == 0 || tried::WRITTEN.has_room(len.saturating_sub(e.tried))
            };
            let is_native = !e.moved.is_set() && address(e.run).is_multiple_of(align);
            e.len < len && is_native && may_try()
        };
        let may = entries.iter_mut().filter(|slot| slot.as_ref().is_some_and(may));
        may.max_by_key(|slot| slot.as_ref().map_or(0, |e| e.len))?.take()
    })?;
    CACHED.fetch_sub(taken.len * SEGMENT, Relaxed);
    Some(taken)
}

/// Takes what a block of the node that ends at `end` needs to grow by `more` segments: the run of
/// the cache that begins there, or the first segments of it. None: there is no such run, it was
/// moved, or it has huge pages and the block has not (`has_thp`).
pub(super) fn take_behind(end: Run, more: usize, node: usize, has_thp: bool) -> Option<Entry> {
    if !has_entries() {
        return None;
    }
    let taken = with_part(node, |entries| {
        let fits = |e: &Entry| {
            let begins_there = core::ptr::eq(e.run.0, end.0) && e.run.1 == end.1;
            begins_there && !e.moved.is_set() && (has_thp || !e.thp.is_set())
        };
        let found = entries.iter_mut().find(|slot| slot.as_ref().is_some_and(fits))?;
        let (taken, rest) = found.take()?.split(more);
        *found = rest;
        Some(taken)
    })?;
    CACHED.fetch_sub(taken.len * SEGMENT, Relaxed);
    Some(taken)
}

/// Puts a run back that [`take_longest`] or [`take_behind`] took, as old as it was.
#[cold]
#[inline(never)]
pub(super) fn put_back(entry: Entry) {
    CACHED.fetch_add(entry.len * SEGMENT, Relaxed);
    insert(entry, os::now_ms());
}

/// Puts a run into the cache, whose bytes `CACHED` has already, and lets others go that have no
/// room. `OF_HEAP`: a heap kept it before. Two functions, so that the other one is part of `free`.
#[inline(always)]
pub(super) fn put_entry<const OF_HEAP: bool>(entry: Entry, now: u32) {
    // What a heap kept was freed before.
    let freed = if OF_HEAP { 0 } else { entry.len * SEGMENT };
    let decay = policy::limits::decay();
    LIVE.note(live() + freed, now, decay);
    ALL_LIVE.note(all_live() + freed, now, decay);
    insert(entry, now);
}

/// Puts a run into the cache, and lets others go that have no room.
#[inline(always)]
fn insert(entry: Entry, now: u32) {
    if entry.len * SEGMENT > limit() {
        // A part of it would not serve the next request of its size.
        drop_entry(entry);
        return;
    }
    let (run, len, node) = (entry.run, entry.len, nodes::of(head_of(entry.run)));
    let crowded = with_part(node, |entries| {
        // Runs side by side become one, so that larger requests find them.
        let joins = |e: &Entry| !(entry.moved.is_set() || e.moved.is_set());
        let before =
            |e: &Entry| joins(e) && core::ptr::eq(e.run.0, run.0) && e.run.1 + e.len == run.1;
        let after = |e: &Entry| joins(e) && core::ptr::eq(e.run.0, run.0) && run.1 + len == e.run.1;
        // Its age is the mean of theirs. Otherwise a small run that comes and goes would keep a
        // large one young.
        let mut joined = entry;
        let mut age = os::age(now, entry.stamp) as usize * len;
        for slot in entries.iter_mut() {
            if let Some(e) = slot.take_if(|e| before(e) || after(e)) {
                joined.run.1 = joined.run.1.min(e.run.1);
                joined.len += e.len;
                joined.thp.0 |= e.thp.0;
                joined.tried += e.tried;
                age += os::age(now, e.stamp) as usize * e.len;
            }
        }
        joined.stamp = now.wrapping_sub((age / joined.len) as u32);
        let victim = match entries.iter().position(Option::is_none) {
            Some(free) => free,
            None => oldest(entries, now)?,
        };
        entries[victim].replace(joined)
    });
    if let Some(entry) = crowded {
        drop_entry(entry);
    }
    give_excess(now);
}

/// Gives back what the cache has beyond its bound, the oldest first.
pub(super) fn give_excess(now: u32) {
    // If the system does not take a run (locked memory), `drop_entry` puts it in again, and the
    // cache stays too full.
    loop {
        let excess = cached_bytes().saturating_sub(limit());
        if excess == 0 || !has_entries() {
            break;
        }
        let node = if nodes::are_several() { node_of_oldest(now) } else { 0 };
        let first = |part: &mut Entries| {
            let i = oldest(part, now)?;
            let (first, rest) = part[i].take()?.split(excess.div_ceil(SEGMENT));
            part[i] = rest;
            Some(first)
        };
        if with_part(node, first).map_or(0, drop_entry) == 0 {
            STUCK.store(now.max(1), Relaxed);
            break;
        }
    }
}

/// The node whose part has the oldest entry of all.
#[cold]
fn node_of_oldest(now: u32) -> usize {
    let age = |node: &usize| {
        with_part(*node, |part| Some(os::age(now, part[oldest(part, now)?].as_ref()?.stamp)))
    };
    (0..nodes::count()).max_by_key(age).unwrap_or(0)
}

/// Bytes that the cache may hold. They grow with what is live, and with what was freed lately: a
/// program that frees all its blocks at once often needs them again at once. If it does not, only
/// the scavenger gives them back in time, so a process without one keeps less. What smaller blocks
/// have taken since counts as needed there.
pub(super) fn limit() -> usize {
    let anyway = (policy::HUGE_CACHE_MIB.get() as usize) << 20;
    let live = live();
    let has_scavenger = policy::SCAVENGE_MIB.get() != 0;
    let fall = LIVE.get().saturating_sub(live).min(ALL_LIVE.get().saturating_sub(all_live()));
    let freed_lately = if has_scavenger { fall } else { 0 };
    let share = live.max(freed_lately);
    anyway.max(share * policy::HUGE_CACHE_PERCENT.get() as usize / 100)
}

/// True if the cache is beyond its bound. Cheap while it has no more than it may have in any case.
#[inline]
pub fn is_beyond_bound() -> bool {
    cached_bytes() > (policy::HUGE_CACHE_MIB.get() as usize) << 20 && is_far_beyond()
}

/// Beyond by a segment: what goes back is whole segments. Not if nothing could be given back a
/// moment ago: the program may have locked its memory.
#[cold]
#[inline(never)]
fn is_far_beyond() -> bool {
    let since = STUCK.load(Relaxed);
    has_entries()
        && cached_bytes() >= limit() + SEGMENT
        && (since == 0 || os::age(os::now_ms(), since) >= REST_MS)
}

/// Gives back what the cache has beyond its bound because smaller blocks were allocated. The caller
/// holds the lock of passes: several threads would give back as much each.
pub fn keep_bound() {
    if is_beyond_bound() {
        give_excess(os::now_ms());
    }
}

/// Live bytes of huge blocks.
fn live() -> usize {
    (usage::huge() as usize).saturating_sub(kept())
}

/// Live bytes of all blocks.
fn all_live() -> usize {
    (usage::live().0 as usize).saturating_sub(kept())
}

/// What heaps keep counts as live in the books. They may keep so many bytes at most.
fn kept() -> usize {
    kept::ALLOWED.load(Relaxed).cast_signed().max(0).cast_unsigned()
}

pub(super) fn oldest(entries: &Entries, now: u32) -> Option<usize> {
    let age = |i: &usize| entries[*i].as_ref().map(|e| os::age(now, e.stamp));
    (0..RING).filter(|&i| entries[i].is_some()).max_by_key(age)
}

/// Gives a run that left the cache back to the system. Returns the bytes.
pub(super) fn drop_entry(entry: Entry) -> usize {
    let bytes = entry.len * SEGMENT;
    // SAFETY: the run left the cache, so it belongs to this thread. The block that lay there was
    // freed.
    if unsafe { purge_run(entry.run, entry.len, entry.moved.is_set() || entry.thp.is_set()) } {
        CACHED.fetch_sub(bytes, Relaxed);
        tried::give(entry.tried);
        held::give(bytes);
        // SAFETY: the run left the cache, so it belongs to this thread, and `purge_run` made it
        // clean.
        unsafe { arena::give_run(entry.run, entry.len) };
        return bytes;
    }
    // The memory is locked, or the system has no room for another map. The cache keeps the run, and
    // a later pass tries again.
    let entry = Entry { stamp: os::now_ms(), ..entry };
    let homeless = with_part(nodes::of(head_of(entry.run)), |entries| {
        match entries.iter().position(Option::is_none) {
            Some(free) => entries[free].replace(entry),
            None => Some(entry),
        }
    });
    if let Some(entry) = homeless {
        // The cache has no free entry. So clear the memory by hand, and the run can go back clean.
        CACHED.fetch_sub(bytes, Relaxed);
        tried::give(entry.tried);
        held::give(bytes);
        // SAFETY: a cached run is accessible (rule 1). It left the cache, so it belongs to this
        // thread, which has just made it zero and uses it no more.
        unsafe {
            arena::at(address(entry.run)).write_bytes(0, bytes);
            arena::give_run(entry.run, entry.len);
        }
    }
    0
}

/// Makes `len` segments of the caller's clean. With `anew` it maps them afresh: for a run that was
/// moved (`huge` rule 4), or of which the kernel was told something.
///
/// # Safety
/// The caller owns the segments, and nobody uses what is in them any more.
pub(super) unsafe fn purge_run(run: Run, len: usize, anew: bool) -> bool {
    // SAFETY: by the caller's promise the segments are the caller's, and their contents are unused.
    anew && unsafe { arena::decommit_run(run, len) } || os::purge(address(run), len * SEGMENT)
}

/// Gives cached runs that were freed at least `decay` ms before `now` back to the system, while
/// `goes_on`. Returns the bytes.
pub fn purge(now: u32, decay: u32, goes_on: impl Fn() -> bool) -> usize {
    let mut given = 0;
    let due = |e: &Entry| os::age(now, e.stamp) >= decay;
    // One round only: a run that the system does not take goes into the cache again.
    for i in (0..RING * nodes::count()).take_while(|_| goes_on()) {
        let entry = with_part(i / RING, |entries| entries[i % RING].take_if(|e| due(e)));
        given += entry.map_or(0, drop_entry);
    }
    given
}
