//! How much of a range of memory is resident, by a sample.

use crate::os;

/// The order in which pieces of a range are looked at: the first four lie far apart.
const ORDER: [usize; 16] = [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15];
/// As many pieces decide if they agree.
const ENOUGH: usize = 4;
/// System pages of a piece.
const SAMPLE: usize = 64;

/// What a sample found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Density {
    /// System pages that were looked at.
    seen: usize,
    /// Those of them that take memory.
    there: usize,
}

impl Density {
    /// True if less than half is resident.
    pub fn is_low(self) -> bool {
        self.there * 2 < self.seen
    }

    /// True if three quarters are resident.
    pub fn is_high(self) -> bool {
        self.seen != 0 && self.there * 4 >= self.seen * 3
    }
}

/// Looks at pieces of the `n` bytes at `at`, at most 16. None: the system does not tell. O(1).
pub fn of(at: usize, n: usize) -> Option<Density> {
    let map = os::Pagemap::open()?;
    let piece = SAMPLE * os::page_size();
    let step = piece.max(n / ORDER.len()).next_multiple_of(os::page_size());
    let mut pages = [os::Page::Absent; SAMPLE];
    let mut found = Density { seen: 0, there: 0 };
    let inside = ORDER.iter().map(|i| i * step).filter(|&offset| offset < n);
    for (i, offset) in inside.enumerate() {
        if i >= ENOUGH && (found.there == 0 || found.there == found.seen) {
            break;
        }
        let pages = &mut pages[..piece.min(n - offset).div_ceil(os::page_size())];
        if !map.read(at + offset, pages) {
            return None;
        }
        found.seen += pages.len();
        found.there += pages.iter().filter(|&&page| page != os::Page::Absent).count();
    }
    Some(found)
}
