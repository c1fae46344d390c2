//! A hint that is right once everybody is through: under which bin a segment is listed.
//!
//! Whoever changed the segment runs [`RunBin::settle`]; it ends only when what it listed is what is true then. Two that
//! do so at once may leave the segment listed under a bin that it has not, which who looks there finds out, but
//! never unlisted while it has room.

use crate::base::sync::{AtomicU8, Ordering::SeqCst, const_new};

/// The bin under which a segment is listed; 0: under none. All zero bytes are that.
#[derive(Debug)]
pub struct RunBin(AtomicU8);

impl Default for RunBin {
    fn default() -> Self {
        Self::new()
    }
}

impl RunBin {
    const_new! {
        /// Listed under none.
        pub fn new() -> Self {
            Self(AtomicU8::new(0))
        }
    }

    /// The bin, a moment ago.
    #[inline]
    pub fn get(&self) -> u8 {
        self.0.load(SeqCst)
    }

    /// Sets it to none, and returns what it was.
    pub fn clear(&self) -> u8 {
        self.0.swap(0, SeqCst)
    }

    /// Lists the segment under the bin that `wanted` finds. Sequentially consistent throughout: whoever clears a bit
    /// must see, when it looks at the slots again, what made another thread set it.
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

    /// What is listed (true) and unlisted when the bins that are wanted are `wanted`, one for each look.
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
        // It changes meanwhile.
        assert_eq!(settle(&bin, &[2, 4, 4, 4]), [(false, 5), (true, 2), (false, 2), (false, 2), (true, 4)]);
        assert_eq!(settle(&bin, &[0, 1, 1, 1]), [(false, 4), (true, 1)]);
        assert_eq!(settle(&bin, &[0, 0]), [(false, 1)]);
        assert_eq!(settle(&bin, &[0, 0]), []);
        assert_eq!(settle(&bin, &[4, 4]), [(true, 4)]);
        assert_eq!((bin.clear(), bin.get(), bin.clear()), (4, 0, 0));
    }
}
