//! The thread's word: one word of thread-local storage, in the initial-exec model, on stable Rust.
//!
//! `thread_local!` in a shared library calls `__tls_get_addr`. That costs a call, which may itself
//! allocate. So assembly defines the word, and two instructions read it on x86-64 (one in an
//! executable, where the linker relaxes the access). On aarch64 they are four.
//!
//! The word starts as the address of the *empty heap*: a read-only front whose lists are all empty.
//! So the fast path needs no check whether the thread has a heap: it finds an empty list, and takes
//! the slow path.

use crate::backend::list::List;
use crate::backend::owner::{Front, PLACE16};
use crate::backend::page::Block;
use crate::base::size_class::{CLASSES, TABLE16};
use crate::heap::Heap;
use crate::program::scope::{self, Scope};

/// A front that no thread writes. It has the layout of [`Front`] without interior mutability, so it
/// lies in read-only data.
#[repr(C)]
struct EmptyFront {
    lists: [EmptyList; CLASSES + 1],
    place16: [u8; TABLE16],
}
/// The same of [`List`].
#[repr(C)]
struct EmptyList {
    free: *mut Block,
    until_slow: i32,
    most: i32,
}
// SAFETY: no thread writes it, and its pointers are null.
unsafe impl Sync for EmptyFront {}
macro_rules! assert_same {
    ($empty:ty, $real:ty: $($field:ident),*) => {
        const _: () = assert!(size_of::<$empty>() == size_of::<$real>()
            $(&& core::mem::offset_of!($empty, $field) == core::mem::offset_of!($real, $field))*);
    };
}
assert_same!(EmptyList, List: free, until_slow, most);
assert_same!(EmptyFront, Front: lists, place16);

const EMPTY_FRONT: EmptyFront = EmptyFront {
    lists: [const { EmptyList { free: core::ptr::null_mut(), until_slow: 0, most: 0 } };
        CLASSES + 1],
    place16: PLACE16,
};
/// An empty front whose length is a multiple of 16.
#[repr(C)]
struct Padded {
    front: EmptyFront,
    _pad: [u64; size_of::<EmptyFront>() / 8 % 2],
}
/// The two empty fronts, behind a word that keeps them off the multiples of 16. A heap lies at a
/// multiple of its size. So the lowest bits alone tell a heap from all else.
#[repr(C, align(16))]
struct EmptyFronts {
    _word: u64,
    fronts: [Padded; 2],
}

/// The front of a thread before its first allocation, and the front of a thread that has put its
/// heap back.
static EMPTY_FRONTS: EmptyFronts = EmptyFronts {
    _word: 0,
    fronts: [const { Padded { front: EMPTY_FRONT, _pad: [0; size_of::<EmptyFront>() / 8 % 2] } };
        2],
};

const _: () = assert!(
    core::mem::offset_of!(EmptyFronts, fronts) == 8 && size_of::<Padded>().is_multiple_of(16)
);

#[cfg(not(any(miri, shuttle)))]
core::arch::global_asm!(
    ".pushsection .tdata.hakmem_heap,\"awT\",%progbits",
    ".p2align 3",
    ".globl __hakmem_heap_v0",
    ".hidden __hakmem_heap_v0",
    ".type __hakmem_heap_v0,%object",
    ".size __hakmem_heap_v0,8",
    "__hakmem_heap_v0:",
    ".8byte {empty} + 8",
    // This relocation changes nothing. It makes the linker also take the note of `stats::view` out
    // of its object file.
    concat!(".reloc __hakmem_heap_v0, ", processor::no_relocation!(), ", __hakmem_note_v0"),
    ".popsection",
    empty = sym EMPTY_FRONTS,
);

#[cfg(not(any(miri, shuttle)))]
pub use word::front;
#[cfg(not(any(miri, shuttle)))]
use word::set;

