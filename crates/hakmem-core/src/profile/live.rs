//! Tables of live samples, by the addresses of their blocks: hash tables with linear probing.
//!
//! Nothing here is atomic. A lock guards each table, and orders all that is done to it
//! (`tests/loom/lock.rs`): that of the books, or that of the program heap. A table changes hands
//! only whole, by the one who has the lock (`profile::all_freed`).

use super::store::Growing;

/// The least number of bytes of a table. A table has twice as many places as it may have entries.
const LEAST: usize = 16 << 10;

/// A value of which all zero bytes are one.
///
/// # Safety
/// That is so.
pub unsafe trait Zero: Copy {}

// SAFETY: a number.
unsafe impl Zero for usize {}

/// An entry. All zero bytes are none.
#[derive(Clone, Copy)]
struct Place<T> {
    /// 0: no sample.
    at: usize,
    value: T,
}

/// Values by address, in memory from the system. All zero bytes are an empty table.
pub struct Live<T: Zero> {
    places: Growing<Place<T>>,
    len: usize,
}

fn place_of(at: usize, places: usize) -> usize {
    ((at as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (places - 1)
}

impl<T: Zero> Live<T> {
    /// An empty table.
    pub const fn new() -> Self {
        Self { places: Growing::new(), len: 0 }
    }

    /// True if there is no entry.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if there was an entry since the table was new or was cleared.
    #[inline(always)]
    pub fn has_memory(&self) -> bool {
        self.places.place().1 != 0
    }

    /// All entries.
    pub fn all(&self) -> impl Iterator<Item = (usize, T)> {
        self.places.all().iter().filter(|place| place.at != 0).map(|place| (place.at, place.value))
    }

    /// Makes room for one more entry. False: out of memory.
    pub fn make_room(&mut self) -> bool {
        if (self.len + 1) * 2 <= self.places.all().len() {
            return true;
        }
        let mut larger = Growing::new();
        let least = (LEAST / size_of::<Place<T>>()).next_power_of_two();
        let places = (self.places.all().len() * 2).max(least);
        // SAFETY: a `Place` is a number and a value, and zero is valid for both.
        if !unsafe { larger.renew_zeroed(places) } {
            return false;
        }
        core::mem::swap(&mut self.places, &mut larger);
        for place in larger.all().iter().filter(|place| place.at != 0) {
            insert(self.places.all_mut(), *place);
        }
        larger.clear();
        true
    }

    /// Puts in an entry. The caller made room.
    pub fn put(&mut self, at: usize, value: T) {
        insert(self.places.all_mut(), Place { at, value });
        self.len += 1;
    }

    /// Takes out the entry at `at`. None: there is none.
    pub fn remove(&mut self, at: usize) -> Option<T> {
        let live = self.places.all_mut();
        let mask = live.len().checked_sub(1)?;
        let mut gap = place_of(at, live.len());
        while live[gap].at != at {
            if live[gap].at == 0 {
                return None;
            }
            gap = (gap + 1) & mask;
        }
        let value = live[gap].value;
        // An entry behind it, whose own place was taken, moves into the gap, so that no search ends
        // there.
        let mut next = (gap + 1) & mask;
        while live[next].at != 0 {
            let home = place_of(live[next].at, live.len());
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(gap) & mask {
                live[gap] = live[next];
                gap = next;
            }
            next = (next + 1) & mask;
        }
        live[gap].at = 0;
        self.len -= 1;
        Some(value)
    }

    /// Gives the memory back, with all entries.
    pub fn clear(&mut self) {
        self.places.clear();
        self.len = 0;
    }
}

fn insert<T: Zero>(places: &mut [Place<T>], new: Place<T>) {
    let mask = places.len() - 1;
    let mut place = place_of(new.at, places.len());
    while places[place].at != 0 {
        place = (place + 1) & mask;
    }
    places[place] = new;
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn entries_are_those_of_a_map() {
        let (mut live, mut map) = (Live::new(), HashMap::new());
        let mut random = 3u64;
        for i in 0..if cfg!(miri) { 500 } else { 20_000 } {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let at = (random as usize % 3000 + 1) * 16;
            if let Some(value) = map.remove(&at) {
                assert_eq!(live.remove(at), Some(value));
                assert_eq!(live.remove(at), None);
            } else {
                assert_eq!(live.remove(at), None);
                assert!(live.make_room());
                live.put(at, i);
                map.insert(at, i);
            }
            assert!(live.len == map.len() && live.is_empty() == map.is_empty());
            assert!(live.places.all().len() >= 2 * map.len(), "half of the places are free");
        }
        assert_eq!(live.all().collect::<HashMap<_, _>>(), map);
        for (at, value) in map {
            assert_eq!(live.remove(at), Some(value));
        }
        assert!(live.is_empty() && live.all().next().is_none());
        live.clear();
    }

    /// Entries in one place would lie behind each other, and a search would check them one by one.
    #[test]
    fn blocks_lie_apart() {
        const N: usize = 1000;
        for step in [16, 48, 64 << 10, 2 << 20] {
            let places =
                (1..=N).map(|i| place_of(0x7f12_3400_0000 + i * step, 4 * N.next_power_of_two()));
            let apart = places.collect::<HashSet<_>>().len();
            assert!(apart > N / 2, "blocks {step} bytes apart: {apart}");
        }
    }
}
