//! The slots of one segment: which of its 32 slots are claimed, and which free ones hold old data.
//!
//! ```text
//!         claim               release(dirty)
//! CLEAN ────────→ ACTIVE ────────────────────→ DIRTY
//!   ↑──────────────┘ ↑──────── claim ────────────┘
//!    release(clean)
//! ```
//!
//! One word of 64 bits has the states of all slots. The low half has a bit for each ACTIVE slot: a
//! thread has claimed it. The high half has a bit for each DIRTY slot: it is free, resident, and
//! full of old bytes. A slot with neither bit is CLEAN: free, not resident, and zero when touched.
//!
//! Rules
//! 1. The thread that sets a slot's ACTIVE bit owns the slot, its page metadata and its memory,
//!    until it releases the slot, or gives it to another thread that does.
//! 2. One compare-and-swap sets the ACTIVE bit and clears the DIRTY bit (acquire: the writes of the
//!    former owner are over). Another one clears the ACTIVE bit (release: the next owner sees this
//!    owner's writes).
//! 3. The purger claims DIRTY slots before it purges them, and releases them as CLEAN. So no slot
//!    is allocated and purged at once.
//! 4. `proto::hints` lists segments by the states of their slots. So the word changes by
//!    sequentially consistent steps. A thread that has unlisted a segment reads the word in that
//!    order too. It then sees each change whose maker still found the segment listed.
//!
//! Models: `tests/loom/slots.rs`, `tests/loom/hints.rs` and `tests/loom/run_bin.rs`.

use crate::base::sync::{AtomicU64, Ordering, const_new, load_or_cas};

/// Slots in a segment.
pub const SLOTS: u32 = 32;

/// The state word of a segment.
#[derive(Debug)]
pub struct Slots {
    pub(crate) word: AtomicU64,
}

/// The slots that a thread claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The first slot.
    pub first: u32,
    /// True if none of the claimed slots was DIRTY: their memory is zero.
    pub clean: bool,
    /// How many of the claimed slots were DIRTY.
    pub dirty: u32,
    /// The mask of these.
    pub were_dirty: u32,
    /// The mask of slots that are free after the claim.
    pub free: u32,
}

impl Claim {
    /// The slots of `mask`, which the change of the word from `old` to `new` claimed.
    fn of(mask: u32, old: u64, new: u64) -> Self {
        let were_dirty = dirty_of(old) & mask;
        let dirty = were_dirty.count_ones();
        Self {
            first: mask.trailing_zeros(),
            clean: dirty == 0,
            dirty,
            were_dirty,
            free: !active(new),
        }
    }
}

/// The mask of the ACTIVE slots.
const fn active(word: u64) -> u32 {
    word as u32
}
/// The mask of the DIRTY slots.
const fn dirty_of(word: u64) -> u32 {
    (word >> 32) as u32
}
/// The word with these ACTIVE and DIRTY slots.
const fn word(active: u32, dirty: u32) -> u64 {
    (dirty as u64) << 32 | active as u64
}

/// The mask of `n` slots from `first`.
pub const fn run(first: u32, n: u32) -> u32 {
    (((1u64 << n) - 1) as u32) << first
}

/// Bit i of the result is set if bits i … i + n - 1 of `free` are. O(log n).
const fn starts_of_runs(mut free: u32, n: u32) -> u32 {
    let mut have = 1;
    while have < n {
        let step = if have < n - have { have } else { n - have };
        free &= free >> step;
        have += step;
    }
    free
}

/// True if `free` has `n` neighbouring bits.
pub const fn has_run(free: u32, n: u32) -> bool {
    starts_of_runs(free, n) != 0
}

impl Default for Slots {
    fn default() -> Self {
        Self::new()
    }
}

impl Slots {
    const_new! {
        /// All slots CLEAN.
        pub fn new() -> Self {
            Self { word: AtomicU64::new(0) }
        }
    }

    /// Changes the word to what `change` makes of it. Gives up when `change` returns None. Returns
    /// the word before and after. The compare-and-swap acquires and releases for rule 2, and is
    /// sequentially consistent for rule 4.
    fn update(&self, change: impl FnMut(u64) -> Option<u64>) -> Option<(u64, u64)> {
        self.update_from(load_or_cas!(self.word, Ordering::Relaxed), change)
    }

    /// As [`Slots::update`], for a caller that has just read `old`. A failed compare-and-swap
    /// returns a value that is not older than `old`.
    fn update_from(
        &self,
        mut old: u64,
        mut change: impl FnMut(u64) -> Option<u64>,
    ) -> Option<(u64, u64)> {
        loop {
            let new = change(old)?;
            match self.word.compare_exchange_weak(old, new, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return Some((old, new)),
                Err(now) => old = now,
            }
        }
    }

