//! What ends a scope of a heap.
//!
//! Rules
//! 1. A thread that entered a scope leaves it, also while a panic unwinds.

use crate::program::ProgramHeap;
use crate::purge;
use crate::thread::scope;

/// The thread is in a scope of the heap. Ends it also while a panic unwinds.
pub(super) struct Entered(pub(super) &'static ProgramHeap);

impl Drop for Entered {
    fn drop(&mut self) {
        scope::leave_any(self.0);
        if self.0.take_released() {
            purge::tick();
        }
    }
}
