//! What workloads see of an allocator: owned blocks that go back to it when dropped, with nothing
//! in between that the compiler could not inline.

use allocator_api2::alloc::{AllocError, Allocator};
use std::alloc::{GlobalAlloc, Layout, handle_alloc_error};
use std::marker::PhantomData;
use std::mem;
use std::ptr::{self, NonNull};

/// The alignment of the blocks, that of most Rust values.
const ALIGN: usize = 8;

/// An allocator that can be measured: a type with one instance for the whole process. That the
/// instance follows from the type makes it certain that a block goes back to where it came from.
pub trait Subject: GlobalAlloc + Sync + 'static {
    /// The instance.
    fn subject() -> &'static Self;
}

/// The way to allocator `A`; zero-sized.
pub struct Heap<A>(PhantomData<fn() -> A>);

impl<A> Clone for Heap<A> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<A> Copy for Heap<A> {}

impl<A: Subject> Default for Heap<A> {
    fn default() -> Self {
        Self::new()
    }
}

#[inline(always)]
fn layout(size: usize) -> Layout {
    debug_assert!(size > 0 && size < 1 << 40);
    // SAFETY: ALIGN is a power of two; the sizes of the workloads are nowhere near isize::MAX.
    unsafe { Layout::from_size_align_unchecked(size, ALIGN) }
}

