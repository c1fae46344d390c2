//! The profile for another process: `hakmem profile --pid` switches it on and off, and reads it,
//! by writes and reads of this process's memory. This process does nothing for it but what it does
//! for its own profile.
//!
//! ```text
//! the other process     last = n + 1 · interval = I · highest byte of RUN = n + 1
//! a heap's next refill  sees a run that it does not know: prepares, reads I, draws its points
//! the other process     … number? · words · buckets and frames · number? …
//! the other process     highest byte of RUN = 0
//! ```
//!
//! Rules
//! 1. The highest byte of `RUN` is written by another process, and by this one only in the child of
//!    a fork and for books that are given up. The other bytes are written by this process alone,
//!    by atomic operations that keep the highest one. A byte is written whole. So neither side
//!    undoes what the other does, whatever meets.
//! 2. The other process writes `ASKED` while its byte is 0. A heap that reads a half-written
//!    interval draws its points with it, and records it with its samples: the estimate stays right
//!    (`Sampler::begin`). Only the range has to be forced.
//! 3. `SHOWN` says where buckets and frames lie. Both only grow: what is shown is written, and
//!    never changes, but for the counts. Before the memory of one of them goes, `SHOWN` says that
//!    there is none. So a reader that finds the same number before and after it read the tables has
//!    read tables. Each count is one that the bucket had in the meantime.
//! 4. Two processes outside agree by a lock of their own, which this process does not know.

use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::{AtomicU32, AtomicU64};
use crate::os;
use crate::proto::journal::{Journal, Record};
use core::mem::offset_of;

/// The byte of `RUN` that is the other process's.
#[cfg_attr(any(miri, shuttle), allow(dead_code, reason = "checkers have no note"))]
pub const SWITCH: usize = 3;

/// What another process writes before it switches the profile on (rule 2).
#[repr(C)]
pub struct Asked {
    /// The interval of its run, in bytes.
    pub interval: AtomicU64,
    /// Its last run: what it wrote to the highest byte of `RUN`.
    pub last: AtomicU32,
}

/// See [`Asked`].
pub static ASKED: Asked = Asked { interval: AtomicU64::new(0), last: AtomicU32::new(0) };

type Shown = Journal<1, 4>;
/// One record: the address of the buckets, their number, the address of the frames, their number
/// (rule 3). The holder of the books' lock is the writer.
pub static SHOWN: Shown = Journal::new();

/// Where the record's number lies in [`SHOWN`], and its words.
pub const RECORD: usize = offset_of!(Shown, records) + offset_of!(Record<4>, number);
/// See [`RECORD`].
pub const BUCKETS: usize = offset_of!(Shown, records) + offset_of!(Record<4>, words);
/// See [`RECORD`].
pub const FRAMES: usize = BUCKETS + 16;

/// The interval that another process named. 0: none did.
pub fn interval() -> u64 {
    ASKED.interval.load(Relaxed)
}

/// Finds what stacks need, for a run that another process began. The caller is in the middle of an
/// allocation.
pub fn prepare() {
    os::find_objects_at_once();
    os::find_program();
}

/// Says that there is nothing to read. The caller holds the books' lock.
pub fn hide() {
    SHOWN.note([0; 4]);
}

/// Says where buckets and frames lie. The caller holds the books' lock.
pub fn show(buckets: (usize, usize), frames: (usize, usize)) {
    SHOWN.note([buckets.0, buckets.1, frames.0, frames.1].map(|word| word as u64));
}
