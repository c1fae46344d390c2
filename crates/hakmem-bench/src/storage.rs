//! Where workloads keep their books: memory straight from the system, so that no allocator under
//! test holds it.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

/// Maps fresh pages, which are zero, with `flags` besides the usual ones.
pub fn map(bytes: usize, flags: libc::c_int) -> io::Result<NonNull<u8>> {
    // SAFETY: a fresh anonymous mapping touches no existing memory.
    let pages = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
            -1,
            0,
        )
    };
    if pages == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(pages.cast()).ok_or_else(|| io::Error::other("mmap gave address 0"))
}

/// A vector of fixed capacity in pages of its own. They are populated when it is made, so that
/// filling it later costs no page fault inside a measurement.
pub struct Table<T> {
    items: NonNull<T>,
    len: usize,
    capacity: usize,
}

// SAFETY: a `Table` owns its items as a `Vec` does.
unsafe impl<T: Send> Send for Table<T> {}
// SAFETY: shared access gives out `&T` alone.
unsafe impl<T: Sync> Sync for Table<T> {}

impl<T> Table<T> {
    /// An empty table that can hold `capacity` items.
    ///
    /// # Panics
    /// If the system has no memory: a benchmark cannot go on without its books.
    pub fn new(capacity: usize) -> Self {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= 4096) };
        assert!(capacity > 0, "a table holds at least one item");
        let bytes = capacity
            .checked_mul(size_of::<T>())
            .expect("a table's size overflows");
        let items = match map(bytes, libc::MAP_POPULATE) {
            Ok(pages) => pages.cast::<T>(),
            Err(error) => panic!("no memory for a table of {bytes} bytes: {error}"),
        };
        Self {
            items,
            len: 0,
            capacity,
        }
    }

    /// A table of `n` items, the `i`-th made by `make(i)`.
    pub fn filled(n: usize, mut make: impl FnMut(usize) -> T) -> Self {
        let mut table = Self::new(n);
        for i in 0..n {
            table.push(make(i));
        }
        table
    }

    /// Appends an item.
    ///
    /// # Panics
    /// If the table is full.
    #[inline]
    pub fn push(&mut self, item: T) {
        assert!(self.len < self.capacity, "a table never grows");
        // SAFETY: slot `len` is inside the mapping (checked above) and holds no item.
        unsafe { self.items.add(self.len).write(item) };
        self.len += 1;
    }

    /// Bytes of its pages, all of which are resident.
    pub fn bytes(&self) -> u64 {
        (self.capacity * size_of::<T>()).next_multiple_of(4096) as u64
    }

    /// Removes the last item.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: slot `len` held an item until now, and the shortened table no longer counts it.
        Some(unsafe { self.items.add(self.len).read() })
    }

    /// Drops all items, the first pushed first.
    #[inline]
    pub fn clear(&mut self) {
        let held = ptr::slice_from_raw_parts_mut(self.items.as_ptr(), self.len);
        self.len = 0;
        // SAFETY: the slots below the former length hold items, and with length 0 nothing reaches
        // them any more.
        unsafe { ptr::drop_in_place(held) };
    }
}

impl<T> Deref for Table<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the first `len` slots hold items; the borrow of `self` keeps them.
        unsafe { std::slice::from_raw_parts(self.items.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Table<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: `len` items from the pointer on are initialised, and `self` is borrowed
        // exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.items.as_ptr(), self.len) }
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        self.clear();
        // SAFETY: the mapping was made in `new` with this size, and no reference into it outlives
        // the table.
        unsafe { libc::munmap(self.items.as_ptr().cast(), self.capacity * size_of::<T>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn items_come_back_in_order_and_are_dropped_once() {
        let counted = Rc::new(());
        let mut table = Table::filled(10, |i| (i, Rc::clone(&counted)));
        assert_eq!(table.pop().map(|(i, _)| i), Some(9));
        assert!(table.iter().map(|(i, _)| *i).eq(0..9));
        assert_eq!(Rc::strong_count(&counted), 10);
        drop(table);
        assert_eq!(Rc::strong_count(&counted), 1);
    }

    #[test]
    #[should_panic(expected = "never grows")]
    fn a_full_table_refuses() {
        let mut table = Table::filled(1, |i| i);
        table.push(1);
    }
}