/// The relocation without effect, and the instructions that read and write the word. The last two
/// are to be used in an `unsafe` block.
#[cfg(all(target_arch = "x86_64", not(any(miri, shuttle))))]
mod processor {
    macro_rules! no_relocation {
        () => {
            "R_X86_64_NONE"
        };
    }
    macro_rules! read {
        ($front:ident) => {
            core::arch::asm!(
                "mov {0}, qword ptr [rip + __hakmem_heap_v0@GOTTPOFF]",
                "mov {0}, qword ptr fs:[{0}]",
                out(reg) $front,
                options(pure, readonly, nostack, preserves_flags)
            )
        };
    }
    macro_rules! write {
        ($front:ident) => {
            core::arch::asm!(
                "mov {0}, qword ptr [rip + __hakmem_heap_v0@GOTTPOFF]",
                "mov qword ptr fs:[{0}], {1}",
                out(reg) _,
                in(reg) $front,
                options(nostack, preserves_flags)
            )
        };
    }
    pub(super) use {no_relocation, read, write};
}
#[cfg(all(target_arch = "aarch64", not(any(miri, shuttle))))]
mod processor {
    macro_rules! no_relocation {
        () => {
            "R_AARCH64_NONE"
        };
    }
    macro_rules! read {
        ($front:ident) => {
            core::arch::asm!(
                "adrp {0}, :gottprel:__hakmem_heap_v0",
                "mrs {1}, tpidr_el0",
                "ldr {0}, [{0}, :gottprel_lo12:__hakmem_heap_v0]",
                "ldr {0}, [{1}, {0}]",
                out(reg) $front,
                out(reg) _,
                options(pure, readonly, nostack, preserves_flags)
            )
        };
    }
    macro_rules! write {
        ($front:ident) => {
            core::arch::asm!(
                "adrp {0}, :gottprel:__hakmem_heap_v0",
                "mrs {1}, tpidr_el0",
                "ldr {0}, [{0}, :gottprel_lo12:__hakmem_heap_v0]",
                "str {2}, [{1}, {0}]",
                out(reg) _,
                out(reg) _,
                in(reg) $front,
                options(nostack, preserves_flags)
            )
        };
    }
    pub(super) use {no_relocation, read, write};
}

#[cfg(not(any(miri, shuttle)))]
mod word {
    use super::{Front, processor};

    /// The calling thread's front: that of its heap, or of the empty or dead heap, whose lists stay
    /// empty.
    #[inline(always)]
    pub fn front() -> *const Front {
        let front;
        // SAFETY: the instructions read the thread's own word. `pure` is right between the writes
        // of the word: these are behind calls that the compiler does not inline.
        unsafe { processor::read!(front) };
        front
    }

    #[inline(never)]
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub fn set(front: *const Front) {
        // SAFETY: the instructions write the thread's own word, and nothing else.
        unsafe { processor::write!(front) };
    }
}

/// The same word for checkers that cannot read assembly and have their own threads.
#[cfg(miri)]
mod word {
    use super::{EMPTY_FRONTS, Front};
    use core::cell::Cell;

    // The word has no destructor: it is readable as long as the thread runs any code.
    std::thread_local! {
        static WORD: Cell<*const Front> =
            const { Cell::new((&raw const EMPTY_FRONTS.fronts).cast()) };
    }

    pub fn front() -> *const Front {
        WORD.get()
    }

    pub fn set(front: *const Front) {
        WORD.set(front);
    }
}
#[cfg(shuttle)]
mod word {
    use super::{EMPTY_FRONTS, Front};
    use core::cell::RefCell;
    use std::vec::Vec;

    // Indexed by the number of shuttle's thread: all of these run on one thread of the system.
    // Shuttle's own thread-local storage is gone when its destructors run.
    std::thread_local! {
        static WORDS: RefCell<Vec<*const Front>> = const { RefCell::new(Vec::new()) };
    }

    fn thread() -> usize {
        shuttle::current::try_get_current_task().map_or(0, usize::from)
    }

    pub fn front() -> *const Front {
        WORDS
            .with_borrow(|words| words.get(thread()).copied())
            .unwrap_or((&raw const EMPTY_FRONTS.fronts).cast())
    }

    pub fn set(front: *const Front) {
        WORDS.with_borrow_mut(|words| {
            let most = words.len().max(thread() + 1);
            words.resize(most, (&raw const EMPTY_FRONTS.fronts).cast());
            words[thread()] = front;
        });
    }

