//! The one word of thread-local storage, initial-exec, on stable Rust.
//!
//! `thread_local!` in a shared library goes through `__tls_get_addr`, which costs a call and may itself allocate. So
//! the word is defined in assembly and read with two instructions (one, once the linker has relaxed the access in an
//! executable). It starts as the address of the *empty heap*, a read-only front whose lists are all empty: the fast
//! path needs no test for "is there a heap yet", it finds nothing and takes the slow path.

use crate::backend::owner::Front;
use crate::backend::page::Block;
use crate::base::size_class::{CLASS16, CLASSES, TABLE16};
use crate::heap::Heap;
#[cfg(not(any(miri, shuttle)))]
use core::arch::{asm, global_asm};

/// A front that no thread writes: it has the layout of [`Front`] and no interior mutability, so it is read-only data.
#[repr(C)]
struct EmptyFront {
    free: [*mut Block; CLASSES],
    class16: [u8; TABLE16],
}
// SAFETY: never written.
unsafe impl Sync for EmptyFront {}
const _: () = assert!(size_of::<EmptyFront>() == size_of::<Front>());

const EMPTY_FRONT: EmptyFront = EmptyFront { free: [core::ptr::null_mut(); CLASSES], class16: CLASS16 };
/// What a thread has before its first allocation, and what it has after it gave its heap back. Side by side, so that
/// one comparison tells both from a heap.
static EMPTY_FRONTS: [EmptyFront; 2] = [EMPTY_FRONT; 2];

#[cfg(all(target_arch = "x86_64", not(any(miri, shuttle))))]
global_asm!(
    ".pushsection .tdata.hakmem_heap,\"awT\",@progbits",
    ".p2align 3",
    ".globl __hakmem_heap_v0",
    ".hidden __hakmem_heap_v0",
    ".type __hakmem_heap_v0,@object",
    ".size __hakmem_heap_v0,8",
    "__hakmem_heap_v0:",
    ".quad {empty}",
    // Changes nothing, but makes the linker take the note of `stats::view` out of its object file, too.
    ".reloc __hakmem_heap_v0, R_X86_64_NONE, __hakmem_note_v0",
    ".popsection",
    empty = sym EMPTY_FRONTS,
);

/// The calling thread's front: of its heap, or of the empty or dead heap, whose lists are empty and stay so.
#[cfg(all(target_arch = "x86_64", not(any(miri, shuttle))))]
#[inline(always)]
pub fn front() -> *const Front {
    let front;
    // SAFETY: reads the thread's own word. `pure` holds between the places that set it, which are all behind calls
    // that are not inlined.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + __hakmem_heap_v0@GOTTPOFF]",
            "mov {0}, qword ptr fs:[{0}]",
            out(reg) front,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    front
}

#[cfg(all(target_arch = "x86_64", not(any(miri, shuttle))))]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
fn set(front: *const Front) {
    // SAFETY: writes the thread's own word.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + __hakmem_heap_v0@GOTTPOFF]",
            "mov qword ptr fs:[{0}], {1}",
            out(reg) _,
            in(reg) front,
            options(nostack, preserves_flags)
        );
    }
}

/// The same word for checkers, which read no assembly and have threads of their own.
#[cfg(miri)]
mod word {
    use super::{EMPTY_FRONTS, Front};
    use core::cell::Cell;

    // Without a destructor: it can be read as long as the thread runs any code.
    std::thread_local! { static WORD: Cell<*const Front> = const { Cell::new((&raw const EMPTY_FRONTS).cast()) }; }

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

    // By the numbers of shuttle's threads, all of which are one of the system's. Its own thread-local storage is gone
    // when its destructors run.
    std::thread_local! { static WORDS: RefCell<Vec<*const Front>> = const { RefCell::new(Vec::new()) }; }

    fn thread() -> usize {
        shuttle::current::try_get_current_task().map_or(0, usize::from)
    }

    pub fn front() -> *const Front {
        WORDS.with_borrow(|words| words.get(thread()).copied()).unwrap_or((&raw const EMPTY_FRONTS).cast())
    }

    pub fn set(front: *const Front) {
        WORDS.with_borrow_mut(|words| {
            let most = words.len().max(thread() + 1);
            words.resize(most, (&raw const EMPTY_FRONTS).cast());
            words[thread()] = front;
        });
    }

    /// Before a schedule: no thread has a heap.
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

/// What the thread's word says.
#[derive(Clone, Copy)]
pub enum ThreadState {
    /// It has not allocated yet.
    Empty,
    /// It has a heap.
    Live(&'static Heap),
    /// It has given its heap back: it is ending.
    Dead,
}

/// Reads the word on slow paths.
#[inline]
pub fn state() -> ThreadState {
    let front = front();
    let offset = front.addr().wrapping_sub((&raw const EMPTY_FRONTS).addr());
    if offset >= size_of_val(&EMPTY_FRONTS) {
        // SAFETY: every other value was set by `set_live`, and heaps are for ever.
        return ThreadState::Live(unsafe { &*front.cast::<Heap>() });
    }
    if offset == 0 { ThreadState::Empty } else { ThreadState::Dead }
}

/// Gives the thread a heap.
pub fn set_live(heap: &'static Heap) {
    set(&heap.owner.front);
}

/// Marks the thread as ending.
pub fn set_dead() {
    set((&raw const EMPTY_FRONTS[1]).cast());
}