/// What the allocator returned for `layout`. Ends the process if that is null.
#[inline(always)]
fn received(p: *mut u8, layout: Layout) -> NonNull<u8> {
    NonNull::new(p).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Writes the first and the last byte, so that the block is really there and its page faults count.
#[inline(always)]
fn touch(p: NonNull<u8>, size: usize) {
    // SAFETY: called with blocks of `size` > 0 bytes that the caller owns. Volatile: the writes are
    // the purpose.
    unsafe {
        p.write_volatile(1);
        p.add(size - 1).write_volatile(2);
    }
}

impl<A: Subject> Heap<A> {
    /// The value; there is nothing to set up.
    pub const fn new() -> Self {
        Self(PhantomData)
    }

    /// A block of `size` > 0 bytes, its first and last byte written.
    #[inline(always)]
    pub fn block(self, size: usize) -> Block<A> {
        let block = self.untouched(size);
        touch(block.ptr, size);
        block
    }

    /// A block of `size` > 0 bytes as the allocator gives it.
    #[inline(always)]
    pub fn untouched(self, size: usize) -> Block<A> {
        let layout = layout(size);
        // SAFETY: the size is not zero (see `layout`).
        let p = unsafe { A::subject().alloc(layout) };
        Block {
            ptr: received(p, layout),
            size,
            heap: self,
        }
    }

    /// A block of `size` > 0 bytes that reads as zeroes; not touched.
    #[inline(always)]
    pub fn zeroed(self, size: usize) -> Block<A> {
        let layout = layout(size);
        // SAFETY: the size is not zero (see `layout`).
        let p = unsafe { A::subject().alloc_zeroed(layout) };
        Block {
            ptr: received(p, layout),
            size,
            heap: self,
        }
    }

    /// A block whose size the compiler knows, as with `Box`.
    #[inline(always)]
    pub fn fixed<const SIZE: usize>(self) -> Fixed<A, SIZE> {
        // SAFETY: the sizes in use are not zero (see `layout`).
        let p = unsafe { A::subject().alloc(layout(SIZE)) };
        let ptr = received(p, layout(SIZE));
        touch(ptr, SIZE);
        Fixed { ptr, heap: self }
    }
}

/// A block owned by the workload; dropping it frees it.
pub struct Block<A: Subject> {
    ptr: NonNull<u8>,
    size: usize,
    heap: Heap<A>,
}

// SAFETY: a block is plain memory with one owner, and `GlobalAlloc` allows freeing from any thread.
unsafe impl<A: Subject> Send for Block<A> {}

impl<A: Subject> Block<A> {
    /// Its size in bytes.
    #[inline(always)]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Its address and its size.
    pub fn extent(&self) -> (usize, usize) {
        (self.ptr.addr().get(), self.size)
    }

    /// Changes the size with `GlobalAlloc::realloc`; the caller writes what is new.
    #[inline]
    pub fn resize(&mut self, size: usize) {
        let new = layout(size);
        // SAFETY: `ptr` came from this allocator with the layout of `self.size`; the new size is
        // valid (see `layout`).
        let p = unsafe { A::subject().realloc(self.ptr.as_ptr(), layout(self.size), size) };
        let Some(ptr) = NonNull::new(p) else {
            handle_alloc_error(new)
        };
        self.ptr = ptr;
        self.size = size;
    }

    /// Writes one byte in every `step` bytes from offset `from` on.
    #[inline]
    pub fn write_every(&mut self, from: usize, step: usize) {
        for at in (from..self.size).step_by(step) {
            // SAFETY: `at` is below the block's size.
            unsafe { self.ptr.add(at).write_volatile(at as u8) };
        }
    }

    /// Writes every byte from offset `from` on.
    #[inline]
    pub fn write_all(&mut self, from: usize, byte: u8) {
        assert!(from <= self.size);
        // SAFETY: `from..size` is inside the block.
        unsafe { ptr::write_bytes(self.ptr.add(from).as_ptr(), byte, self.size - from) };
    }

    /// Writes the byte at `at`.
    #[inline]
    pub fn write(&mut self, at: usize, byte: u8) {
        assert!(at < self.size);
        // SAFETY: `at` is inside the block.
        unsafe { self.ptr.add(at).write_volatile(byte) };
    }

    /// The sum of its bytes, all of which must have been written.
    #[inline]
    pub fn sum(&self) -> u64 {
        // SAFETY: the block has `size` bytes, written as the caller says, and is borrowed.
        let bytes = unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.size) };
        bytes.iter().map(|&b| u64::from(b)).sum()
    }

    /// Reads the byte at `at`, which must have been written, or belong to a zeroed block.
    #[inline]
    pub fn read(&self, at: usize) -> u8 {
        assert!(at < self.size);
        // SAFETY: `at` is inside the block.
        unsafe { self.ptr.add(at).read_volatile() }
    }

    /// Gives up ownership for a bare pointer that fits an atomic; the size goes into the block
    /// itself, which must have at least 8 bytes.
    #[inline]
    pub fn into_token(self) -> *mut u8 {
        assert!(self.size >= size_of::<usize>());
        // SAFETY: the block has room for a usize, at alignment ALIGN.
        unsafe { self.ptr.cast::<usize>().write(self.size) };
        let p = self.ptr.as_ptr();
        mem::forget(self);
        p
    }

    /// Takes ownership back; `None` for a null token.
    ///
    /// # Safety
    /// `token` is null, or came from `into_token` of the same `A` and is used once.
    #[inline]
    pub unsafe fn from_token(token: *mut u8) -> Option<Self> {
        let ptr = NonNull::new(token)?;
        // SAFETY: `into_token` wrote the size there.
        let size = unsafe { ptr.cast::<usize>().read() };
        Some(Self {
            ptr,
            size,
            heap: Heap::new(),
        })
    }
}

impl<A: Subject> Drop for Block<A> {
    #[inline(always)]
    fn drop(&mut self) {
        let Heap(_) = self.heap;
        // SAFETY: `ptr` came from this allocator with this layout, and its only owner goes away.
        unsafe { A::subject().dealloc(self.ptr.as_ptr(), layout(self.size)) };
    }
}

/// A block known by its address alone; its size stands in its first 8 bytes. Dropping it reads the
/// size and frees it.
pub struct Unsized<A: Subject> {
    token: NonNull<u8>,
    block: PhantomData<Block<A>>,
}

// SAFETY: the block is plain memory with one owner, and any thread may free it (`GlobalAlloc`).
unsafe impl<A: Subject> Send for Unsized<A> {}

impl<A: Subject> From<Block<A>> for Unsized<A> {
    #[inline(always)]
    fn from(block: Block<A>) -> Self {
        let token = NonNull::new(block.into_token()).expect("a block has an address");
        Self {
            token,
            block: PhantomData,
        }
    }
}

impl<A: Subject> Drop for Unsized<A> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: `from` took the token from a block of `A`, and its only owner goes away.
        drop(unsafe { Block::<A>::from_token(self.token.as_ptr()) });
    }
}

