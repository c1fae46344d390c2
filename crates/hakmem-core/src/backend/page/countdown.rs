//! The countdown of a page, and what it says of the page's blocks: the equations are in `page`.

use super::{Meta, PageState};

impl Meta {
    /// The length of `free`, for a page in a queue.
    #[inline(always)]
    pub fn listed(&self) -> i32 {
        let in_holes = i32::from(self.in_holes.get()) + i32::from(self.park_at.get());
        self.carved.get() as i32 - in_holes - self.until_slow.get()
    }

    /// Blocks that are free and on the page's own list, or in holes. Only the owner may ask
    /// (`page` rule 1).
    pub fn waiting(&self) -> u64 {
        let used = match self.state.get() {
            PageState::Full => {
                self.carved.get() as i32 - self.unfull_at.get() + self.until_slow.get()
            }
            _ => self.until_slow.get() + i32::from(self.park_at.get()),
        };
        (self.carved.get() as i32 - used).max(0) as u64
    }

    /// Starts the countdown of a page in a queue that has `used` used blocks. It ends when only
    /// `base` are used.
    pub fn count_down(&self, used: i32, base: u8) {
        self.park_at.set(base);
        self.until_slow.set(used - i32::from(base));
    }

    /// Counts one used block less. True: the countdown is over. For the fast path: as one
    /// instruction, which the compiler does not make of an atomic load and a store.
    #[cfg(all(target_arch = "x86_64", not(any(miri, shuttle, sanitizer))))]
    #[inline(always)]
    pub fn count_freed(&self) -> bool {
        // SAFETY: the word is the caller's to write (`page` rule 1). The instruction loads and
        // stores it, each as a relaxed step would.
        unsafe {
            core::arch::asm!(
                "dec dword ptr [{page} + {word}]",
                "jz {over}",
                page = in(reg) self,
                word = const core::mem::offset_of!(Meta, until_slow),
                over = label { return true },
                options(nostack)
            );
        }
        false
    }

    /// The same for checkers, which read no assembly, and for processors that load and then store.
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, shuttle, sanitizer)))))]
    #[inline(always)]
    pub fn count_freed(&self) -> bool {
        // At a glance: of a plain load the compiler makes one more instruction on aarch64.
        let until_slow = self.until_slow.glance() - 1;
        self.until_slow.set(until_slow);
        until_slow == 0
    }
}
