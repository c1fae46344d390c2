//! Memory for the profile itself, from the system. The books cannot lie in the heap that they
//! describe.

use crate::os;

/// A vector. It never drops elements. It gives memory back only when it grows or is cleared.
pub struct Growing<T: Copy> {
    at: usize,
    len: usize,
    room: usize,
    mapped: usize,
    of: core::marker::PhantomData<T>,
}

impl<T: Copy> Growing<T> {
    /// An empty vector.
    pub const fn new() -> Self {
        Self { at: 0, len: 0, room: 0, mapped: 0, of: core::marker::PhantomData }
    }

    /// Where the elements lie, and how many there are.
    pub fn place(&self) -> (usize, usize) {
        (self.at, self.len)
    }

    /// True if there is room for `more` elements.
    pub fn has_room(&self, more: usize) -> bool {
        self.len + more <= self.room
    }

    /// Makes room for `more` elements. False: out of memory, and nothing has changed.
    pub fn reserve(&mut self, more: usize) -> bool {
        const LEAST: usize = 64 << 10;
        if self.has_room(more) {
            return true;
        }
        let bytes = ((self.len + more) * size_of::<T>()).next_power_of_two().max(LEAST);
        let Some(at) = os::map_memory(bytes) else { return false };
        // SAFETY: both maps have room for `len` elements, do not overlap, and belong to this
        // vector. If `len` is 0, this copies nothing.
        unsafe { os::at(at).copy_from_nonoverlapping(os::at(self.at), self.len * size_of::<T>()) };
        self.unmap();
        (self.at, self.room, self.mapped) = (at, bytes / size_of::<T>(), bytes);
        true
    }

    /// Replaces the elements by `len` elements of all zero bytes. False: out of memory, and nothing
    /// has changed.
    ///
    /// # Safety
    /// All zero bytes are a valid `T`.
    pub unsafe fn renew_zeroed(&mut self, len: usize) -> bool {
        let bytes = len * size_of::<T>();
        let Some(at) = os::map_memory(bytes) else { return false };
        self.unmap();
        *self = Self { at, len, room: len, mapped: bytes, of: self.of };
        true
    }

    fn unmap(&mut self) {
        if self.mapped > 0 {
            os::unreserve(self.at, self.mapped);
        }
    }

    /// Adds an element.
    ///
    /// # Safety
    /// The caller has reserved room for it.
    pub unsafe fn push(&mut self, value: T) {
        debug_assert!(self.len < self.room);
        // SAFETY: the caller has reserved room, so `len` is below `room`, and the place lies in the
        // map.
        unsafe { os::at(self.at).cast::<T>().wrapping_add(self.len).write(value) };
        self.len += 1;
    }

    /// The elements.
    pub fn all(&self) -> &[T] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: `push` wrote the first `len` elements, or they are all zero bytes, which the
        // caller of `renew_zeroed` declared valid. The map belongs to this vector, and is aligned
        // to a system page.
        unsafe { core::slice::from_raw_parts(os::at(self.at).cast(), self.len) }
    }

    /// The elements, to be changed.
    pub fn all_mut(&mut self) -> &mut [T] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: `push` wrote the first `len` elements, or they are all zero bytes, which the
        // caller of `renew_zeroed` declared valid. The map belongs to this vector, which is
        // borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(os::at(self.at).cast(), self.len) }
    }

    /// Gives the memory back.
    pub fn clear(&mut self) {
        self.unmap();
        *self = Self::new();
    }
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    use super::*;
    use crate::testing::in_child;

    fn is_there(at: usize) -> bool {
        // SAFETY: `mincore` only asks about one system page, and writes one byte. It fails where
        // nothing is mapped.
        unsafe { libc::mincore(os::at(at).cast(), 4096, [0].as_mut_ptr()) == 0 }
    }

    /// In a child, where no other thread maps anything at a place that was given up.
    #[test]
    fn memory_that_was_outgrown_is_given_up() {
        in_child(|| {
            let failures = || (0..os::KINDS).map(|i| os::count(i).2).sum::<u64>();
            let before = failures();
            let mut numbers = Growing::<u64>::new();
            assert!(numbers.reserve(1));
            let first = numbers.at;
            for n in 0..100_000 {
                assert!(numbers.reserve(1));
                // SAFETY: `reserve` has just made room for one.
                unsafe { numbers.push(n) };
            }
            assert_eq!(failures(), before);
            assert!(numbers.all().iter().copied().eq(0..100_000));
            let second = numbers.at;
            assert!(!is_there(first) && is_there(second));
            // SAFETY: zero is a valid `u64`.
            assert!(unsafe { numbers.renew_zeroed(300_000) });
            let third = numbers.at;
            assert!(!is_there(second) && is_there(third));
            assert!(numbers.all().len() == 300_000 && numbers.all().iter().all(|&n| n == 0));
            numbers.clear();
            assert!(!is_there(third) && numbers.all().is_empty());
        });
    }
}
