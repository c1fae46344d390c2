//! Huge blocks, more than 1 MiB: runs of whole segments, and a cache of runs that were freed
//! recently.
//!
//! A freed run stays in the cache with its memory until its decay is over, as faulting memory in
//! again costs ten times what keeping it does. The best fit serves a request, and what is left of
//! it stays in the cache. A block that grows again and again gets address space behind it, which
//! costs nothing until it is used. Where there is none, the kernel moves the block's page tables,
//! not its bytes. In a program of many heaps, each heap keeps some freed blocks itself (`kept`).
//!
//! Rules
//! 1. The entries of the cache change under `LOCK` only. A cached run is dirty, accessible, and
//!    belongs to the cache.
//! 2. The metadata of a live huge block's first slot belongs to the owner of the block. Every other
//!    slot of the run says `Kind::Free`.
//! 3. Of a run of `reserve` segments, the first `span` are accessible and may be dirty. The rest is
//!    clean.
//! 4. A run is *native* or *moved*. A native run consists of the maps that hakmem reserved as the
//!    arena. A moved run is one map that the kernel brought from elsewhere, and the kernel never
//!    joins it with its neighbours. So hakmem does not join or extend a moved run either. Before
//!    the run goes back to the arena, hakmem replaces it by a fresh map, which does join. Otherwise
//!    a program that grows many blocks would end with a map for each segment, and every move would
//!    take as many calls.

mod grow;
pub mod kept;

use crate::backend::arena::{self, Run, SEGMENT, SLOT};
use crate::backend::held;
use crate::backend::page::{Kind, Meta, THP, TRIED, UNTOLD};
use crate::backend::tried;
use crate::base::sync::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::base::usage;
use crate::os;
use crate::policy::learn;
use crate::policy::{self, Thp};
use crate::proto::lock::Lock;
use core::cell::UnsafeCell;

use grow::{give_clean, is_plain};
pub use grow::{resize, will_be_filled};
use kept::{Kept, Put};

const RING: usize = 16;
/// A fresh block of as many segments asks for huge pages at once, if a request fills it.
const LEAST_THP: usize = 16;
/// A shorter one of as many segments may try them (`tried`).
const LEAST_TRIED: usize = 3;
/// No request and no alignment above this can be met: no address space is larger.
pub const TOO_LARGE: usize = arena::LARGEST;

#[derive(Clone, Copy)]
struct Entry {
    run: Run,
    len: usize,
    stamp: u32,
    /// True for a moved run (rule 4).
    moved: bool,
    /// True if hakmem asked for huge pages in some of it.
    thp: bool,
    /// How many segments of it the count of `tried` has.
    tried: usize,
}

impl Entry {
    /// Of the run of a freed block, which has `len` segments and was freed at `stamp`.
    fn of(meta: &Meta, len: usize, stamp: u32) -> Self {
        let thp = meta.segment().is_thp();
        Self {
            run: run_of(meta),
            len,
            stamp,
            moved: is_moved(meta),
            thp,
            tried: tried_of(meta, len),
        }
    }

    /// What a huge block of the run says that the kernel was told.
    fn told(&self) -> u8 {
        match (self.thp, self.tried == self.len) {
            (false, _) => UNTOLD,
            (true, false) => THP,
            (true, true) => TRIED,
        }
    }
}

struct Cache(UnsafeCell<[Option<Entry>; RING]>);
// SAFETY: only `with_cache` and `after_fork` use the entries, and both hold the lock (rule 1).
unsafe impl Sync for Cache {}

