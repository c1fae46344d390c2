//! Unit tests of the walk along a stack: recursion, what cannot be read, and code without tables.

extern crate std;
use super::*;
use core::ffi::c_void;

fn scratch() -> std::boxed::Box<Scratch> {
    // SAFETY: all zero bytes are a valid scratch: its fields are numbers.
    unsafe { std::boxed::Box::new(core::mem::zeroed()) }
}

#[inline(never)]
fn inner(scratch: &mut Scratch) -> std::vec::Vec<usize> {
    std::hint::black_box(scratch).follow().to_vec()
}

#[inline(never)]
fn deep(scratch: &mut Scratch, levels: usize) -> std::vec::Vec<usize> {
    // A frame whose size the compiler cannot know.
    let room = std::hint::black_box([levels; 40]);
    let found = if levels == 0 { inner(scratch) } else { deep(scratch, levels - 1) };
    std::hint::black_box(room);
    found
}

#[test]
fn a_recursion_is_seen_at_every_level() {
    rules::find_objects_anew();
    for levels in [0, 1, 20, 60, 500] {
        let found = deep(&mut scratch(), levels);
        // The calls of itself return to one address. Two frames lie inside of them.
        let most = found.iter().map(|pc| found.iter().filter(|other| *other == pc).count()).max();
        assert_eq!(most, Some(levels.clamp(1, DEPTH - 3)), "{levels}: {found:x?}");
        assert_eq!(found.len() == DEPTH, levels == 500, "a stack ends, or is cut");
    }
}

#[test]
fn what_cannot_be_read_ends_the_stack() {
    let mut scratch = scratch();
    let bytes = os::page_size();
    let page = os::reserve(4 * bytes).unwrap();
    assert!(os::commit(page, bytes));
    let last = page + bytes - 8;
    // SAFETY: `commit` has just made it accessible, and nobody else has it.
    unsafe { os::at(last).cast::<usize>().write(77) };
    assert_eq!(scratch.word(last, page), Some(77), "up to the end of what is there");
    assert_eq!(scratch.word(last + 8, page), None, "and no further");
    assert_eq!(scratch.word(last - 1, page), None, "misaligned");
    assert_eq!(scratch.word(last, last + 8), None, "below the stack pointer");
    assert_eq!(scratch.word(usize::MAX & !7, page), None);
    assert_eq!(scratch.word(page, page), Some(0), "at the stack pointer");
    // A frame that leads to itself, or down, is not followed.
    let at = Registers { pc: 0, stack: page + 16, frame: 0, link: 77_777 };
    let mut up = |top, return_at| scratch.up(top, &at, return_at, None).map(|caller| caller.pc);
    assert_eq!(up(page + 16, Some(8)), None);
    assert_eq!(up(page + 8, None), None);
    assert_eq!(up(page + 16, None), Some(77_777), "nothing of it is on the stack");
    assert!(os::unreserve(page, 4 * bytes));
}

/// One call of the kernel's copies neighbouring words. Words of the known stack take none.
#[test]
fn the_stack_is_copied_in_pieces() {
    let (mut scratch, bytes) = (scratch(), 8 * PIECE);
    let start = os::map_memory(bytes).unwrap();
    for at in (start..start + bytes).step_by(8) {
        // SAFETY: the test has just mapped this memory, and nobody else has it.
        unsafe { os::at(at).cast::<usize>().write(at) };
    }
    let look = |scratch: &mut Scratch, at: usize, low: usize| {
        assert_eq!(scratch.word(at, low), Some(at));
        (scratch.at - start, scratch.len)
    };
    assert_eq!(
        look(&mut scratch, start + PIECE - 8, start),
        (0, PIECE),
        "from the stack pointer on"
    );
    assert_eq!(
        look(&mut scratch, start + PIECE - 8, start + 8),
        (0, PIECE),
        "the last word is there"
    );
    assert_eq!(
        look(&mut scratch, start + PIECE, start),
        (PIECE, PIECE),
        "from the word on, if that is far away"
    );
    assert_eq!(
        look(&mut scratch, start + 64, start + 51),
        (48, PIECE),
        "whole words, and this one among them"
    );
    assert_eq!(look(&mut scratch, start + 64, start + 56), (48, PIECE));

    (scratch.len, scratch.at) = (0, start);
    scratch.know(start + 64, start + 128);
    assert_eq!(look(&mut scratch, start + 64, start + 64), (0, 0), "it is read where it lies");
    assert_eq!(look(&mut scratch, start + 120, start + 72), (0, 0));
    assert_eq!(
        look(&mut scratch, start + 128, start + 72),
        (72, PIECE),
        "what is beyond is not the thread's"
    );
    scratch.len = 0;
    assert_eq!(
        look(&mut scratch, start + 120, start + 56),
        (56, PIECE),
        "nor is what begins below"
    );
    scratch.know(0, 0);
    scratch.len = 0;
    assert_eq!(look(&mut scratch, start + 64, start + 64), (64, PIECE));
    assert!(os::unreserve(start, bytes));
}

