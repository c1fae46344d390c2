//! Hints of where to find something, for example segments with DIRTY slots.
//!
//! ```text
//! summary:  a bit for each word of the row that is not 0
//! row:      a bit for each segment with something to find
//!
//! maker:    makes the thing · sets the segment's bit · sets the summary's bit, where it is not set
//! taker:    clears the bit · then checks the segment for the thing
//! ```
//!
//! There is no lock. The maker writes the segment and then reads the row. The taker writes the row
//! and then reads the segment. If both do so at once, one of them must see what the other wrote.
//! Else the bit is clear, the thing is there, and no thread ever finds it. Only sequentially
//! consistent steps ensure that.
//!
//! Rules
//! 1. The maker makes the thing by a sequentially consistent step, before it calls [`list`].
//! 2. The taker clears the bit first. Then it reads the segment, by a sequentially consistent step.
//! 3. The summary may have a bit too many, which [`in_row`] clears. It has no bit too few once all
//!    threads have returned from [`list`] and [`in_row`].
//!
//! Models: `tests/loom/hints.rs` and `tests/loom/run_bin.rs`.

use crate::base::sync::{AtomicU64, Ordering::SeqCst, load_or_cas};

/// Sets `bit` of a word of the row, and that word's bit of the summary: `its`. Writes no bit that
/// is set already, as all threads share the words.
pub fn list(word: &AtomicU64, bit: u64, summary: &AtomicU64, its: u64) {
    set(word, bit);
    set(summary, its);
}

fn set(word: &AtomicU64, bit: u64) {
    if load_or_cas!(word, SeqCst) & bit == 0 {
        word.fetch_or(bit, SeqCst);
    }
}

/// Clears `bit` of a word of the row (rule 2). The summary keeps its bit: the next thread that
/// finds the word empty clears it, by [`in_row`].
pub fn unlist(word: &AtomicU64, bit: u64) {
    word.fetch_and(!bit, SeqCst);
}

/// The bits of a word of the row. If there are none, clears the word's bit of the summary: `its`.
pub fn in_row(word: &AtomicU64, summary: &AtomicU64, its: u64) -> u64 {
    let found = word.load(SeqCst);
    if found == 0 {
        summary.fetch_and(!its, SeqCst);
        // A thread that set a bit of the word meanwhile may have found the summary's bit still set,
        // and may not have written it.
        if load_or_cas!(word, SeqCst) != 0 {
            summary.fetch_or(its, SeqCst);
        }
    }
    found
}
