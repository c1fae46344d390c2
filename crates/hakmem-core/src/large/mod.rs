//! Large allocations, over 64 KiB to 1 MiB: whole slots of a segment, owned by nobody but the slot word.
//!
//! Any thread frees them straight into the segment, so a consumer's frees never wait for the producer; the freeing
//! thread's heap keeps the last few, since a buffer that is freed is often wanted again at once. Growing takes the
//! neighbouring slots where they are free; shrinking lets the tail go.
//!
//! Rule: a cached allocation's slots are the cache's, its metadata says `Kind::Free`.

pub(crate) mod huge;

use crate::backend::arena::SLOT;
use crate::backend::page::{Kind, Meta};
use crate::backend::segment;
use crate::base::sync::{AtomicU64, Ordering::Relaxed};
use crate::base::usage;
use core::cell::Cell;
use core::ptr::null_mut;

/// The largest request served here, in bytes.
pub const LARGE_MAX: usize = 16 * SLOT;
/// Allocations that a heap keeps …
const WAYS: usize = 4;
/// … and the slots they may hold together.
const KEPT_SLOTS: u32 = 16;

/// Frees by threads without a heap.
pub static STRAY: AtomicU64 = AtomicU64::new(0);

/// Frees that no heap has counted.
pub fn stray_frees() -> u64 {
    STRAY.load(Relaxed)
}

/// In the child of a fork, which counts anew.
pub fn reset_stray_frees() {
    STRAY.store(0, Relaxed);
}

/// Recently freed allocations, in a heap.
pub struct Cache {
    ways: [Cell<*mut Meta>; WAYS],
    slots: Cell<u32>,
    /// The way that is given up next.
    victim: Cell<u32>,
}

impl Cache {
    fn take(&self, span: u32) -> Option<&'static Meta> {
        for way in &self.ways {
            // SAFETY: metadata is for ever.
            let Some(meta) = (unsafe { way.get().as_ref() }) else { continue };
            if meta.span.load(Relaxed) == span {
                way.set(null_mut());
                self.slots.set(self.slots.get() - span);
                return Some(meta);
            }
        }
        None
    }

    /// Keeps an allocation that was freed, or lets it go. True if any slots were let go.
    #[inline]
    fn put(&self, meta: &Meta, span: u32) -> bool {
        if self.put_if_room(meta, span) {
            return false;
        }
        self.make_room(meta, span);
        true
    }

    #[inline]
    fn put_if_room(&self, meta: &Meta, span: u32) -> bool {
        let slots = self.slots.get() + span;
        let free = self.ways.iter().find(|way| way.get().is_null());
        let Some(way) = free.filter(|_| slots <= KEPT_SLOTS) else { return false };
        way.set(meta.raw());
        self.slots.set(slots);
        true
    }

    #[cold]
    #[inline(never)]
    fn make_room(&self, meta: &Meta, span: u32) {
        while !self.put_if_room(meta, span) {
            let victim = self.victim.get();
            self.victim.set((victim + 1) % WAYS as u32);
            self.let_go(&self.ways[victim as usize]);
        }
    }

    fn let_go(&self, way: &Cell<*mut Meta>) {
        // SAFETY: metadata is for ever; cached slots are the cache's.
        unsafe {
            if let Some(meta) = way.replace(null_mut()).as_ref() {
                let span = meta.span.load(Relaxed);
                self.slots.set(self.slots.get() - span);
                segment::release(meta, span);
            }
        }
    }

    /// Forgets everything: in the child of a fork, where another thread's cache may be half written.
    pub fn forget(&self) {
        self.ways.iter().for_each(|way| way.set(null_mut()));
        self.slots.set(0);
    }

    /// Lets everything go.
    pub fn empty(&self) {
        self.ways.iter().for_each(|way| self.let_go(way));
    }
}

fn slots_for(n: usize) -> u32 {
    n.div_ceil(SLOT) as u32
}

/// Takes room for `n` ≤ LARGE_MAX bytes, aligned to 64 KiB, from a heap's cache. None: it has none.
pub fn cached(cache: &Cache, n: usize) -> Option<&'static Meta> {
    let meta = cache.take(slots_for(n))?;
    meta.set_kind(Kind::Large);
    Some(meta)
}

/// Takes it from a segment. The flag says whether it is zero. None: out of memory.
pub fn fresh(n: usize) -> Option<(&'static Meta, bool)> {
    let span = slots_for(n);
    let (meta, zero) = segment::claim(span)?;
    meta.span.store(span, Relaxed);
    meta.set_kind(Kind::Large);
    Some((meta, zero))
}

/// Frees what starts at `meta`, into a heap's cache if there is one. True if slots went back to a segment.
///
/// # Safety
/// It is a live large allocation and the caller's to free.
pub unsafe fn free(cache: Option<&Cache>, meta: &Meta) -> bool {
    let span = meta.span.load(Relaxed);
    meta.set_kind(Kind::Free);
    if let Some(cache) = cache {
        return cache.put(meta, span);
    }
    STRAY.fetch_add(1, Relaxed);
    usage::add(-((span as usize * SLOT) as i64), 0);
    // SAFETY: the slots were the allocation's, which ends here.
    unsafe { segment::release(meta, span) };
    true
}

/// Bytes that the allocation at `meta` holds.
pub fn size(meta: &Meta) -> usize {
    meta.span.load(Relaxed) as usize * SLOT
}

/// Makes it hold `n` bytes where it is, if the slots behind it allow. Returns the change in bytes.
///
/// # Safety
/// It is live, and nobody else uses it during the call.
pub unsafe fn resize(meta: &Meta, n: usize) -> Option<i64> {
    if n > LARGE_MAX {
        return None;
    }
    let (old, new) = (meta.span.load(Relaxed), slots_for(n));
    if new < old {
        meta.span.store(new, Relaxed);
        // SAFETY: the tail was the allocation's, and is no more.
        unsafe { segment::release(meta.forward(new), old - new) };
    } else if new > old {
        if !segment::extend(meta, old, new - old) {
            return None;
        }
        meta.span.store(new, Relaxed);
    }
    Some((i64::from(new) - i64::from(old)) * SLOT as i64)
}
