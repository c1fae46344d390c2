//! The last decisions of whoever changes settings while the program runs, each as a line that people read.
//!
//! A ring of fixed size that is never freed: writing allocates nothing, and readers, who may be in another process
//! (`stats::view`), take nothing. A decision is a rare thing, so that one line of text is not too much for it.
//!
//! Rules
//! 1. A record's number is odd while its text changes, and 2 n + 2 once it holds the nth decision; 0: it has never held any.
//! 2. Who finds a record being written leaves it alone. Decisions that come in such numbers that the ring laps a writer
//!    are lost.

use crate::os;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::fence;
use crate::sync::plain::{AtomicU32, AtomicU64};
use core::fmt::{self, Write};

/// Decisions that are kept.
pub const KEPT: usize = 64;
/// Bytes of a line, at most.
pub const TEXT: usize = 112;

/// A decision, in two lines of cache.
#[repr(C, align(64))]
pub struct Record {
    /// Rule 1.
    pub number: AtomicU64,
    /// When, in coarse milliseconds of the monotonic clock.
    pub at: AtomicU32,
    /// Bytes of the text.
    pub len: AtomicU32,
    text: [AtomicU64; TEXT / 8],
}

const _: () = assert!(size_of::<Record>() == 128);

/// The ring.
pub static RING: [Record; KEPT] = [const {
    Record {
        number: AtomicU64::new(0),
        at: AtomicU32::new(0),
        len: AtomicU32::new(0),
        text: [const { AtomicU64::new(0) }; TEXT / 8],
    }
}; KEPT];
/// Decisions so far.
pub static MADE: AtomicU64 = AtomicU64::new(0);

/// A line; what is beyond its room is cut off.
struct Line {
    bytes: [u8; TEXT],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        for c in s.chars() {
            let Some(room) = self.bytes[self.len..].get_mut(..c.len_utf8()) else { return Err(fmt::Error) };
            c.encode_utf8(room);
            self.len += c.len_utf8();
        }
        Ok(())
    }
}

/// Notes a decision: what was changed, from what to what, and the figures it was made by. Takes no lock, allocates nothing.
pub fn note(text: fmt::Arguments<'_>) {
    let mut line = Line { bytes: [0; TEXT], len: 0 };
    let _ = line.write_fmt(text); // Cut off where the room ends.
    let nth = MADE.fetch_add(1, Relaxed);
    let record = &RING[nth as usize % KEPT];
    let before = record.number.load(Relaxed);
    if before & 1 != 0 || record.number.compare_exchange(before, before | 1, Acquire, Relaxed).is_err() {
        return; // Rule 2.
    }
    // Release: whoever sees any of the text sees the odd number.
    fence(Release);
    record.at.store(os::now_ms(), Relaxed);
    record.len.store(line.len as u32, Relaxed);
    for (word, bytes) in record.text.iter().zip(line.bytes.chunks_exact(8)) {
        word.store(bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)), Relaxed);
    }
    record.number.store(2 * nth + 2, Release);
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    extern crate std;
    use super::*;
    use std::string::{String, ToString};
    use std::vec::Vec;

    /// As a reader outside does: calls `f` with each decision that is kept, oldest first: its number from 0 on, when it was made, and its text.
    fn each(mut f: impl FnMut(u64, u32, &str)) {
        let made = MADE.load(Acquire);
        for nth in made.saturating_sub(KEPT as u64)..made {
            let record = &RING[nth as usize % KEPT];
            let is_it = |order| record.number.load(order) == 2 * nth + 2;
            if !is_it(Acquire) {
                continue;
            }
            let mut bytes = [0; TEXT];
            for (word, bytes) in record.text.iter().zip(bytes.chunks_exact_mut(8)) {
                bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes());
            }
            let (at, len) = (record.at.load(Relaxed), record.len.load(Relaxed) as usize);
            // Acquire: if the text was another's, so is the number now.
            fence(Acquire);
            if is_it(Relaxed) {
                f(nth, at, core::str::from_utf8(&bytes[..len.min(TEXT)]).unwrap_or("?"));
            }
        }
    }

    /// One test, since there is one ring.
    #[test]
    fn the_last_ones_are_kept_whole_and_in_order() {
        let kept = || {
            let mut all: Vec<(u64, String)> = Vec::new();
            each(|nth, _, text| all.push((nth, text.to_string())));
            all
        };
        assert_eq!(kept(), []);
        note(format_args!("CARVE_BYTES of {} bytes: {} → {}", 64, 4096, 8192));
        assert_eq!(kept(), [(0, "CARVE_BYTES of 64 bytes: 4096 → 8192".to_string())]);
        note(format_args!("{:→<300}", ""));
        assert_eq!(kept()[1].1.chars().count(), TEXT / '→'.len_utf8(), "cut between two characters");
        (2..100).for_each(|n| note(format_args!("{n}")));
        let all = kept();
        assert_eq!((all.len(), all[0].0, all[KEPT - 1].1.as_str()), (KEPT, 36, "99"));
        RING[99 % KEPT].number.fetch_or(1, Relaxed);
        assert_eq!(kept().len(), KEPT - 1, "one that is being written is left out");
    }
}