/// [`deep`] from a function with many bytes of variables.
#[inline(never)]
fn from_far(scratch: &mut Scratch) {
    let variables = core::hint::black_box([0_u8; 2 * FAR]);
    deep(scratch, 3);
    core::hint::black_box(variables);
}

/// It may be a change to another stack.
#[test]
fn a_stack_with_a_long_frame_is_not_taken_for_known() {
    rules::find_objects_anew();
    let mut scratch = scratch();
    from_far(&mut scratch);
    assert_eq!(scratch.known(), (0, 0));
}

/// Only glibc has tables for the beginning of a thread.
#[cfg(target_env = "gnu")]
#[test]
fn what_was_followed_to_its_end_is_known() {
    rules::find_objects_anew();
    let mut scratch = scratch();
    deep(&mut scratch, 3);
    let (from, to) = scratch.known();
    let here = (&raw const scratch).addr();
    assert!(from < here && here < to, "{from:x} {here:x} {to:x}");
    inner(&mut scratch);
    assert_eq!(scratch.known(), (from, to), "a part of it");
    deep(&mut scratch, 10);
    let (wider, end) = scratch.known();
    assert!(wider < from && end == to);
    scratch.forget();
    assert_eq!(scratch.known(), (0, 0));
}

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    // The call is the last instruction, as in a function that calls one which does not return.
    // Another function follows, with another frame.
    ".local hakmem_test_calls_at_its_end",
    "hakmem_test_calls_at_its_end:",
    ".cfi_startproc",
    "mov rdx, [rsp]",
    "sub rsp, 24",
    ".cfi_def_cfa_offset 32",
    "call rdi",
    ".cfi_endproc",
    ".local hakmem_test_what_follows",
    "hakmem_test_what_follows:",
    ".cfi_startproc",
    "add rsp, 24",
    "ret",
    ".cfi_endproc",
    // This function has no tables.
    ".local hakmem_test_has_no_tables",
    "hakmem_test_has_no_tables:",
    "push rbp",
    "mov rbp, rsp",
    "mov rdx, [rsp + 8]",
    "call rdi",
    "pop rbp",
    "ret",
);
#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    ".local hakmem_test_calls_at_its_end",
    "hakmem_test_calls_at_its_end:",
    ".cfi_startproc",
    "mov x2, x30",
    "sub sp, sp, #32",
    ".cfi_def_cfa_offset 32",
    "str x30, [sp, #16]",
    ".cfi_offset x30, -16",
    "blr x0",
    ".cfi_endproc",
    ".local hakmem_test_what_follows",
    "hakmem_test_what_follows:",
    ".cfi_startproc",
    "ldr x30, [sp, #16]",
    "add sp, sp, #32",
    "ret",
    ".cfi_endproc",
    ".local hakmem_test_has_no_tables",
    "hakmem_test_has_no_tables:",
    // The record of the caller lies at the bottom of the frame, as compilers put it.
    "stp x29, x30, [sp, #-64]!",
    "mov x29, sp",
    "mov x2, x30",
    "blr x0",
    "ldp x29, x30, [sp], #64",
    "ret",
);
unsafe extern "C" {
    fn hakmem_test_calls_at_its_end(f: extern "C" fn(usize, *mut c_void, usize), seen: *mut c_void);
    safe static hakmem_test_what_follows: u8;
    fn hakmem_test_has_no_tables(f: extern "C" fn(usize, *mut c_void, usize), seen: *mut c_void);
}

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
core::arch::global_asm!(
    // A trap interrupts this function while its frame pointer points to a record of another
    // caller. Returns its own return address.
    ".globl hakmem_test_is_interrupted",
    ".hidden hakmem_test_is_interrupted",
    "hakmem_test_is_interrupted:",
    ".cfi_startproc",
    "mov rax, [rsp]",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rdi",
    "int3",
    ".globl hakmem_test_interrupted_here",
    ".hidden hakmem_test_interrupted_here",
    "hakmem_test_interrupted_here:",
    "pop rbp",
    ".cfi_def_cfa_offset 8",
    ".cfi_restore rbp",
    "ret",
    ".cfi_endproc",
);
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
unsafe extern "C" {
    fn hakmem_test_is_interrupted(record: *const [usize; 2]) -> usize;
    safe static hakmem_test_interrupted_here: u8;
}

