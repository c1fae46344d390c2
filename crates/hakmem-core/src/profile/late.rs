//! Samples that a thread freed while it could not have the books: a fork delayed them, or the
//! thread was a signal handler that interrupted them.
//!
//! ```text
//! free:  no books → the block waits in SMALL or WHOLE
//! next change of the books:   frees those of SMALL
//! next pass of the purge:     frees all
//! ```
//!
//! Rules
//! 1. A thread that frees a sample and does not get the books puts the block in. It stays a live
//!    sample until a thread that takes it out has the books. The child of a fork that came while a
//!    thread had taken blocks out keeps these as live samples.
//! 2. A thread that takes blocks out holds no lock, and does not wait for the books: it puts the
//!    blocks in again.

use super::marked::{Freed, plain, take_out};
use super::table::with_books_at_once;
use crate::backend::arena::{SEGMENT, SLOT};
use crate::backend::check;
use crate::backend::page::{self, Kind, Meta};
use crate::base::sync::Ordering::Relaxed;
use crate::proto::inbox::{Inbox, Link, Waiting};

/// The small blocks that wait, and the large and huge ones, with their bytes.
static SMALL: Inbox<Waiting> = Inbox::new();
static WHOLE: Inbox<Waiting> = Inbox::new();

/// Has the sample at `p`, in the slot of `meta`, wait.
///
/// # Safety
/// It is live, and the caller gives it up.
#[cold]
pub unsafe fn put(p: *mut u8, meta: &Meta) {
    let bytes = whole_bytes(meta);
    let inbox = if bytes == 0 { &SMALL } else { &WHOLE };
    // SAFETY: the caller gives the block up, and nobody else has it.
    unsafe { inbox.push_chain(p.cast(), p.cast(), bytes) };
}

/// Bytes of the large and huge blocks that wait, up to what an inbox can say. A hint for the purge.
pub fn bytes() -> usize {
    WHOLE.waiting_bytes()
}

/// Bytes of a sample that is a large or huge block; 0 for a small one.
fn whole_bytes(meta: &Meta) -> usize {
    let span = meta.span.load(Relaxed) as usize;
    match meta.kind() {
        Kind::SampledLarge => span * SLOT,
        Kind::SampledHuge => span * SEGMENT,
        _ => 0,
    }
}

/// Frees a large or huge block that is no sample any more. The caller gives it up.
pub type FreeWhole = unsafe fn(&Meta);

/// Frees small blocks that wait, if the books are free. The caller holds no lock.
#[inline]
pub fn free_small() {
    if !SMALL.is_empty() {
        take_and_free(&SMALL, |_| {});
    }
}

/// Frees all blocks that wait, if the books are free: large and huge ones by `whole`. The caller
/// holds no lock. Returns whether there were any.
pub fn free_all(whole: FreeWhole) -> bool {
    let has_some = !SMALL.is_empty() || !WHOLE.is_empty();
    free_small();
    if !WHOLE.is_empty() {
        take_and_free(&WHOLE, whole);
    }
    has_some
}

#[cold]
#[inline(never)]
fn take_and_free(inbox: &Inbox<Waiting>, whole: FreeWhole) {
    let mut block = inbox.take();
    while !block.is_null() {
        // SAFETY: `take` gave the blocks to this thread. The link is read before the block is freed
        // or put in again.
        unsafe {
            let next = Waiting::next(block);
            free(block.cast(), whole);
            block = next;
        }
    }
}

/// Frees the sample at `p`, or has it wait on.
///
/// # Safety
/// The sample waited, and is the caller's.
unsafe fn free(p: *mut u8, whole: FreeWhole) {
    let Some(meta) = page::lookup(p) else { check::not_a_block(p, None) };
    let (kind, is_small) = (meta.kind(), meta.head().kind() == Kind::Sampled);
    // SAFETY: who put the sample in gave it up.
    match with_books_at_once(|books| unsafe { take_out(books, p, meta) }) {
        // SAFETY: as above. Nothing has changed.
        Err(_) => unsafe { put(p, meta) },
        Ok(Some(Freed::Done)) => {}
        // SAFETY: the block is this thread's, and no sample any more.
        Ok(Some(Freed::Unmarked)) => unsafe { whole(meta) },
        // The program freed it twice.
        Ok(Some(Freed::NoSample)) => check::not_a_block(p, Some(meta)),
        // A child gave the books up: a small sample is lost.
        Ok(None) if is_small => {}
        Ok(None) => {
            meta.set_kind(plain(kind));
            // SAFETY: the block is this thread's, and no sample any more.
            unsafe { whole(meta) };
        }
    }
}