/// A block of constant size; dropping it frees it.
pub struct Fixed<A: Subject, const SIZE: usize> {
    ptr: NonNull<u8>,
    heap: Heap<A>,
}

// SAFETY: the block is plain memory with one owner, and any thread may free it (`GlobalAlloc`).
unsafe impl<A: Subject, const SIZE: usize> Send for Fixed<A, SIZE> {}

impl<A: Subject, const SIZE: usize> Drop for Fixed<A, SIZE> {
    #[inline(always)]
    fn drop(&mut self) {
        let Heap(_) = self.heap;
        // SAFETY: `ptr` came from this allocator with this layout, and its only owner goes away.
        unsafe { A::subject().dealloc(self.ptr.as_ptr(), layout(SIZE)) };
    }
}

fn owned(p: *mut u8, size: usize) -> Result<NonNull<[u8]>, AllocError> {
    let p = NonNull::new(p).ok_or(AllocError)?;
    Ok(NonNull::slice_from_raw_parts(p, size))
}

// SAFETY: every block comes from the one instance of `A` and stays valid until it is given back;
// `Heap` is stateless, so that copies are interchangeable. Zero sizes never reach `A`.
unsafe impl<A: Subject> Allocator for Heap<A> {
    #[inline(always)]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(NonNull::slice_from_raw_parts(dangling(layout), 0));
        }
        // SAFETY: the size is not zero.
        owned(unsafe { A::subject().alloc(layout) }, layout.size())
    }

    #[inline(always)]
    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        if layout.size() != 0 {
            // SAFETY: the caller passes a block of ours with its layout; of size 0 there are none.
            unsafe { A::subject().dealloc(ptr.as_ptr(), layout) }
        }
    }

    #[inline(always)]
    unsafe fn grow(
        &self,
        ptr: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() == 0 || old.align() != new.align() {
            let fresh = self.allocate(new)?;
            // SAFETY: the new block is at least as large, fresh, and `ptr` goes back with the
            // layout it has.
            unsafe {
                ptr::copy_nonoverlapping(ptr.as_ptr(), fresh.cast::<u8>().as_ptr(), old.size());
                self.deallocate(ptr, old);
            }
            return Ok(fresh);
        }
        // SAFETY: a block of ours with its layout, and a larger size for the same alignment.
        owned(
            unsafe { A::subject().realloc(ptr.as_ptr(), old, new.size()) },
            new.size(),
        )
    }
}

/// Adds a copy of `more` to `all`. `extend_from_slice` of this `Vec` goes element by element, and
/// that loop, not the allocator, would be what is measured.
#[inline(always)]
pub fn append<T: Copy, A: Subject>(all: &mut allocator_api2::vec::Vec<T, Heap<A>>, more: &[T]) {
    all.reserve(more.len());
    let length = all.len();
    // SAFETY: there is room behind `length`, in a block of its own; it is filled with valid
    // elements.
    unsafe {
        let end = all.as_mut_ptr().add(length);
        end.copy_from_nonoverlapping(more.as_ptr(), more.len());
        all.set_len(length + more.len());
    }
}

/// The address of a block without bytes: aligned and not null.
fn dangling(layout: Layout) -> NonNull<u8> {
    NonNull::new(ptr::without_provenance_mut(layout.align())).expect("alignments are not zero")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    fn a_block_keeps_its_bytes_when_resized_and_passed_as_a_token() {
        let mut block = Heap::<System>::new().block(100);
        block.write_all(0, 7);
        block.resize(100_000);
        assert_eq!((block.size(), block.read(99)), (100_000, 7));
        // SAFETY: the token was just made and is used once.
        let back = unsafe { Block::<System>::from_token(block.into_token()) }.expect("not null");
        assert_eq!((back.size(), back.read(99)), (100_000, 7));
        let headed = Unsized::from(back);
        // SAFETY: the block is alive, and begins with its size.
        assert_eq!(unsafe { headed.token.cast::<usize>().read() }, 100_000);
    }

    #[test]
    fn vectors_grow_in_the_measured_heap() {
        let mut v = allocator_api2::vec::Vec::new_in(Heap::<System>::new());
        v.extend(0..10_000_u64);
        append(&mut v, &[7, 8, 9]);
        assert!(v.iter().copied().eq((0..10_000).chain(7..10)));
    }
}