    /// Forgets all heaps of threads, before a schedule begins.
    pub fn forget_all() {
        WORDS.with_borrow_mut(Vec::clear);
    }
}
#[cfg(shuttle)]
pub use word::forget_all;
#[cfg(any(miri, shuttle))]
pub use word::front;
#[cfg(any(miri, shuttle))]
use word::set;

/// The meaning of the thread's word.
#[derive(Clone, Copy)]
pub enum ThreadState {
    /// The thread has not allocated yet.
    Empty,
    /// The thread has a heap.
    Live(&'static Heap),
    /// The thread is ending, and has put its heap back.
    Dead,
}

/// Reads the word. For slow paths. In a scope, this is the state that the thread had before.
#[inline]
pub fn state() -> ThreadState {
    match state_in_scope() {
        Ok(state) => state,
        Err(scope) => outer_state(scope),
    }
}

/// [`state`], or the scope that the thread is in.
#[inline]
pub fn state_in_scope() -> Result<ThreadState, &'static Scope> {
    if let Some(heap) = heap() {
        return Ok(ThreadState::Live(heap));
    }
    let front = front();
    let offset = front.addr().wrapping_sub((&raw const EMPTY_FRONTS.fronts).addr());
    if offset >= size_of_val(&EMPTY_FRONTS.fronts) {
        // SAFETY: the word is no heap's and no empty front, so `set_scope` wrote it. A scope begins
        // with its front, and is never unmapped.
        return Err(unsafe { &*front.cast::<Scope>() });
    }
    Ok(if offset == 0 { ThreadState::Empty } else { ThreadState::Dead })
}

/// The heap that the thread's word leads to. None: the thread has no heap, or is in a scope.
#[inline(always)]
pub fn heap() -> Option<&'static Heap> {
    let front = front();
    if scope::is_scope_or_empty(front) {
        return None;
    }
    // SAFETY: scopes and empty fronts lie at no multiple of a heap's size, so `set_live` wrote the
    // word with a heap's front. A heap begins with its front, and is never freed. The thread holds
    // it (`thread` rule 3).
    Some(unsafe { front.cast::<Heap>().as_ref().unwrap_unchecked() })
}

/// The state of a thread that is in a scope: a thread has a heap before it enters one.
#[cold]
#[inline(never)]
fn outer_state(scope: &'static Scope) -> ThreadState {
    // SAFETY: the thread entered its first scope from its heap (`scope::enter`), or `set_behind`
    // put another heap there.
    ThreadState::Live(unsafe { &*first_scope(scope).outer.get().cast::<Heap>() })
}

/// The scope that the thread entered first. It is in `scope`.
fn first_scope(scope: &'static Scope) -> &'static Scope {
    let mut first = scope;
    while let Some(outer) = first.outer_scope() {
        first = outer;
    }
    first
}

/// The front of the calling thread's heap, whether the thread is in a scope or not.
pub fn own_front() -> *const Front {
    match state_in_scope() {
        Err(scope) => match outer_state(scope) {
            ThreadState::Live(heap) => &raw const heap.owner.front,
            _ => front(),
        },
        Ok(_) => front(),
    }
}

/// Makes a scope the calling thread's, or the front that it had before.
///
/// # Safety
/// `front` is that of a scope whose `outer` is the thread's word, and the thread has a heap. Or it
/// is the `outer` of the scope that the word leads to.
pub unsafe fn set_scope(front: *const Front) {
    set(front);
}

/// Makes the heap the calling thread's.
///
/// # Safety
/// The calling thread holds the heap, until it calls [`set_dead`] (`thread` rule 3).
pub unsafe fn set_live(heap: &'static Heap) {
    set(&heap.owner.front);
}

/// Puts the heap behind the scopes of the calling thread, which is in `scope`, in place of the one
/// that is there.
///
/// # Safety
/// The calling thread holds the heap, until it calls [`set_dead`] (`thread` rule 3).
pub unsafe fn set_behind(scope: &'static Scope, heap: &'static Heap) {
    first_scope(scope).outer.set(&raw const heap.owner.front);
}

/// Sets the word to its first value: the thread has no heap, and gets one at its next allocation.
pub fn set_empty() {
    set((&raw const EMPTY_FRONTS.fronts).cast());
}

/// Marks the calling thread as ending.
pub fn set_dead() {
    set((&raw const EMPTY_FRONTS.fronts[1]).cast());
}
