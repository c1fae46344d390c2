//! Huge blocks that a heap keeps for its thread.
//!
//! The huge cache has one lock and one line of counters for all threads. So in a program of many
//! heaps each heap keeps the last few huge blocks that its thread freed. It gives each of them to a
//! request of the same length. That touches no memory that another thread writes.
//!
//! What heaps keep is part of the huge cache: its bound and its decay hold for both. A heap takes
//! its part of the bound in advance, so that blocks come and go without a count that others share:
//!
//! ```text
//! CACHED  = bytes of the entries + ALLOWED        ALLOWED = sum of the heaps' `allowed`
//! LIVE, HUGE = live bytes + sum of the heaps' `kept`     kept ≤ allowed
//! ```
//!
//! Rules
//! 1. The holder of the heap puts blocks into places (`proto::place`). Any thread may take one: the
//!    holder for a request, a purge after the decay.
//! 2. A kept block has the metadata of a live one, but `Kind::Free`. Its stamp says when it was
//!    freed. The thread that took it owns it.
//! 3. Another thread may change `allowed` between two steps of the holder. Then a heap keeps more
//!    than it may, at most until its next put.
//! 4. A purge may give a part of the bound up that the holder is about to use, or that has a block
//!    which another purge takes. Then `allowed`, `ALLOWED` and `CACHED` are lower by that part,
//!    perhaps below zero. The next put takes it again.

use super::cache::{CACHED, Entry, drop_entry, limit, put_entry, signed_cached_bytes};
use super::thp::set_told;
use super::{address, note_live, run_of};
use crate::backend::arena::{self, META, SEGMENT};
use crate::backend::page::{Meta, UNTOLD};
use crate::base::counter::Counter;
use crate::base::sync::{AtomicI64, AtomicU32, AtomicUsize, Ordering::Relaxed};
use crate::os;
use crate::proto::place::Place;

/// Blocks that a heap keeps at most.
const PLACES: usize = 4;
/// Segments of the longest block that a heap keeps. A longer one takes longer to fill than the lock
/// of the cache takes.
pub const LONGEST: usize = 8;
/// The bits of a place that say how many segments the block has. Metadata is aligned.
const LENGTH: usize = META - 1;
const _: () = assert!(LONGEST <= LENGTH);

/// Bytes of the huge cache that heaps may keep.
#[unsafe(link_section = ".data.hakmem")]
pub static ALLOWED: AtomicUsize = AtomicUsize::new(0);

/// What became of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// The heap keeps it, in the part of the bound that it had.
    Kept,
    /// The heap keeps it, and took a larger part of the bound.
    KeptMore,
    /// The caller still has it: the heap keeps no such block, or the cache is full.
    No,
}

/// The huge blocks that a heap keeps. All zero bytes: none.
pub struct Kept {
    /// The address of a block's metadata, and its length in segments.
    places: [Place; PLACES],
    /// Bytes of the blocks in the places.
    pub kept: AtomicI64,
    /// The heap's part of `ALLOWED`.
    pub allowed: AtomicI64,
    /// When the heap last put a block, in coarse milliseconds.
    put_at: AtomicU32,
    /// Blocks that were taken for requests.
    pub hits: Counter<u64>,
    /// Blocks that were put.
    pub puts: Counter<u64>,
}

