//! Ends the process, with one line, for a foreign pointer that is certainly an error of the
//! program. glibc does the same.
//!
//! A free of a foreign pointer may be right: the pointer may be another allocator's block, and then
//! that allocator judges it. So this module judges only pointers that no allocator returns. It
//! needs only arithmetic: it takes no lock, makes no system call, and reads nothing that `p` points
//! to. `HAKMEM_FOREIGN=leak` leaves all foreign pointers alone.
//!
//! Rules
//! 1. Blocks of other allocators are multiples of 8, lie where the processor has addresses for
//!    programs, and do not lie in the first 64 KiB.
//! 2. They do not lie in the code, constants or variables of the program or of a library. Two
//!    objects are left out. The loader's first blocks lie behind its own variables, and the loader
//!    frees them when it closes libraries. And the next allocator may begin with a variable of its
//!    own.
//! 3. They do not lie on the first thread's stack, as long as the stack pointer lies there too
//!    (`os::on_first_stack`).
//! 4. Nobody knows how far other stacks reach. But in the system page of the stack pointer, all
//!    memory above it is the stack's, unless an allocator cut the stack out of a larger block. So
//!    this rule is used only if no other allocator has any memory.

use crate::backend::{arena, check};
use crate::base::sync::Ordering::{Acquire, Release};
use crate::base::sync::plain::AtomicUsize;
use crate::os;
use crate::policy::{self, Foreign};

/// No memory lies below this address.
const LOWEST: usize = 64 << 10;
/// The bits of a program's address: those of five levels of page tables; on aarch64 the upper
/// byte may be a tag, and the kernel's half has the highest bit.
const ADDRESS_BITS: u32 = if cfg!(target_arch = "x86_64") { 56 } else { 63 };
/// The smallest system page of any kernel.
const LEAST_PAGE: usize = 4096;

fn is_on() -> bool {
    check::CHECKED && !cfg!(any(miri, shuttle)) && policy::FOREIGN.get() != Foreign::Leak as u32
}

/// An address in the frame of the function that calls it, or of the next one.
#[inline(always)]
fn stack_pointer() -> usize {
    let here = 0u8;
    core::hint::black_box(&raw const here).addr()
}

/// An address in the code of the next allocator. 0: not known yet.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Finds the objects of the process, so that libraries can be told apart. May allocate. `next` is
/// an address in the code of the next allocator.
pub fn find_objects(next: usize) {
    os::find_objects();
    // Release: a thread that sees this sees the objects, too. Before, no library is judged.
    NEXT.store(next, Release);
}

/// Ends the process if `p`, which is in no arena, can be no allocator's block. O(arenas + parts of
/// the program).
#[cold]
#[inline(never)]
pub fn judge(p: *mut u8) {
    if !is_on() {
        return;
    }
    let address = p.addr();
    let what = if !address.is_multiple_of(8) {
        "no block starts at such an address"
    } else if address < LOWEST || address >> ADDRESS_BITS != 0 {
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

/// Ends the process if `p` is on the calling thread's stack. [`judge`] was not certain of it, and
/// no other allocator has any memory.
#[cold]
#[inline(never)]
pub fn judge_unowned(p: *mut u8) {
    let sp = stack_pointer();
    if is_on() && p.addr() >= sp && p.addr() / LEAST_PAGE == sp / LEAST_PAGE {
        invalid(p, "on the stack");
    }
}

/// True for a library's part (rule 2). `os::in_program` knows the program's parts better.
fn in_library(address: usize) -> bool {
    // Acquire: if `next` is known, the objects are known, too.
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
