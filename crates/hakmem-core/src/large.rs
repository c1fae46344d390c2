//! Large allocations, over 64 KiB to 1 MiB: whole slots of a segment, owned by nobody but the slot word.
//!
//! Any thread frees them straight into the segment, so a consumer's frees never wait for the producer. Growing takes
//! the neighbouring slots where they are free; shrinking lets the tail go.

use crate::arena::PAGE;
use crate::page::{Kind, Meta};
use crate::segment;
use crate::usage;
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// The largest request served here, in bytes.
pub const LARGE_MAX: usize = 16 * PAGE;

static HANDED: AtomicU64 = AtomicU64::new(0);
static RETURNED: AtomicU64 = AtomicU64::new(0);

/// Allocations and frees so far.
pub fn counts() -> (u64, u64) {
    (HANDED.load(Relaxed), RETURNED.load(Relaxed))
}

fn slots_for(n: usize) -> u32 {
    n.div_ceil(PAGE) as u32
}

/// Takes room for `n` ≤ LARGE_MAX bytes, aligned to 64 KiB. The flag says whether it is zero. None: out of memory.
pub fn alloc(n: usize) -> Option<(&'static Meta, bool)> {
    let span = slots_for(n);
    let (meta, zero) = segment::claim(span)?;
    meta.span.store(span, Relaxed);
    meta.set_kind(Kind::Large);
    HANDED.fetch_add(1, Relaxed);
    usage::add((span as usize * PAGE) as i64);
    Some((meta, zero))
}

/// Frees what starts at `meta`. Returns the bytes freed.
///
/// # Safety
/// It is a live large allocation and the caller's to free.
pub unsafe fn free(meta: &Meta) -> usize {
    let span = meta.span.load(Relaxed);
    meta.set_kind(Kind::Free);
    // SAFETY: the slots were the allocation's, which ends here.
    unsafe { segment::release(meta, span) };
    RETURNED.fetch_add(1, Relaxed);
    usage::add(-((span as usize * PAGE) as i64));
    span as usize * PAGE
}

/// Bytes that the allocation at `meta` holds.
pub fn size(meta: &Meta) -> usize {
    meta.span.load(Relaxed) as usize * PAGE
}

/// Makes it hold `n` bytes where it is, if the slots behind it allow.
///
/// # Safety
/// It is live, and nobody else uses it during the call.
pub unsafe fn resize(meta: &Meta, n: usize) -> bool {
    if n > LARGE_MAX {
        return false;
    }
    let (old, new) = (meta.span.load(Relaxed), slots_for(n));
    if new < old {
        meta.span.store(new, Relaxed);
        // SAFETY: the tail was the allocation's, and is no more.
        unsafe { segment::release(meta.forward(new), old - new) };
    } else if new > old {
        if !segment::extend(meta, old, new - old) {
            return false;
        }
        meta.span.store(new, Relaxed);
    }
    usage::add((i64::from(new) - i64::from(old)) * PAGE as i64);
    true
}
