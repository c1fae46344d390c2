//! Large blocks, more than 64 KiB and at most 1 MiB: whole slots of a segment. No heap owns them,
//! only the slot word of the segment knows of them.
//!
//! Any thread frees a large block straight into its segment. So a consumer's frees never wait for
//! the producer. The heap of the freeing thread keeps the last few freed blocks, as a program often
//! wants a freed buffer again at once. A block grows into the slots behind it if they are free, and
//! lets go of its last slots when it shrinks. One that realloc makes a little smaller than 64 KiB
//! stays as it is (`api::front::resize`), and so does a huge block at 1 MiB.
//!
//! Rules
//! 1. The slots of a cached block belong to the cache. Their metadata says `Kind::Free`.
//! 2. A cache belongs to its heap, and only the heap's holder uses it.
//! 3. If there are several nodes of memory, the cache is closed: it takes a block on the slow path
//!    alone, which looks whose node the block is of. So the fast path need not look. A heap from
//!    before there were several closes its cache on the next slow path.

pub(crate) mod huge;

use crate::backend::arena::SLOT;
use crate::backend::nodes;
use crate::backend::page::{Kind, Meta};
use crate::backend::segment;
use crate::base::renew::Renew;
use crate::base::sync::{AtomicU64, Ordering::Relaxed};
use crate::base::usage;
use core::cell::Cell;

/// The largest request that becomes a large block, in bytes.
pub const LARGE_MAX: usize = 16 * SLOT;
/// Freed blocks that a heap keeps …
const WAYS: usize = 4;
/// … and the slots they may hold together.
const KEPT_SLOTS: i32 = 16;
/// What a closed cache lacks of room: more than it ever has.
const CLOSED: i32 = 1 << 10;

/// Frees by threads without a heap.
pub static HEAPLESS: AtomicU64 = AtomicU64::new(0);

/// Frees of large blocks that no heap has counted.
pub fn heapless_frees() -> u64 {
    HEAPLESS.load(Relaxed)
}

/// Counts anew. For the child of a fork.
pub fn reset_heapless_frees() {
    HEAPLESS.renew(0);
}

/// Large blocks that were freed recently, in a heap.
pub struct Cache {
    /// The slots of the block of each way. 0: the way has none.
    spans: [Cell<u8>; WAYS],
    /// The slots that further blocks may hold: KEPT_SLOTS less the sum of `spans`, and less CLOSED
    /// if the cache is closed (rule 3).
    room: Cell<i32>,
    /// The way whose block the cache gives up next.
    victim: Cell<u32>,
    /// Where the block of each way starts …
    starts: [Cell<*mut u8>; WAYS],
    /// … and its metadata.
    metas: [Cell<*mut Meta>; WAYS],
}

impl Cache {
    #[inline(always)]
    fn take(&self, span: u32) -> Option<(*mut u8, &'static Meta)> {
        let way = self.spans.iter().position(|slots| slots.get() == span as u8)?;
        self.spans[way].set(0);
        self.room.set(self.room.get() + span as i32);
        // SAFETY: a way with slots has a block's metadata, which is accessible for ever (`arena`
        // rule 4). All fields may be shared between threads.
        let meta = unsafe { self.metas[way].get().as_ref().unwrap_unchecked() };
        Some((self.starts[way].get(), meta))
    }

    #[inline(always)]
    fn put_if_room(&self, p: *mut u8, meta: &Meta, span: u32) -> bool {
        let room = self.room.get() - span as i32;
        if room < 0 {
            return false;
        }
        let Some(way) = self.spans.iter().position(|slots| slots.get() == 0) else { return false };
        self.spans[way].set(span as u8);
        self.room.set(room);
        self.starts[way].set(p);
        self.metas[way].set(meta.raw());
        true
    }

    fn make_room(&self, meta: &Meta, span: u32, home: &segment::Home) -> bool {
        let mut is_told = false;
        self.open();
        while !self.put_if_room(meta.start(), meta, span) {
            let victim = self.victim.get();
            self.victim.set((victim + 1) % WAYS as u32);
            is_told |= self.let_go(victim as usize, home);
        }
        self.close_if_several();
        is_told
    }

    /// Opens the cache.
    fn open(&self) {
        let room = self.room.get();
        self.room.set(if room < -KEPT_SLOTS { room + CLOSED } else { room });
    }

    /// Closes the cache if it is to be closed (rule 3).
    #[inline(always)]
    pub fn close_if_several(&self) {
        if nodes::are_several() {
            self.close();
        }
    }

    #[cold]
    fn close(&self) {
        self.open();
        self.room.set(self.room.get() - CLOSED);
    }

