//! Foreign pointers that are beyond doubt an error of the program: they end it, with one line, as they do on glibc.
//!
//! Whoever frees a foreign pointer may be right: it may be another allocator's block, and that one judges it then. So only
//! what no allocator hands out is judged here, by arithmetic: no lock, no system call, and nothing that `p` points to is
//! read. `HAKMEM_FOREIGN=leak` leaves all foreign pointers alone.
//!
//! Rules
//! 1. Blocks of other allocators are multiples of 8, lie in the user's half of the address space, and not in its first 64 KiB.
//! 2. They do not lie in the program's code, constants or variables, nor in those of a library. But the loader's first blocks, which it
//!    frees when libraries are closed, lie behind its own variables; and the next allocator may begin with a
//!    variable of its own. So these two objects are left out.
//! 3. They do not lie on the first thread's stack, as long as the stack pointer is there too (`os::on_first_stack`).
//! 4. On other stacks it is not known how far they reach. But in the page of memory of the stack pointer, all above it is the stack's,
//!    unless an allocator cut it out of a larger block; so this is judged only if no other one has any memory.

use crate::backend::{arena, check};
use crate::base::sync::Ordering::{Acquire, Release};
use crate::base::sync::plain::AtomicUsize;
use crate::os;
use crate::policy::{self, Foreign};

/// Below this there is no memory.
const LOWEST: usize = 64 << 10;
/// The smallest page of memory that any kernel has.
const LEAST_PAGE: usize = 4096;

fn is_on() -> bool {
    check::CHECKED && !cfg!(any(miri, shuttle)) && policy::FOREIGN.get() != Foreign::Leak as u32
}

/// Somewhere in the frame of the function that calls it, or of the next.
#[inline(always)]
fn stack_pointer() -> usize {
    let here = 0u8;
    core::hint::black_box(&raw const here).addr()
}

/// Code of the next allocator.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// To be called before libraries can be told apart; may allocate. `next` is code of the next allocator.
pub fn find_objects(next: usize) {
    os::find_objects();
    // Release: until this is seen, no library is judged.
    NEXT.store(next, Release);
}

/// Ends the process if `p`, which is in no arena, can be nobody's block. O(arenas + parts of the program).
#[cold]
#[inline(never)]
pub fn judge(p: *mut u8) {
    if !is_on() {
        return;
    }
    let address = p.addr();
    let what = if !address.is_multiple_of(8) {
        "no block starts at such an address"
    } else if address < LOWEST || address.cast_signed() < 0 {
        "there is no memory"
    } else if arena::in_books(address) {
        "the allocator's own memory"
    } else if os::in_program(address) {
        "part of the program, its code or its variables"
    } else if os::on_first_stack(address, stack_pointer()) {
        "on the stack"
    } else if in_library(address) {
        "part of a library, its code or its variables"
    } else {
        return;
    };
    invalid(p, what);
}

/// Ends the process if `p`, of which [`judge`] was not certain, is on the calling thread's stack. No other allocator has any
/// memory.
#[cold]
#[inline(never)]
pub fn judge_unowned(p: *mut u8) {
    let sp = stack_pointer();
    if is_on() && p.addr() >= sp && p.addr() / LEAST_PAGE == sp / LEAST_PAGE {
        invalid(p, "on the stack");
    }
}

/// See rule 2. The program's parts are known better.
fn in_library(address: usize) -> bool {
    // Acquire: what finds objects is known, too.
    let next = NEXT.load(Acquire);
    if next == 0 {
        return false;
    }
    let (Some(object), Some(loader)) = (os::object_of(address), os::loader()) else { return false };
    let others = [loader, next, os::program_headers()];
    !others.iter().any(|&other| (object.start..object.end).contains(&other))
}

#[cold]
fn invalid(p: *mut u8, what: &str) -> ! {
    os::fatal(format_args!("invalid pointer {p:p}: {what}"))
}
