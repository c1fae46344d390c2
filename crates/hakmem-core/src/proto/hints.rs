//! Hints of where there is something to find: a bit for each segment in a row of words, and a summary with a bit for each
//! word that has any.
//!
//! Who makes something to find sets the bit; who takes it clears the bit. Nobody holds a lock, so each writes one word and
//! then looks at the other's: the finder's bit in the row after the thing itself is there, the thing itself after the bit
//! is cleared. One of two that do so at once must see what the other wrote, or the thing is never found.
//!
//! Rules
//! 1. What is to be found is made by a sequentially consistent step, before [`list`].
//! 2. Who clears a bit looks afterwards, in the same order of all such steps, at what the bit spoke of.
//! 3. The summary may have a bit too many, which [`in_row`] puts right, but none too few once everybody is through.

use crate::base::sync::{AtomicU64, Ordering::SeqCst, look};

/// Sets `bit` of a row's word, and `its` bit of the summary. A bit that is set already is not written again: the words
/// are shared by all threads.
pub fn list(word: &AtomicU64, bit: u64, summary: &AtomicU64, its: u64) {
    set(word, bit);
    set(summary, its);
}

fn set(word: &AtomicU64, bit: u64) {
    if look!(word, SeqCst) & bit == 0 {
        word.fetch_or(bit, SeqCst);
    }
}

/// Clears `bit` of a row's word (rule 2). The summary is put right by who next looks in vain.
pub fn unlist(word: &AtomicU64, bit: u64) {
    word.fetch_and(!bit, SeqCst);
}

/// The bits of a row's word; if there are none, the summary is told.
pub fn in_row(word: &AtomicU64, summary: &AtomicU64, its: u64) -> u64 {
    let found = word.load(SeqCst);
    if found == 0 {
        summary.fetch_and(!its, SeqCst);
        // Who set a bit before that may have seen the summary's still set.
        if look!(word, SeqCst) != 0 {
            summary.fetch_or(its, SeqCst);
        }
    }
    found
}
