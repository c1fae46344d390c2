//! A hint that is right once everybody is through: under which level a segment is listed.
//!
//! Whoever changed the segment runs [`Level::settle`]; it ends only when what it listed is what is true then. Two that
//! do so at once may leave the segment listed under a level that it has not, which who looks there finds out, but
//! never unlisted while it has room.

use crate::mutant::{Mutant, is};
use crate::sync::{AtomicU8, Ordering::SeqCst, const_new};

/// The level under which a segment is listed; 0: under none. All zero bytes are that.
#[derive(Debug)]
pub struct Level(AtomicU8);

impl Default for Level {
    fn default() -> Self {
        Self::new()
    }
}

impl Level {
    const_new! {
        /// Listed under none.
        pub fn new() -> Self {
            Self(AtomicU8::new(0))
        }
    }

    /// The level, a moment ago.
    #[inline]
    pub fn get(&self) -> u8 {
        self.0.load(SeqCst)
    }

    /// Sets it to none, and returns what it was.
    pub fn clear(&self) -> u8 {
        self.0.swap(0, SeqCst)
    }

    /// Lists the segment under the level that `wanted` finds. Sequentially consistent throughout: whoever clears a bit
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
            if wanted() == now || is(Mutant::LevelLooksOnce) {
                return;
            }
            if now > 0 {
                unlist(now);
            }
        }
    }
}
