//! The figures of a program heap. Its lock's holder writes them, and any thread reads them.

use super::{ORPHAN, ProgramHeap};
use crate::base::counter::Counter;
use crate::base::sync::{AtomicU64, Ordering::Relaxed};
use crate::types::program_heap::{HeapName, NAME_BYTES, ProgramHeap as Read};

/// The figures. They begin with the name, so that a reader finds all of it at one place.
#[repr(C)]
pub struct Figures {
    /// The bytes of the name, eight in a word.
    pub name: [AtomicU64; NAME_BYTES / 8],
    /// Bytes of live blocks, each with the size of its class, and of blocks ready in scopes.
    pub live: Counter<u64>,
    /// The most that `live` was.
    pub peak: Counter<u64>,
    /// Blocks allocated.
    pub allocations: Counter<u64>,
    /// Blocks that came back: freed, or given back by a reset.
    pub frees: Counter<u64>,
    /// Requests that would have passed the limit.
    pub refused: Counter<u64>,
    /// Bytes of the slots and segments that the heap has.
    pub held: Counter<u64>,
    /// Of these, what was reserved.
    pub reserved: Counter<u64>,
    /// Bytes of blocks that pages have handed out.
    pub in_pages: Counter<u64>,
}

impl Figures {
    /// Sets the name, as much of it as there is room for. Reports are text of several forms, so a
    /// character that is no printable ASCII, or means something in one of them, becomes `_`.
    pub(super) fn set_name(&self, name: &str) {
        let mut bytes = [0; NAME_BYTES];
        for (to, from) in bytes[..NAME_BYTES - 1].iter_mut().zip(name.chars()) {
            let is_plain = matches!(from, ' '..='~')
                && !matches!(from, '"' | '\'' | '\\' | '<' | '>' | '&' | ',');
            *to = if is_plain { from as u8 } else { b'_' };
        }
        for (word, bytes) in self.name.iter().zip(bytes.chunks_exact(8)) {
            word.store(u64::from_ne_bytes(core::array::from_fn(|i| bytes[i])), Relaxed);
        }
    }

    /// The name.
    pub fn name(&self) -> HeapName {
        let mut name = [0; NAME_BYTES];
        for (word, bytes) in self.name.iter().zip(name.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        HeapName(name)
    }

    /// Sets all figures to zero, for a heap that begins.
    pub(super) fn begin(&self) {
        let all =
            [&self.live, &self.peak, &self.allocations, &self.frees, &self.refused, &self.held];
        all.into_iter().chain([&self.reserved, &self.in_pages]).for_each(|figure| figure.set(0));
    }
}

impl ProgramHeap {
    /// The figures as values. A reader beside a call of another thread sees the middle of it.
    pub fn read(&self) -> Read {
        let (figures, limit) = (&self.figures, self.limit.load(Relaxed));
        let live = figures.live.get();
        Read {
            name: figures.name(),
            dropped: self.state.load(Relaxed) == ORPHAN,
            live_bytes: live,
            // An allocation notes the peak after the block.
            peak_live_bytes: figures.peak.get().max(live),
            limit_bytes: (limit != usize::MAX).then_some(limit as u64),
            allocations: figures.allocations.get(),
            frees: figures.frees.get(),
            refused: figures.refused.get(),
            held_bytes: figures.held.get(),
            reserved_bytes: figures.reserved.get(),
        }
    }
}