/// What the handler of the trap uses.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
static TRAPPED: core::sync::atomic::AtomicPtr<Seen> =
    core::sync::atomic::AtomicPtr::new(core::ptr::null_mut());

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
extern "C" fn on_trap(_: core::ffi::c_int) {
    // SAFETY: the test set the pointer to a `Seen` in its frame, and does not use it until the trap
    // has returned. The child has one thread.
    let seen = unsafe { &mut *TRAPPED.load(core::sync::atomic::Ordering::Relaxed) };
    seen.frames = inner(&mut seen.scratch);
}

/// The tables of the signal's frame lead to the function that was interrupted, and its own tables
/// to its caller, whatever its frame pointer is. So it is with a stack of the handler's own.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
#[test]
fn a_signals_frame_leads_to_what_it_interrupted() {
    rules::find_objects_anew();
    let other = what_cannot_be_read_ends_the_stack as fn() as usize + 2;
    let record = [0, other];
    for flags in [0, libc::SA_ONSTACK] {
        crate::testing::in_child(|| {
            let mut seen = Seen { scratch: scratch(), frames: [].into(), caller: 0 };
            let mut room = std::vec![0_u8; 1 << 20];
            // SAFETY: all zero bytes are a valid `sigaction` and a valid `stack_t`. The room lives
            // until the child ends. The handler reads only what this test has set.
            unsafe {
                let mut stack: libc::stack_t = core::mem::zeroed();
                (stack.ss_sp, stack.ss_size) = (room.as_mut_ptr().cast(), room.len());
                assert_eq!(libc::sigaltstack(&raw const stack, core::ptr::null_mut()), 0);
                let mut action: libc::sigaction = core::mem::zeroed();
                action.sa_sigaction = on_trap as extern "C" fn(_) as usize;
                action.sa_flags = flags;
                libc::sigaction(libc::SIGTRAP, &raw const action, core::ptr::null_mut());
                TRAPPED.store(&raw mut seen, core::sync::atomic::Ordering::Relaxed);
                seen.caller = hakmem_test_is_interrupted(&raw const record);
            }
            let frames = &seen.frames;
            // Readers take one from the address, as from any that a call returns to.
            let here = (&raw const hakmem_test_interrupted_here).addr() + 1;
            let it = frames.iter().position(|&pc| pc == here).expect("it was interrupted");
            assert_eq!(frames.get(it + 1), Some(&seen.caller), "{frames:x?}");
            assert!(frames.len() > it + 2 && !frames.contains(&other), "{frames:x?}");
            assert_eq!(seen.scratch.known(), (0, 0));
        });
    }
}

struct Seen {
    scratch: std::boxed::Box<Scratch>,
    frames: std::vec::Vec<usize>,
    /// Where the function in assembly returns to.
    caller: usize,
}

extern "C" fn see(_: usize, seen: *mut c_void, caller: usize) {
    // SAFETY: `seen` points to a `Seen` in the frame of the test, which waits for this call and
    // does not use it meanwhile.
    let seen = unsafe { &mut *seen.cast::<Seen>() };
    (seen.frames, seen.caller) = (inner(&mut seen.scratch), caller);
}

#[test]
fn a_call_at_the_end_of_a_function_is_of_that_function() {
    rules::find_objects_anew();
    let mut seen = Seen { scratch: scratch(), frames: [].into(), caller: 0 };
    // SAFETY: the function calls `see` with the pointer, and returns.
    unsafe { hakmem_test_calls_at_its_end(see, (&raw mut seen).cast()) };
    let behind = (&raw const hakmem_test_what_follows).addr();
    let it = seen.frames.iter().position(|&pc| pc == behind).expect("it is on the stack");
    assert_eq!(seen.frames.get(it + 1), Some(&seen.caller), "{:x?}", seen.frames);
    // Other C libraries have no tables for the beginning of a thread.
    assert_eq!(seen.scratch.known() != (0, 0), cfg!(target_env = "gnu"));
}

/// The profile follows it by its frame pointer, but does not remember the stack as known.
#[test]
fn a_stack_of_code_without_tables_is_not_taken_for_known() {
    rules::find_objects_anew();
    let mut seen = Seen { scratch: scratch(), frames: [].into(), caller: 0 };
    // SAFETY: the function calls `see` with the pointer, and returns.
    unsafe { hakmem_test_has_no_tables(see, (&raw mut seen).cast()) };
    let it =
        seen.frames.iter().position(|&pc| pc == seen.caller).expect("its caller is on the stack");
    assert!(seen.frames.len() > it + 1, "{:x?}", seen.frames);
    assert_eq!(seen.scratch.known(), (0, 0));
}
