//! Scopes: while a thread is in a scope of a program heap, its ordinary allocations come from that
//! heap.
//!
//! A scope has a front, and the thread's word leads to it. So malloc takes blocks from the lists of
//! this front, by the same instructions as ever. If a list is empty, the slow path asks the heap
//! for some blocks. The front owns no page, so every free takes the slow path while the thread is
//! there: blocks of program heaps go back under the lock of their heap, and blocks of the thread's
//! own heap as remote frees.
//!
//! Rules
//! 1. A scope lies at `OFFSET` in a unit of heaps. A heap lies at the beginning of one. So the
//!    address of a front tells which it is.
//! 2. A scope belongs to the thread that is in it, and before and after that to the heap's list of
//!    spare ones, under the heap's lock.
//! 3. `outer` is the word that the thread had before: the front of its heap, or of another scope.
//! 4. Blocks on the lists of a scope count as live blocks of the heap. The thread puts them back
//!    when it leaves.

use super::sampled::Due;
use super::{Locked, ProgramHeap, Refusal, registry};
use crate::backend::check;
use crate::backend::owner::{Front, HEAP_SHIFT, PLACE16};
use crate::backend::page::Block;
use crate::base::size_class::{CLASSES, FIRST_LONG, SIZES};
use crate::base::sync::Ordering::Relaxed;
use crate::proto::inbox::Link;
use core::cell::Cell;
use core::ptr::{NonNull, null_mut};

/// See rule 1.
pub const OFFSET: usize = 512;
/// Bytes and blocks that a scope gets at a time.
const AT_ONCE: (u64, u64) = (2048, 32);
// So a block above `SMALL_MAX` comes alone, and its list stays empty.
const _: () = assert!(AT_ONCE.0 / (SIZES[FIRST_LONG] as u64) <= 1);

/// A scope that a thread is in, or a spare one.
#[repr(C)]
pub struct Scope {
    /// First, so that a thread's word is the scope's address.
    pub front: Front,
    /// See rule 3.
    pub outer: Cell<*const Front>,
    heap: Cell<*const ProgramHeap>,
    /// The samples of the profile that come next.
    pub(super) due: Due,
    /// A bit for each class: the block after the list is due for a guarded place.
    pub(super) guarded: Cell<u64>,
    /// The most blocks of the next list, if such a block comes after it. 0: any number.
    pub(super) cut: Cell<u64>,
    /// The next spare one.
    next: Cell<*mut Scope>,
}

const _: () = assert!(OFFSET + size_of::<Scope>() <= 4096 && align_of::<Scope>() <= OFFSET);

/// True if the thread's word leads to a scope or to an empty front: to no heap.
#[inline(always)]
pub fn is_scope_or_empty(front: *const Front) -> bool {
    !front.addr().is_multiple_of(1 << HEAP_SHIFT)
}

impl Scope {
    /// The heap of the scope.
    pub fn heap(&self) -> &'static ProgramHeap {
        // SAFETY: `enter` set it. No heap is unmapped (`program` rule 5).
        unsafe { &*self.heap.get() }
    }

    /// The scope that the thread was in when it entered this one, if it was in one.
    pub fn outer_scope(&self) -> Option<&'static Scope> {
        let outer = self.outer.get();
        // SAFETY: a thread that enters a scope has a heap, so its word led to that or to a scope
        // (rule 3). No scope is unmapped.
        is_scope_or_empty(outer).then(|| unsafe { &*outer.cast::<Scope>() })
    }

    /// Allocates a block of `class` from the scope's list, which it fills. The calling thread is in
    /// the scope.
    pub fn alloc(&self, class: usize) -> Result<(NonNull<Block>, bool), Refusal> {
        match self.pop(class) {
            Some(block) => Ok((block, false)),
            None => self.fill(class, self.wanted(class)).map(|(block, zero, _)| (block, zero)),
        }
    }

    /// Takes the first block of the scope's list.
    pub(super) fn pop(&self, class: usize) -> Option<NonNull<Block>> {
        let list = &self.front.lists[class].free;
        let block = NonNull::new(list.get())?;
        // SAFETY: a block on the list is free, and the scope is this thread's (rule 2).
        let next = unsafe { Block::next(block.as_ptr()) };
        check::check_program_link(class, block.as_ptr(), next);
        list.set(next);
        Some(block)
    }

    /// How many blocks of `class` a scope gets at a time.
    pub(super) fn at_once(class: usize) -> u64 {
        (AT_ONCE.0 / u64::from(SIZES[class])).clamp(1, AT_ONCE.1)
    }

    /// Gets up to `count` blocks: one for the caller, and whether it is zero, and the others for
    /// the empty list. The last flag: it got so many, and the list could go on.
    pub(super) fn fill(
        &self,
        class: usize,
        count: u64,
    ) -> Result<(NonNull<Block>, bool, bool), Refusal> {
        let got = self.heap().lock()?.take_some(class, count)?;
        self.front.lists[class].free.set(got.list);
        Ok((got.first.cast(), got.zero, got.taken == count && got.goes_on))
    }
}

impl ProgramHeap {
    /// A scope of the heap for the calling thread, whose word is `outer`.
    pub fn enter(&'static self, outer: *const Front) -> Result<&'static Scope, Refusal> {
        let locked = self.lock()?;
        let scope = locked.spare().ok_or(Refusal::Memory)?;
        scope.outer.set(outer);
        scope.heap.set(self);
        self.entered.set(self.entered.get() + 1);
        Ok(scope)
    }

    /// Ends a scope of the heap, which the calling thread is in no more. If the thread is a signal
    /// handler that interrupted the heap, the scope and its blocks stay as they are.
    pub fn leave(&'static self, scope: &'static Scope) {
        let Ok(locked) = self.lock() else { return };
        for class in 0..CLASSES {
            let mut block = scope.front.lists[class].free.replace(null_mut());
            while !block.is_null() {
                // SAFETY: the block is on the list of the scope, which is this thread's (rule 2),
                // so it is of this heap, and on no other list.
                unsafe {
                    let next = Block::next(block);
                    if let Some((_, page)) = super::of(block.cast()) {
                        locked.put_back(page, block);
                    }
                    block = next;
                }
            }
        }
        scope.due.forget();
        scope.guarded.set(0);
        let of_heap = core::ptr::from_ref(scope).cast_mut();
        scope.next.set(self.spare.replace(of_heap));
        self.entered.set(self.entered.get() - 1);
        if !self.is_live() {
            self.released.store(true, Relaxed);
        }
    }
}

impl Locked {
    /// A spare scope, or a new one.
    fn spare(&self) -> Option<&'static Scope> {
        // SAFETY: null, or a scope that `leave` put there. No scope is unmapped.
        if let Some(scope) = unsafe { self.heap.spare.get().as_ref() } {
            self.heap.spare.set(scope.next.get());
            return Some(scope);
        }
        let scope = registry::room_for_scope()?;
        // SAFETY: the memory is zero and nobody else's: a scope without blocks. It gets the table
        // of classes before any thread is in it.
        unsafe {
            (&raw mut (*scope).front.place16).write(PLACE16);
            Some(&*scope)
        }
    }
}
