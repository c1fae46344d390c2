//! Samples that a thread freed while it could not have the books: a fork delayed them, or the
//! thread was a signal handler that interrupted them.
//!
//! ```text
//! free:  no books → the block waits in LATE
//! next change of the books:   frees small ones
//! next pass of the purge:     frees all
//! ```
//!
//! Rules
//! 1. Who frees a sample and does not get the books puts the whole block in. It stays a live sample
//!    until a thread that takes it out has the books.
//! 2. Who takes blocks out holds no lock, and does not wait for the books: it puts the blocks in
//!    again.

use super::marked::{Freed, plain, take_out};
use super::table::with_books_at_once;
use crate::backend::check;
use crate::backend::page::{self, Kind, Meta};
use crate::proto::inbox::{Inbox, Link};

/// A block that waits. Its link may lead to any page.
#[repr(C)]
struct Late {
    next: *mut Late,
}

// SAFETY: `next` returns what `set_next` stored last, and neither touches anything else.
unsafe impl Link for Late {
    unsafe fn next(this: *mut Self) -> *mut Self {
        // SAFETY: the caller owns the block, which has a word at least.
        unsafe { (*this).next }
    }
    unsafe fn set_next(this: *mut Self, next: *mut Self) {
        // SAFETY: the caller owns the block, which has a word at least.
        unsafe { (*this).next = next }
    }
}

/// The blocks that wait.
static LATE: Inbox<Late> = Inbox::new();

/// Has the sample at `p` wait.
///
/// # Safety
/// It is live, and the caller gives it up.
#[cold]
pub unsafe fn put(p: *mut u8) {
    // SAFETY: the caller gives the block up, and nobody else has it.
    unsafe { LATE.push_chain(p.cast(), p.cast(), 0) };
}

/// Frees a large or huge block that is no sample any more. The caller gives it up.
pub type FreeWhole = unsafe fn(&Meta);

/// Frees what waits, if the books are free: large and huge blocks by `whole`, if that is said. The
/// caller holds no lock.
#[inline]
pub fn free_all(whole: Option<FreeWhole>) {
    if !LATE.is_empty() {
        take_and_free(whole);
    }
}

#[cold]
#[inline(never)]
fn take_and_free(whole: Option<FreeWhole>) {
    let mut block = LATE.take();
    while !block.is_null() {
        // SAFETY: `take` gave the blocks to this thread. The link is read before the block is freed
        // or put in again.
        unsafe {
            let next = Late::next(block);
            if !free(block.cast(), whole) {
                put(block.cast());
            }
            block = next;
        }
    }
}

/// Frees the sample at `p`. False: it still waits, and nothing has changed.
///
/// # Safety
/// The sample was in `LATE`, and is the caller's.
unsafe fn free(p: *mut u8, whole: Option<FreeWhole>) -> bool {
    let Some(meta) = page::lookup(p) else { check::not_a_block(p, None) };
    let is_small = meta.head().kind() == Kind::Sampled;
    let kind = meta.kind();
    if whole.is_none() && !is_small {
        return false;
    }
    // SAFETY: who put the sample in gave it up.
    match with_books_at_once(|books| unsafe { take_out(books, p, meta) }) {
        Err(_) => return false,
        Ok(Some(Freed::Done)) => {}
        // SAFETY: the block is this thread's, and no sample any more.
        Ok(Some(Freed::Unmarked)) => whole.into_iter().for_each(|free| unsafe { free(meta) }),
        // The program freed it twice.
        Ok(Some(Freed::NoSample)) => check::not_a_block(p, Some(meta)),
        // A child gave the books up: a small sample is lost.
        Ok(None) if is_small => {}
        Ok(None) => {
            meta.set_kind(plain(kind));
            // SAFETY: the block is this thread's, and no sample any more.
            whole.into_iter().for_each(|free| unsafe { free(meta) });
        }
    }
    true
}