impl Kept {
    /// Takes a block of `len` segments at a multiple of `align` bytes. None: the heap keeps none.
    /// Only the holder calls this. O(1).
    #[inline(never)]
    pub fn take(&self, len: usize, align: usize) -> Option<&'static Meta> {
        for place in &self.places {
            let held = place.peek();
            if held & LENGTH != len || !address(run_of(meta_of(held)?)).is_multiple_of(align) {
                continue;
            }
            // Only the holder puts, so this is what it saw, or nothing.
            if let Some((meta, _)) = self.take_from(place) {
                self.hits.add(1);
                return Some(meta);
            }
        }
        None
    }

    /// Keeps a freed block of `len` segments, if there is room. Only the holder calls this. O(1),
    /// and what leaves the heap for it.
    ///
    /// # Safety
    /// The caller owns the block, which has the metadata that rule 2 says and no reserve, and
    /// `LONGEST` segments at most. It does not use the block after the call, unless that returns
    /// `No`.
    #[inline(never)]
    pub unsafe fn put(&self, meta: &Meta, len: usize) -> Put {
        debug_assert!(len <= LONGEST);
        let place = match self.places.iter().find(|place| place.peek() == 0) {
            Some(empty) => empty,
            None => {
                let victim = self.victim(len);
                self.move_on(victim);
                victim
            }
        };
        let bytes = (len * SEGMENT) as i64;
        let more = self.kept.load(Relaxed) + bytes - self.allowed.load(Relaxed);
        if more > 0 && !self.allow(more) {
            return Put::No;
        }
        let now = os::now_ms();
        meta.stamp.store(now, Relaxed);
        self.put_at.store(now, Relaxed);
        self.puts.add(1);
        self.kept.fetch_add(bytes, Relaxed);
        place.put(meta.raw().addr() | len);
        if more > 0 { Put::KeptMore } else { Put::Kept }
    }

    /// The place that a block of `len` segments gets if none is empty: one of the length that most
    /// blocks have. So blocks of several lengths stay.
    fn victim(&self, len: usize) -> &Place {
        let lengths = self.places.each_ref().map(|place| place.peek() & LENGTH);
        let alike = |of: usize| {
            lengths.iter().filter(|&&other| other == of).count() + usize::from(of == len)
        };
        let first = self.puts.get() as usize;
        let best = (first..first + PLACES).max_by_key(|i| alike(lengths[i % PLACES]));
        &self.places[best.unwrap_or(first) % PLACES]
    }

    /// Takes a part of the bound of the cache. False: the cache is full.
    #[cold]
    #[inline(never)]
    pub(super) fn allow(&self, bytes: i64) -> bool {
        // Signed: `CACHED` may be below zero for a time (rule 4).
        let is_full = signed_cached_bytes() as i64 + bytes > limit() as i64;
        if !is_full {
            // In this order: meanwhile the cache seems to have more than it has, not less.
            CACHED.fetch_add(bytes as usize, Relaxed);
            self.change_allowed(bytes);
        }
        !is_full
    }

    pub(super) fn change_allowed(&self, bytes: i64) {
        self.allowed.fetch_add(bytes, Relaxed);
        ALLOWED.fetch_add(bytes as usize, Relaxed);
    }

    /// Takes the block of a place, and its length in segments. None: there is none.
    fn take_from(&self, place: &Place) -> Option<(&'static Meta, usize)> {
        let held = place.take();
        let meta = meta_of(held)?;
        let len = held & LENGTH;
        self.kept.fetch_sub((len * SEGMENT) as i64, Relaxed);
        Some((meta, len))
    }

    /// Takes the block of a place out of the heap, with the part of the bound that it had.
    fn take_entry(&self, place: &Place) -> Option<Entry> {
        let (meta, len) = self.take_from(place)?;
        self.change_allowed(-((len * SEGMENT) as i64));
        // The books count kept blocks as live.
        note_live(-(len as i64));
        let entry = Entry::of(meta, len, meta.stamp.load(Relaxed));
        set_told(meta, UNTOLD);
        Some(entry)
    }

    /// Moves the block of a place into the huge cache. `CACHED` has its bytes already.
    #[cold]
    #[inline(never)]
    fn move_on(&self, place: &Place) {
        if let Some(entry) = self.take_entry(place) {
            put_entry::<true>(entry, os::now_ms());
        }
    }

    /// Gives a part of the bound back.
    fn give_up_unused(&self) {
        let allowed = self.allowed.load(Relaxed);
        let used = self.kept.load(Relaxed);
        // One of several threads gives it up.
        if used < allowed && self.allowed.compare_exchange(allowed, used, Relaxed, Relaxed).is_ok()
        {
            let unused = (allowed - used) as usize;
            ALLOWED.fetch_sub(unused, Relaxed);
            CACHED.fetch_sub(unused, Relaxed);
        }
    }

    /// Moves all blocks into the huge cache. Only the holder calls this.
    pub fn empty(&self) {
        if !self.is_unused() {
            self.places.iter().for_each(|place| self.move_on(place));
            self.give_up_unused();
        }
    }

    /// Gives blocks that were freed at least `decay` ms before `now` back to the system, and the
    /// part of the bound that was not used since. Any thread may call this. Returns the bytes.
    pub fn purge(&self, now: u32, decay: u32) -> usize {
        if self.is_unused() {
            return 0;
        }
        let is_due = |meta: &Meta| os::age(now, meta.stamp.load(Relaxed)) >= decay;
        let mut given = 0;
        for place in &self.places {
            // The holder may take the block meanwhile, and put another one there: then that one
            // goes a little early.
            if meta_of(place.peek()).is_some_and(is_due) {
                given += self.take_entry(place).map_or(0, drop_entry);
            }
        }
        if os::age(now, self.put_at.load(Relaxed)) >= decay {
            self.give_up_unused();
        }
        given
    }

    /// True if the heap keeps nothing, and has no part of the bound. It may keep a block and have
    /// no part (rule 3).
    fn is_unused(&self) -> bool {
        self.allowed.load(Relaxed) == 0 && self.kept.load(Relaxed) == 0
    }

    /// In the child of a fork: counts anew what the heap of a thread keeps that the child does not
    /// have. That thread may have been between a change of a place and its count.
    pub fn recount(&self) {
        let segments: usize = self.places.iter().map(|place| place.peek() & LENGTH).sum();
        self.kept.store((segments * SEGMENT) as i64, Relaxed);
        self.allowed.store((segments * SEGMENT) as i64, Relaxed);
    }

    /// Resets the counters, in the child of a fork.
    pub fn reset_counts(&self) {
        self.hits.renew(0);
        self.puts.renew(0);
    }
}

/// True if heaps may keep huge blocks now: a purge looks at the heaps then.
pub fn is_any() -> bool {
    ALLOWED.load(Relaxed) != 0
}

/// The metadata of the block in a place that holds `held`. None: the place is empty.
fn meta_of(held: usize) -> Option<&'static Meta> {
    // SAFETY: a place holds 0 or the address of a slot's metadata, with a length in its low bits.
    // That metadata is accessible for ever (`arena` rule 4), and all fields that this module reads
    // may be shared between threads.
    unsafe { arena::at(held & !LENGTH).cast::<Meta>().as_ref() }
}