/// A thread holds it for every use of the cache.
#[unsafe(link_section = ".data.hakmem")]
pub static LOCK: Lock = Lock::new();
static CACHE: Cache = Cache(UnsafeCell::new([None; RING]));
pub static CACHED: AtomicUsize = AtomicUsize::new(0);
pub static HANDED: AtomicU64 = AtomicU64::new(0);
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
    kept::ALLOWED.store(allowed, Relaxed);
    for counter in [&HANDED, &RETURNED, &HITS] {
        counter.store(0, Relaxed);
    }
    // If the lock is not free, this thread's signal handler has interrupted it under the lock.
    if let Some(_held) = LOCK.try_lock() {
        // SAFETY: this thread holds the lock (rule 1), so nobody changes the entries.
        let entries = unsafe { &*CACHE.0.get() };
        CACHED.store(
            allowed + entries.iter().flatten().map(|e| e.len * SEGMENT).sum::<usize>(),
            Relaxed,
        );
    }
}
/// Empties the cache. For the child of a fork in the middle of a change. Nobody ever uses the
/// cached runs again.
pub fn forget_cache() {
    let lost = with_cache(|entries| core::mem::replace(entries, [None; RING]));
    tried::give(lost.iter().flatten().map(|entry| entry.tried).sum());
    CACHED.store(0, Relaxed);
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
fn note_live(segments: i64) {
    let change = segments * SEGMENT as i64;
    usage::HUGE.fetch_add(change, Relaxed);
    usage::add(change, change);
    learn::huge(change);
}

/// Runs `f` on the cache under the lock.
#[inline(always)]
fn with_cache<R>(f: impl FnOnce(&mut [Option<Entry>; RING]) -> R) -> R {
    let _held = LOCK.lock();
    // SAFETY: this thread holds the lock (rule 1). `f` gets only the entries, and no `f` here uses
    // the cache in another way, so this is the only reference.
    f(unsafe { &mut *CACHE.0.get() })
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

/// Notes in a huge block's metadata what hakmem told the kernel of huge pages in some of it:
/// `UNTOLD`, `THP`, or `TRIED` if the count of `tried` has each segment of the block. Writes no
/// metadata of its other segments.
fn set_told(huge: &Meta, told: u8) {
    huge.segment().thp.store(told, Relaxed);
}

/// How many segments of a huge block, which has `len`, the count of `tried` has: all or none.
fn tried_of(huge: &Meta, len: usize) -> usize {
    if huge.segment().thp.load(Relaxed) == TRIED { len } else { 0 }
}

/// The block that was tried has grown, or moves. A program that does so is likely to fill it.
fn end_trial(huge: &Meta, len: usize) {
    if tried_of(huge, len) != 0 {
        set_told(huge, THP);
        tried::give(len);
    }
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
/// to be used. None: out of memory. O(RING) from the cache, else O(groups + n / 2 MiB).
pub fn alloc(n: usize, align: usize, written: bool) -> Option<(&'static Meta, bool)> {
    debug_assert!(n <= TOO_LARGE && align <= TOO_LARGE);
    let len = segments_for(n.max(1));
    let (entry, zero) = match take_cached(len, align) {
        Some(entry) => (entry, false),
        None => {
            if cached_bytes() >= len * SEGMENT {
                learn::misfit(len * SEGMENT);
            }
            let run = take_fresh(len, align)?;
            let told = ask_at_once(run, n, len, written);
            let thp = told != UNTOLD || Thp::now() == Thp::Always;
            let tried = if told == TRIED { len } else { 0 };
            (Entry { run, len, stamp: 0, moved: false, thp, tried }, true)
        }
    };
    let meta = head_of(entry.run);
    set_moved(meta, entry.moved);
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
    meta.set_kind(Kind::Huge);
    note_live(len as i64);
    HANDED.fetch_add(1, Relaxed);
    Some((meta, zero))
}

/// Takes `len` clean segments at a multiple of `align`. None: out of memory, or of what the hard
/// limit allows.
fn take_fresh(len: usize, align: usize) -> Option<Run> {
    if !held::take(len * SEGMENT) {
        return None;
    }
    let run = arena::take_run(len, (align / SEGMENT).max(1), len);
    if run.is_none() {
        held::give(len * SEGMENT);
    }
    run
}

/// True if a program that writes a block of `n` bytes in a run of `len` segments is likely to fill
/// it, so that huge pages are no waste. The run must be long: if the program uses only the ends of
/// the block, it still touches two huge pages.
fn is_filled_by(n: usize, len: usize) -> bool {
    len >= LEAST_THP && n >= len * SEGMENT / 8 * 7
}

/// Asks for huge pages for a fresh block of `n` bytes in `run`, of `len` segments, if that is likely
/// to be no waste, or tries them. Returns what it told the kernel. `written`: the program will write
/// the block before it reads it.
fn ask_at_once(run: Run, n: usize, len: usize, written: bool) -> u8 {
    let is_filled = is_filled_by(n, len);
    let tries = || len >= LEAST_TRIED && n >= len * SEGMENT / 4 * 3 && tried::has_room(len);
    let asks = written && Thp::now() == Thp::Auto && (is_filled || tries());
    if !asks || !os::want_thp(address(run), len * SEGMENT) {
        return UNTOLD;
    }
    if is_filled {
        return THP;
    }
    tried::take(len);
    TRIED
}

/// Takes the smallest cached run that fits. What the request does not need stays in the cache, with
/// the count of what was tried, unless all of the request was tried.
fn take_cached(len: usize, align: usize) -> Option<Entry> {
    if cached_bytes() == 0 {
        return None;
    }
    let taken = with_cache(|entries| {
        let fits = |e: &Entry| e.len >= len && address(e.run).is_multiple_of(align);
        let best = entries.iter_mut().filter(|slot| slot.as_ref().is_some_and(fits));
        let best = best.min_by_key(|slot| slot.as_ref().map_or(usize::MAX, |e| e.len))?;
        let entry = best.take()?;
        if entry.len == len {
            return Some(entry);
        }
        let (run, tried) =
            ((entry.run.0, entry.run.1 + len), if entry.tried >= len { len } else { 0 });
        *best = Some(Entry { run, len: entry.len - len, tried: entry.tried - tried, ..entry });
        Some(Entry { len, tried, ..entry })
    })?;
    CACHED.fetch_sub(len * SEGMENT, Relaxed);
    HITS.fetch_add(1, Relaxed);
    Some(taken)
}

/// [`free`] into what the calling thread's heap keeps. Returns the bytes by which the cache became
/// larger. None: the heap does not keep the block, which is live as before.
///
/// # Safety
/// It is a live huge block, and the caller gives it up if the heap keeps it.
#[inline(never)]
pub unsafe fn keep(meta: &Meta, kept: &Kept) -> Option<usize> {
    let (len, reserve) = (meta.span.load(Relaxed) as usize, meta.reserve.load(Relaxed) as usize);
    if reserve > len {
        let run = run_of(meta);
        meta.reserve.store(len as u32, Relaxed);
        // SAFETY: the segments behind `len` belong to the block, which is about to be freed, and
        // are clean (rule 3).
        unsafe { give_clean((run.0, run.1 + len), reserve - len, is_plain(meta)) };
    }
    meta.set_kind(Kind::Free);
    // SAFETY: the caller gives the block up, and nothing lies behind `len`.
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
    set_told(meta, UNTOLD);
    CACHED.fetch_add(len * SEGMENT, Relaxed);
    put_entry::<false>(entry, now);
    len * SEGMENT
}

/// Puts a run into the cache, whose bytes `CACHED` has already, and lets others go that have no
/// room. `OF_HEAP`: a heap kept it before. Two functions, so that the other one is part of `free`.
#[inline(always)]
fn put_entry<const OF_HEAP: bool>(entry: Entry, now: u32) {
    let (run, len) = (entry.run, entry.len);
    let crowded = with_cache(|entries| {
        // Runs side by side become one, so that larger requests find them.
        let joins = |e: &Entry| !(entry.moved || e.moved);
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
                joined.thp |= e.thp;
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
    // If the system does not take a run (locked memory), `drop_entry` puts it in again, and the
    // cache stays too full.
    while cached_bytes() > limit() {
        let Some(entry) =
            with_cache(|entries| oldest(entries, now).and_then(|i| entries[i].take()))
        else {
            break;
        };
        if drop_entry(entry) == 0 {
            break;
        }
    }
}

/// Bytes that the cache may hold.
fn limit() -> usize {
    let anyway = (policy::HUGE_CACHE_MIB.get() as usize) << 20;
    // What heaps keep counts as live in the books. They may keep so much at most.
    let live = (usage::huge() as usize).saturating_sub(kept::ALLOWED.load(Relaxed));
    anyway.max(live * policy::HUGE_CACHE_PERCENT.get() as usize / 100)
}

fn oldest(entries: &[Option<Entry>; RING], now: u32) -> Option<usize> {
    let age = |i: &usize| entries[*i].as_ref().map(|e| os::age(now, e.stamp));
    (0..RING).filter(|&i| entries[i].is_some()).max_by_key(age)
}

/// Gives a run that left the cache back to the system. Returns the bytes.
fn drop_entry(entry: Entry) -> usize {
    let bytes = entry.len * SEGMENT;
    // SAFETY: the run left the cache, so it belongs to this thread. The block that lay there was
    // freed.
    if unsafe { purge_run(entry.run, entry.len, entry.moved || entry.thp) } {
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
    let homeless = with_cache(|entries| match entries.iter().position(Option::is_none) {
        Some(free) => entries[free].replace(entry),
        None => Some(entry),
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
/// moved (rule 4), or of which the kernel was told something.
///
/// # Safety
/// The caller owns the segments, and nobody uses what is in them any more.
unsafe fn purge_run(run: Run, len: usize, anew: bool) -> bool {
    // SAFETY: by the caller's promise the segments are the caller's, and their contents are unused.
    anew && unsafe { arena::decommit_run(run, len) } || os::purge(address(run), len * SEGMENT)
}

/// Gives cached runs that were freed at least `decay` ms before `now` back to the system, while
/// `goes_on`. Returns the bytes.
pub fn purge(now: u32, decay: u32, goes_on: impl Fn() -> bool) -> usize {
    let mut given = 0;
    // One round only: a run that the system does not take goes into the cache again.
    for i in (0..RING).take_while(|_| goes_on()) {
        let due = |e: &Entry| os::age(now, e.stamp) >= decay;
        let entry =
            with_cache(
                |entries| {
                    if entries[i].as_ref().is_some_and(due) { entries[i].take() } else { None }
                },
            );
        given += entry.map_or(0, drop_entry);
    }
    given
}

/// Bytes of the huge block at `meta`.
pub fn size(meta: &Meta) -> usize {
    meta.span.load(Relaxed) as usize * SEGMENT
}

/// Above so many bytes it pays to find out whether there is anything to clear. `clear` writes
/// zeroes to smaller blocks and makes no system call. That call opens a file, and an open file in
/// the middle of calloc disturbs a program that counts its descriptors.
const WORTH_ASKING: usize = 32 << 20;

/// Makes the first `n` bytes of a recycled huge block zero, or the whole block if `all`. If the
/// block is large and little of it is resident, it goes back to the system, since the kernel zeroes
/// only what the program touches. Otherwise this writes zeroes. Programs hardly use what lies
/// behind the `n` bytes. So with `all` that part goes back in any case, if it is so large that the
/// call costs less than touching it.
///
/// # Safety
/// It is a live huge block, and nobody else uses it during the call.
pub unsafe fn clear(meta: &Meta, n: usize, all: bool) {
    let (start, size) = (meta.start(), size(meta));
    if n > WORTH_ASKING && mostly_absent(start.addr(), n) && os::purge(start.addr(), size) {
        return;
    }
    let used = n.next_multiple_of(os::page_size());
    let rest = size.saturating_sub(used);
    let by_hand = match all {
        false => n,
        true if rest >= SLOT && os::purge(start.addr() + used, rest) => used,
        true => size,
    };
    // SAFETY: the block is live, and nobody else uses it. `by_hand` is at most its size.
    unsafe { start.write_bytes(0, by_hand) };
}

/// True if less than half of a sample of the range is resident. False also if the system does not
/// tell.
fn mostly_absent(at: usize, n: usize) -> bool {
    const SAMPLE: usize = 64;
    let Some(map) = os::Pagemap::open() else { return false };
    let piece = SAMPLE * os::page_size();
    let mut pages = [os::Page::Absent; SAMPLE];
    let (mut seen, mut there) = (0, 0);
    // At most 16 pieces, evenly spread.
    for offset in (0..n).step_by(piece.max(n / 16).next_multiple_of(os::page_size())) {
        let pages = &mut pages[..piece.min(n - offset).div_ceil(os::page_size())];
        if !map.read(at + offset, pages) {
            return false;
        }
        seen += pages.len();
        there += pages.iter().filter(|&&page| page != os::Page::Absent).count();
    }
    there * 2 < seen
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests;
