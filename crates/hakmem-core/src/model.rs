//! What models of the whole allocator ask of its inside.

pub use crate::os::{fork, pass_time};
use crate::{heap, policy, purge, thread};

/// To be called first in each schedule: threads of the last one are no more.
pub fn begin() {
    thread::forget_all();
}

/// Gives back everything that is free. Returns the bytes.
pub fn trim() -> usize {
    purge::all()
}

/// Bytes that are free and not given back.
pub fn idle_bytes() -> usize {
    purge::idle_bytes()
}

/// Sets the MiB of idle memory at which there is a scavenger; 0: there is none.
pub fn scavenge_from(mib: u32) {
    policy::SCAVENGE_MIB.set(mib);
}

/// Waits until the scavenger's thread has ended, having nothing to do.
pub fn await_scavenger() {
    while purge::is_scavenged() {
        crate::base::sync::spin();
    }
}

/// Heaps made so far.
pub fn heaps() -> u64 {
    heap::all::heaps_made()
}
