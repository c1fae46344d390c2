//! The slots of one segment: which of its 32 pages are taken, and which free ones hold old data.
//!
//! One 64-bit word: the low half has a bit for each slot that is ACTIVE (somebody's), the high half a bit for each
//! slot that is DIRTY (free, but resident and full of old bytes). A slot with neither bit is CLEAN: free, not
//! resident, zero when touched.
//!
//! Rules
//! 1. Whoever set a slot's ACTIVE bit owns the slot, its page metadata and its memory until it clears the bit.
//! 2. A slot becomes ACTIVE by one compare-and-swap that also clears its DIRTY bit (acquire: the former owner's
//!    writes are over); it is let go by one that clears ACTIVE (release).
//! 3. Purging is owning: the purger makes DIRTY slots ACTIVE, gives their memory back, and lets them go CLEAN. So no
//!    slot is ever handed out and purged at once.
//! 4. Segments are listed by what their slots are (`proto::hints`). So the word changes by sequentially consistent steps,
//!    and who has unlisted a segment looks at it in that order.

use crate::base::sync::{AtomicU64, Ordering, const_new, look};

/// Slots in a segment.
pub const SLOTS: u32 = 32;

/// The state word of a segment.
#[derive(Debug)]
pub struct Slots {
    pub(crate) word: AtomicU64,
}

/// What a claim got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The first slot.
    pub first: u32,
    /// True if none of the claimed slots was DIRTY: their memory is zero.
    pub clean: bool,
    /// How many of the claimed slots were DIRTY.
    pub dirty: u32,
    /// The mask of slots that are free after the claim.
    pub free: u32,
}

impl Claim {
    /// The slots of `mask`, taken by the step from `old` to `new`.
    fn of(mask: u32, old: u64, new: u64) -> Self {
        let dirty = (empty(old) & mask).count_ones();
        Self { first: mask.trailing_zeros(), clean: dirty == 0, dirty, free: !active(new) }
    }
}

const fn active(word: u64) -> u32 {
    word as u32
}
const fn empty(word: u64) -> u32 {
    (word >> 32) as u32
}
const fn word(active: u32, empty: u32) -> u64 {
    (empty as u64) << 32 | active as u64
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

    /// Changes the word to what `change` makes of it, or gives up where it says None. Acquire and release: see rule 2;
    /// sequentially consistent: rule 4.
    fn update(&self, change: impl FnMut(u64) -> Option<u64>) -> Option<(u64, u64)> {
        self.update_from(look!(self.word, Ordering::Relaxed), change)
    }

    /// The same after a look that found `old`. What is found later is not older.
    fn update_from(&self, mut old: u64, mut change: impl FnMut(u64) -> Option<u64>) -> Option<(u64, u64)> {
        loop {
            let new = change(old)?;
            match self.word.compare_exchange_weak(old, new, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return Some((old, new)),
                Err(now) => old = now,
            }
        }
    }

    /// Takes `n` neighbouring slots, DIRTY ones by preference (they cost no fault). None if there is no such run.
    pub fn claim(&self, n: u32) -> Option<Claim> {
        let mut mask = 0;
        let (old, new) = self.update(|w| {
            let starts = starts_of_runs(!active(w), n);
            let warm = starts & empty(w);
            let pick = if warm != 0 { warm } else { starts };
            if pick == 0 {
                return None;
            }
            mask = run(pick.trailing_zeros(), n);
            Some(word(active(w) | mask, empty(w) & !mask))
        })?;
        Some(Claim::of(mask, old, new))
    }

    /// Takes exactly the slots of `mask`, if all of them are free.
    pub fn claim_exact(&self, mask: u32) -> Option<Claim> {
        let (old, new) = self.update(|w| (active(w) & mask == 0).then(|| word(active(w) | mask, empty(w) & !mask)))?;
        Some(Claim::of(mask, old, new))
    }

    /// Takes every DIRTY slot, to purge it (rule 3). Returns their mask, 0 if there was none: then who makes one finds that
    /// the segment is no longer listed (rule 4).
    pub fn claim_empty(&self) -> u32 {
        let first = look!(self.word, Ordering::SeqCst);
        let taken = self.update_from(first, |w| (empty(w) != 0).then(|| word(active(w) | empty(w), 0)));
        taken.map_or(0, |(old, _)| empty(old))
    }

    /// Takes every CLEAN slot. Returns their mask, 0 if there was none.
    pub fn claim_unused(&self) -> u32 {
        let unused = |w| !active(w) & !empty(w);
        let taken = self.update(|w| (unused(w) != 0).then(|| w | u64::from(unused(w))));
        taken.map_or(0, |(old, _)| unused(old))
    }

    /// Takes the whole segment if nobody has any of it and none of it is DIRTY.
    pub fn retire(&self) -> bool {
        // Not by `update`, which reads first: the read of a fresh segment's word would be a page fault, and the write another.
        self.word.compare_exchange(0, word(u32::MAX, 0), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Lets the slots of `mask` go: DIRTY if they hold old data, CLEAN if they are zero and not resident. Returns
    /// the mask of those that are free now.
    ///
    /// # Safety
    /// The caller owns them (rule 1) and nobody will touch them on its behalf.
    pub unsafe fn release(&self, mask: u32, dirty: bool) -> u32 {
        let gone = if dirty { mask } else { 0 };
        let changed = self.update(|w| Some(word(active(w) & !mask, empty(w) | gone)));
        changed.map_or(0, |(_, new)| !active(new))
    }

    /// The masks of slots that are ACTIVE and DIRTY, a moment ago.
    pub fn states(&self) -> (u32, u32) {
        let now = self.word.load(Ordering::Relaxed);
        (active(now), empty(now))
    }

    /// The mask of free slots, a moment ago.
    pub fn free_now(&self) -> u32 {
        // Rule 4.
        !active(look!(self.word, Ordering::SeqCst))
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
                let expected = (0..=32 - n).filter(|&i| free & run(i, n) == run(i, n)).fold(0, |m, i| m | 1u32 << i);
                assert_eq!(starts_of_runs(free, n), expected, "{free:032b} {n}");
            }
        }
    }

    #[test]
    fn a_slot_goes_round_unused_active_empty_purged() {
        let s = Slots::new();
        let a = s.claim(3).unwrap();
        assert_eq!((a.first, a.clean, a.dirty, a.free), (0, true, 0, !0b111));
        // SAFETY: just claimed.
        assert_eq!(unsafe { s.release(run(1, 1), true) }, !0b101);
        let b = s.claim(1).unwrap();
        assert_eq!((b.first, b.clean), (1, false), "an DIRTY slot is taken before an CLEAN one");
        // SAFETY: just claimed.
        unsafe { s.release(run(0, 3), true) };
        assert!(!s.retire(), "a segment with old data is not given away");
        assert_eq!(s.claim_unused(), !0b111);
        assert_eq!(s.claim_unused(), 0);
        assert_eq!(s.claim_empty(), 0b111);
        assert!(s.claim_exact(0b1).is_none());
        // SAFETY: just claimed.
        unsafe { s.release(u32::MAX, false) };
        assert!(s.retire());
        assert!(s.claim(1).is_none());
    }
}