    /// Claims `n` neighbouring free slots. Prefers a run that begins with a DIRTY slot, as touching
    /// that costs no page fault. Returns None if there is no run of `n` free slots.
    pub fn claim(&self, n: u32) -> Option<Claim> {
        let mut mask = 0;
        let (old, new) = self.update(|w| {
            let starts = starts_of_runs(!active(w), n);
            let warm = starts & dirty_of(w);
            let pick = if warm != 0 { warm } else { starts };
            if pick == 0 {
                return None;
            }
            mask = run(pick.trailing_zeros(), n);
            Some(word(active(w) | mask, dirty_of(w) & !mask))
        })?;
        Some(Claim::of(mask, old, new))
    }

    /// Claims exactly the slots of `mask`, if all of them are free.
    pub fn claim_exact(&self, mask: u32) -> Option<Claim> {
        let (old, new) = self.update(|w| {
            (active(w) & mask == 0).then(|| word(active(w) | mask, dirty_of(w) & !mask))
        })?;
        Some(Claim::of(mask, old, new))
    }

    /// Claims every DIRTY slot, for the purger (rule 3). Returns their mask. If it is 0, the next
    /// thread that makes a slot DIRTY finds the segment unlisted, and lists it (rule 4).
    pub fn claim_dirty(&self) -> u32 {
        let first = load_or_cas!(self.word, Ordering::SeqCst);
        let taken = self
            .update_from(first, |w| (dirty_of(w) != 0).then(|| word(active(w) | dirty_of(w), 0)));
        taken.map_or(0, |(old, _)| dirty_of(old))
    }

    /// Claims every CLEAN slot. Returns their mask, 0 if there was none.
    pub fn claim_clean(&self) -> u32 {
        let clean = |w| !active(w) & !dirty_of(w);
        let taken = self.update(|w| (clean(w) != 0).then(|| w | u64::from(clean(w))));
        taken.map_or(0, |(old, _)| clean(old))
    }

    /// Claims the whole segment if all its slots are CLEAN.
    pub fn retire(&self) -> bool {
        // `update` would read the word first. In a fresh segment the read would cost one page
        // fault, and the write another.
        self.word
            .compare_exchange(0, word(u32::MAX, 0), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Makes the slots of `mask` free: DIRTY if they hold old data, CLEAN if they are zero and not
    /// resident. Returns the mask of all slots that are free now.
    ///
    /// # Safety
    /// - The caller owns the slots (rule 1).
    /// - No thread touches their memory or metadata from now on, unless it claims them.
    /// - If `dirty` is false, their memory is zero.
    pub unsafe fn release(&self, mask: u32, dirty: bool) -> u32 {
        let gone = if dirty { mask } else { 0 };
        let changed = self.update(|w| Some(word(active(w) & !mask, dirty_of(w) | gone)));
        changed.map_or(0, |(_, new)| !active(new))
    }

    /// The masks of slots that are ACTIVE and DIRTY, a moment ago.
    pub fn states(&self) -> (u32, u32) {
        let now = self.word.load(Ordering::Relaxed);
        (active(now), dirty_of(now))
    }

    /// The mask of free slots, a moment ago.
    pub fn free_now(&self) -> u32 {
        // Sequentially consistent, as callers list the segment by the answer (rule 4).
        !active(load_or_cas!(self.word, Ordering::SeqCst))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_by_brute_force_too() {
        let mut seed = 0x9E37_79B9_7F4A_7C15u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let free = (seed >> 32) as u32 | (seed as u32 & (seed >> 17) as u32);
            for n in 1..=32 {
                let expected = (0..=32 - n)
                    .filter(|&i| free & run(i, n) == run(i, n))
                    .fold(0, |m, i| m | 1u32 << i);
                assert_eq!(starts_of_runs(free, n), expected, "{free:032b} {n}");
            }
        }
    }

    #[test]
    fn a_slot_goes_round_clean_active_dirty_purged() {
        let s = Slots::new();
        let a = s.claim(3).unwrap();
        assert_eq!((a.first, a.clean, a.dirty, a.free), (0, true, 0, !0b111));
        // SAFETY: this thread has just claimed slots 0 to 2, and uses no memory of them.
        assert_eq!(unsafe { s.release(run(1, 1), true) }, !0b101);
        let b = s.claim(1).unwrap();
        assert_eq!((b.first, b.clean), (1, false), "a DIRTY slot is taken before a CLEAN one");
        // SAFETY: this thread has claimed slots 0 to 2, and uses no memory of them.
        unsafe { s.release(run(0, 3), true) };
        assert!(!s.retire(), "a segment with old data is not given away");
        assert_eq!(s.claim_clean(), !0b111);
        assert_eq!(s.claim_clean(), 0);
        assert_eq!(s.claim_dirty(), 0b111);
        assert!(s.claim_exact(0b1).is_none());
        // SAFETY: this thread has claimed all slots, and uses no memory of them.
        unsafe { s.release(u32::MAX, false) };
        assert!(s.retire());
        assert!(s.claim(1).is_none());
    }
}
