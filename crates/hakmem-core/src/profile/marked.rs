//! Samples that are large or huge blocks, and the frees of all samples.

use super::asked::after_a_change;
use super::late;
use super::probe;
use super::sampler::Sampler;
use super::table::{Books, is_given_up, with_books};
use crate::backend::page::{Kind, Meta};
use crate::base::size_class::CLASSES;
use crate::base::usage;
use crate::os;

const _: () = assert!(CLASSES <= u8::MAX as usize);

/// The kind without its mark as a sample or as a program heap's.
pub fn plain(kind: Kind) -> Kind {
    match kind {
        Kind::SampledLarge | Kind::ProgramLarge => Kind::Large,
        Kind::SampledHuge | Kind::ProgramHuge => Kind::Huge,
        other => other,
    }
}

/// True for the kind of a sample.
pub fn is_sample(kind: Kind) -> bool {
    matches!(kind, Kind::Sampled | Kind::SampledLarge | Kind::SampledHuge)
}

/// Samples the large or huge block at `meta`, of `size` bytes, if a sample is due. This thread has
/// just allocated it.
pub fn sample_large(sampler: &Sampler, meta: &Meta, size: usize, handed: impl Fn(usize) -> u32) {
    let Some(interval) = sampler.take_large(size as u64, handed, os::now_ns) else { return };
    let sampled = match meta.kind() {
        Kind::Large => Kind::SampledLarge,
        Kind::Huge => Kind::SampledHuge,
        _ => return,
    };
    let took = sampler.with_scratch(|scratch| {
        let stack = scratch.follow();
        with_books(|books| {
            let made =
                books.make_room().then(|| books.bucket(size as u64, interval, stack)).flatten();
            let Some(bucket) = made else {
                books.lost += 1;
                return false;
            };
            books.took(meta.start().addr(), bucket);
            meta.set_kind(sampled);
            true
        })
    });
    if took.flatten() == Some(true) {
        probe::alloc(meta.start().addr(), size as u64, interval);
    }
    after_a_change();
}

/// The result of [`freed`].
#[derive(Debug, PartialEq, Eq)]
pub enum Freed {
    /// The sample is freed, or waits for the books (`late`).
    Done,
    /// The profile has forgotten the sample. The caller frees the block as usual.
    Unmarked,
    /// There is no sample at that address.
    NoSample,
}

/// Frees the sample at `p`, which lies in the slot of `meta`. Frees a small one whole. Takes only
/// the mark off a large or huge one.
///
/// # Safety
/// If there is a sample at `p`, it is live, and the caller gives it up.
#[cold]
#[inline(never)]
pub unsafe fn freed(p: *mut u8, meta: &Meta) -> Freed {
    let kind = meta.kind();
    let is_small = meta.head().kind() == Kind::Sampled;
    let is_marked = matches!(kind, Kind::SampledLarge | Kind::SampledHuge) && p == meta.start();
    if !is_small && !is_marked {
        return Freed::NoSample;
    }
    // SAFETY: the caller gives the sample up.
    let done = with_books(|books| unsafe { take_out(books, p, meta) });
    let done = match done {
        Some(done) => done,
        // A child gave the books up: a small sample is lost.
        None if is_given_up() && is_small => Freed::Done,
        None if is_given_up() => {
            meta.set_kind(plain(kind));
            Freed::Unmarked
        }
        None => {
            // SAFETY: the caller gives the sample up.
            unsafe { late::put(p, meta) };
            Freed::Done
        }
    };
    after_a_change();
    done
}

/// Takes the sample at `p`, in the slot of `meta`, out of the books: see [`freed`].
///
/// # Safety
/// As [`freed`].
pub(super) unsafe fn take_out(books: &mut Books, p: *mut u8, meta: &Meta) -> Freed {
    let Some(bucket) = books.remove(p.addr()) else { return Freed::NoSample };
    books.count_freed(bucket);
    let (size, interval) = books.kind_of(bucket);
    probe::free(p.addr(), size, interval);
    let head = meta.head();
    if head.kind() != Kind::Sampled {
        meta.set_kind(plain(meta.kind()));
        return Freed::Unmarked;
    }
    // SAFETY: `remove` found the block among the live samples, so `pages.take` gave it and nobody
    // gave it back. `head` is its page. The caller gives it up.
    let size = unsafe { books.pages.give(head, p.cast()) };
    usage::add(-(size as i64), 0);
    Freed::Done
}

/// Resizes the sample at `meta`, a large or huge block, by `resize`, which must find a plain block.
/// Whether `resize` moves it or not, it is then a new allocation, and the caller may sample it.
/// None: the block is as it was, also where this thread cannot have the books now. If a fork takes
/// them meanwhile for long, the profile does not count the free.
pub fn resize<R>(meta: &Meta, resize: impl FnOnce() -> Option<R>) -> Option<R> {
    let (at, kind) = (meta.start().addr(), meta.kind());
    let removed = with_books(|books| books.remove(at));
    if removed.is_none() && !is_given_up() {
        return None; // Else the books would have the sample for ever.
    }
    let bucket = removed.flatten();
    meta.set_kind(plain(kind));
    let resized = resize();
    if let Some(bucket) = bucket {
        let kept = with_books(|books| match &resized {
            Some(_) => {
                books.count_freed(bucket);
                let (size, interval) = books.kind_of(bucket);
                probe::free(at, size, interval);
                false
            }
            None => {
                let kept = books.make_room();
                if kept {
                    books.put(at, bucket);
                } else {
                    books.count_freed(bucket);
                }
                kept
            }
        });
        if kept == Some(true) {
            meta.set_kind(kind);
        }
    }
    resized
}