    #[inline(always)]
    fn let_go(&self, way: usize, home: &segment::Home) -> bool {
        let span = u32::from(self.spans[way].replace(0));
        if span == 0 {
            return false;
        }
        self.room.set(self.room.get() + span as i32);
        // SAFETY: a way with slots has a block's metadata, which is accessible for ever (`arena`
        // rule 4). The slots of a cached block belong to the cache (rule 1), and this call has
        // taken the block out of it.
        unsafe { home.release(&*self.metas[way].get(), span) }
    }

    /// Forgets all blocks. For a new heap, and for the child of a fork, whose copy of another
    /// thread's cache may be half written.
    pub fn forget(&self) {
        self.spans.iter().for_each(|slots| slots.set(0));
        self.room.set(KEPT_SLOTS);
        self.close_if_several();
    }

    /// Lets go of all blocks. `home` is that of the cache's heap.
    pub fn empty(&self, home: &segment::Home) {
        (0..WAYS).for_each(|way| _ = self.let_go(way, home));
    }
}

#[inline(always)]
fn slots_for(n: usize) -> u32 {
    n.div_ceil(SLOT) as u32
}

/// Bytes of a large block for `n` bytes.
#[inline(always)]
pub fn size_for(n: usize) -> usize {
    slots_for(n) as usize * SLOT
}

/// Takes a block for `n` ≤ LARGE_MAX bytes, aligned to 64 KiB, from a heap's cache. None: the cache
/// has no such block.
#[inline(always)]
pub fn cached(cache: &Cache, n: usize) -> Option<*mut u8> {
    let (p, meta) = cache.take(slots_for(n))?;
    meta.set_kind(Kind::Large);
    Some(p)
}

/// Takes a block for `n` ≤ LARGE_MAX bytes from a segment. The flag says whether it is zero. None:
/// out of memory.
pub fn fresh(n: usize, home: &segment::Home) -> Option<(&'static Meta, bool)> {
    let span = slots_for(n);
    let (meta, zero) = segment::claim(span, home)?;
    meta.span.store(span, Relaxed);
    meta.set_kind(Kind::Large);
    Some((meta, zero))
}

/// Frees the large block at `p`, whose metadata is `meta` and which has `span` slots, into a heap's
/// cache. False: the cache has no room, or is closed. Then the caller must call [`make_room`].
///
/// # Safety
/// It is a live large block, and the caller gives it up. The caller holds the heap of `cache`.
#[inline(always)]
pub unsafe fn keep(cache: &Cache, p: *mut u8, meta: &Meta, span: u32) -> bool {
    meta.set_kind(Kind::Free);
    cache.put_if_room(p, meta, span)
}

/// Lets go of blocks of the cache until there is room for `meta`, which [`keep`] did not keep; or
/// of this block, if it is of another node. `home` is that of the cache's heap. True: there may be
/// work for a purge.
///
/// # Safety
/// The block is the caller's, who called `keep` and gives it up. The caller holds the heap of
/// `cache`.
pub unsafe fn make_room(cache: &Cache, meta: &Meta, home: &segment::Home) -> bool {
    let span = meta.span.load(Relaxed);
    if home.is_far(meta) {
        cache.close_if_several();
        // SAFETY: the block owns these slots, and the caller gives it up. Since `keep`, their
        // metadata says `Kind::Free`.
        return unsafe { home.release(meta, span) };
    }
    cache.make_room(meta, span, home)
}

/// Frees the large block at `meta`, for a thread without a heap.
///
/// # Safety
/// It is a live large block, and the caller gives it up.
pub unsafe fn free(meta: &Meta) {
    let span = meta.span.load(Relaxed);
    meta.set_kind(Kind::Free);
    HEAPLESS.fetch_add(1, Relaxed);
    usage::add(-((span as usize * SLOT) as i64), 0);
    // SAFETY: the block owned these slots, and the caller has given it up. Their metadata says
    // `Kind::Free`.
    unsafe { segment::release(meta, span) };
}

/// Bytes of the large block at `meta`.
pub fn size(meta: &Meta) -> usize {
    meta.span.load(Relaxed) as usize * SLOT
}

/// Makes the large block at `meta` hold `n` bytes where it is, if the slots behind it allow.
/// Returns the change in bytes. None: it did not fit, and nothing has changed.
///
/// # Safety
/// It is a live large block. Nobody else uses it during the call, nor the bytes behind `n`
/// afterwards.
pub unsafe fn resize(meta: &Meta, n: usize) -> Option<i64> {
    if n > LARGE_MAX {
        return None;
    }
    let (old, new) = (meta.span.load(Relaxed), slots_for(n));
    if new < old {
        meta.span.store(new, Relaxed);
        // SAFETY: the block has `old` slots, so slot `new` is one of them. The block's length no
        // longer includes the tail, which its user gave up.
        unsafe { segment::release(meta.forward(new), old - new) };
    } else if new > old {
        if !segment::extend(meta, old, new - old) {
            return None;
        }
        meta.span.store(new, Relaxed);
    }
    Some((i64::from(new) - i64::from(old)) * SLOT as i64)
}
