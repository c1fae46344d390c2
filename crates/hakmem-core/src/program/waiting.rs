//! Blocks that wait in the inbox of a heap. A signal handler freed them while its own thread had
//! the lock.
//!
//! Rules
//! 1. A thread that frees a block and may not wait for the lock puts it in. The next one to take
//!    the lock takes all out (`program` rule 4).

use super::{Locked, of};
use crate::profile::Sample;
use crate::proto::inbox::{Link, Waiting};

impl Locked {
    /// Frees what signal handlers have freed (rule 4), up to the first sample, which it returns.
    /// The caller counts its free without the lock, and comes again.
    #[cold]
    pub(super) fn receive(&self) -> Option<Sample> {
        let mut block = self.heap.inbox.take();
        let mut sample = None;
        while !block.is_null() {
            // SAFETY: the inbox has blocks of this heap that were given up. The link is read before
            // the block is freed or put into the inbox again.
            unsafe {
                let next = Waiting::next(block);
                if sample.is_some() {
                    self.heap.inbox.push_chain(block, block, 0);
                } else if let Some((_, head)) = of(block.cast()) {
                    sample = self.free(block.cast(), head);
                }
                block = next;
            }
        }
        sample
    }
}
