//! The inside of the allocator, for models of the whole allocator.

pub use crate::os::{fork, pass_time};
use crate::{heap, policy, purge, thread};

/// Forgets the threads of the last schedule. A model calls this first in each schedule.
pub fn begin() {
    thread::forget_all();
}

/// Purges all free memory. Returns the bytes given back.
pub fn trim() -> usize {
    purge::all_with_pauses()
}

/// The bytes that are free and not given back.
pub fn free_bytes() -> usize {
    purge::free_bytes()
}

/// Sets the MiB of idle memory from which there is a scavenger; 0: there is none.
pub fn scavenge_from(mib: u32) {
    policy::SCAVENGE_MIB.set(mib);
}

/// Waits until the scavenger's thread has ended because it had nothing to do.
pub fn await_scavenger() {
    while purge::is_scavenged() {
        crate::base::sync::spin();
    }
}

/// The number of heaps made so far.
pub fn heaps() -> u64 {
    heap::all::heaps_made()
}
