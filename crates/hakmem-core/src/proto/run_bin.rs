//! Under which bin a segment is listed: a hint that is right once no thread is changing the
//! segment.
//!
//! ```text
//! settle:  1. asks for the wanted bin, and swaps it in
//!          2. unlists the segment under the old bin, and lists it under the new one
//!          3. asks again: the same bin: done · another one: unlists the segment, and goes to 1
//! ```
//!
//! Rules
//! 1. Each thread that has changed the segment's slots calls [`RunBin::settle`]. That returns only
//!    when the bin that it listed is the bin that the slots still call for.
//! 2. Two threads that settle at once may leave the segment listed under a wrong bin too. A thread
//!    that searches there finds that out.
//! 3. But they never leave a segment with free slots unlisted.
//!
//! Model: `tests/loom/run_bin.rs`.

use crate::base::sync::{AtomicU8, Ordering::SeqCst, const_new};

/// The bin under which a segment is listed. 0, or all zero bytes: under none.
#[derive(Debug)]
pub struct RunBin(AtomicU8);

impl Default for RunBin {
    fn default() -> Self {
        Self::new()
    }
}

impl RunBin {
    const_new! {
        /// Of a segment that is listed under no bin.
        pub fn new() -> Self {
            Self(AtomicU8::new(0))
        }
    }

    /// The bin at some moment during the call.
    #[inline]
    pub fn get(&self) -> u8 {
        self.0.load(SeqCst)
    }

    /// Sets the bin to none, and returns the bin before.
    pub fn clear(&self) -> u8 {
        self.0.swap(0, SeqCst)
    }

    /// Lists the segment under the bin that `wanted` finds. All steps are sequentially consistent.
    /// A thread that clears a bit must see, when it calls `wanted` again, the slots for which
    /// another thread set that bit.
    pub fn settle(&self, wanted: impl Fn() -> u8, list: impl Fn(u8), unlist: impl Fn(u8)) {
        loop {
            let now = wanted();
            let old = self.0.swap(now, SeqCst);
            if old != now && old > 0 {
                unlist(old);
            }
            if now > 0 {
                list(now);
            }
            if wanted() == now {
                return;
            }
            if now > 0 {
                unlist(now);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;

    use super::*;
    use std::{cell::RefCell, vec::Vec};

    /// The bins that `settle` lists (true) and unlists (false). `wanted` has the wanted bin for
    /// each time that `settle` asks.
    fn settle(bin: &RunBin, wanted: &[u8]) -> Vec<(bool, u8)> {
        let looks = RefCell::new(wanted.iter().copied());
        let done = RefCell::new(Vec::new());
        bin.settle(
            || looks.borrow_mut().next().expect("it is settled"),
            |bin| done.borrow_mut().push((true, bin)),
            |bin| done.borrow_mut().push((false, bin)),
        );
        assert_eq!(looks.into_inner().next(), None);
        done.into_inner()
    }

    #[test]
    fn what_is_listed_last_is_what_is_true_then() {
        let bin = RunBin::new();
        assert_eq!(settle(&bin, &[3, 3]), [(true, 3)]);
        assert_eq!(bin.get(), 3);
        assert_eq!(settle(&bin, &[3, 3]), [(true, 3)]);
        assert_eq!(settle(&bin, &[5, 5]), [(false, 3), (true, 5)]);
        // The wanted bin changes meanwhile.
        assert_eq!(
            settle(&bin, &[2, 4, 4, 4]),
            [(false, 5), (true, 2), (false, 2), (false, 2), (true, 4)]
        );
        assert_eq!(settle(&bin, &[0, 1, 1, 1]), [(false, 4), (true, 1)]);
        assert_eq!(settle(&bin, &[0, 0]), [(false, 1)]);
        assert_eq!(settle(&bin, &[0, 0]), []);
        assert_eq!(settle(&bin, &[4, 4]), [(true, 4)]);
        assert_eq!((bin.clear(), bin.get(), bin.clear()), (4, 0, 0));
    }
}
