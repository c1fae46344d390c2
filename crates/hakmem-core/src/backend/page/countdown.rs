//! The countdown of a page, and what it says of the page's blocks: the equations are in `page`.

use super::{Meta, PageState};

impl Meta {
    /// The length of `free`, for a page in a queue.
    #[inline(always)]
    pub fn listed(&self) -> i32 {
        let in_holes = i32::from(self.in_holes.get()) + i32::from(self.park_at.get());
        self.carved.get() as i32 - in_holes - self.list.until_slow.get()
    }

    /// Blocks that are free and on the page's own list, or in holes. Only the owner may ask
    /// (`page` rule 1).
    pub fn waiting(&self) -> u64 {
        let used = match self.state.get() {
            PageState::Full => {
                self.carved.get() as i32 - self.unfull_at.get() + self.list.until_slow.get()
            }
            _ => self.list.until_slow.get() + i32::from(self.park_at.get()),
        };
        (self.carved.get() as i32 - used).max(0) as u64
    }

    /// Starts the countdown of a page in a queue that has `used` used blocks. It ends when only
    /// `base` are used.
    pub fn count_down(&self, used: i32, base: u8) {
        self.park_at.set(base);
        self.list.until_slow.set(used - i32::from(base));
    }
}
