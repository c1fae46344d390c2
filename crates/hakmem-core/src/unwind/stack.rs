//! The calling thread's stack, as return addresses.
//!
//! A frame may be nonsense: its code has no tables, or a register holds something else, or the
//! program has damaged it. So the profile reads nothing directly that a frame leads to. The kernel
//! copies pieces of the stack, and says what it could not read (`os::copy_readable`). Any kind of
//! stack will do, that of a coroutine or of a signal handler, too.
//!
//! That call is most of the cost. So the scratch remembers a stack that was followed to its
//! outermost frame by the tables alone: from the stack pointer of that time to that frame lies one
//! stack, the thread's. While the stack pointer lies inside that range, what lies above it is read
//! directly, up to the end of the range and no further.

use super::processor;
use super::rules::{self, Rule};
use crate::os::{self, Registers};

/// Return addresses that a sample keeps, nearest first.
pub const DEPTH: usize = 128;
/// Bytes of the stack that the kernel copies at a time.
const PIECE: usize = 8 << 10;

/// Memory for following a stack: too much to lie on the stack itself. All zero bytes are a valid
/// one.
pub struct Scratch {
    frames: [usize; DEPTH],
    /// A copy of the stack at `at`. The kernel could read `len` bytes.
    piece: [u8; PIECE],
    at: usize,
    len: usize,
    /// The range that is known to be the thread's stack.
    known_from: usize,
    known_to: usize,
}

impl Scratch {
    /// One that knows nothing.
    pub const fn new() -> Self {
        Self { frames: [0; DEPTH], piece: [0; PIECE], at: 0, len: 0, known_from: 0, known_to: 0 }
    }

    /// Forgets the thread's stack: another thread, with another stack, gets the scratch.
    pub fn forget(&mut self) {
        (self.known_from, self.known_to) = (0, 0);
    }

    #[cfg(test)]
    pub fn know(&mut self, from: usize, to: usize) {
        (self.known_from, self.known_to) = (from, to);
    }

    #[cfg(test)]
    pub fn known(&self) -> (usize, usize) {
        (self.known_from, self.known_to)
    }

    /// The word at an address of the stack, at or above `low`. None: nothing is readable there.
    fn word(&mut self, address: usize, low: usize) -> Option<usize> {
        const WORD: usize = size_of::<usize>();
        if !address.is_multiple_of(WORD) || address < low {
            return None;
        }
        // A sanitizer would report it: most of the stack is other functions' variables.
        let is_known = low >= self.known_from
            && address.checked_add(WORD).is_some_and(|end| end <= self.known_to);
        if !cfg!(sanitizer) && is_known {
            // SAFETY: aligned, and in the range that is known to be this thread's stack. `low`, the
            // stack pointer of a frame of now, lies in the range, too. So this is the same stack,
            // which is mapped up to its outermost frame.
            return Some(unsafe {
                core::ptr::with_exposed_provenance::<usize>(address).read_volatile()
            });
        }
        if address.wrapping_sub(self.at).saturating_add(WORD) > self.len {
            // The next words to be read lie at or above `low`, the frame of now.
            self.at = if address - low <= PIECE - WORD { low & !(WORD - 1) } else { address };
            self.len = os::copy_readable(self.at, &mut self.piece);
        }
        let offset = address - self.at;
        let bytes = self.piece[..self.len].get(offset..)?.first_chunk()?;
        Some(usize::from_ne_bytes(*bytes))
    }

    /// Follows the stack of the calling function. O(frames).
    #[inline(never)]
    pub fn follow(&mut self) -> &[usize] {
        #[cfg(not(any(miri, shuttle)))]
        return self.follow_from(super::here());
        // Checkers have no stack of the machine.
        #[cfg(any(miri, shuttle))]
        &[]
    }

    /// Follows a stack of the calling thread from the code that has these registers. O(frames).
    pub fn follow_from(&mut self, mut at: Registers) -> &[usize] {
        self.len = 0;
        let (lowest, mut sure) = (at.stack, true);
        // False: the caller's stack pointer is not known, only that it is not below `at.stack`.
        let mut has_stack = true;
        let mut n = 0;
        loop {
            self.frames[n] = at.pc;
            n += 1;
            // A return address may be that of the next function, if the call was the last
            // instruction of its function.
            let code = if n == 1 { at.pc } else { at.pc - 1 };
            let next = match rules::of(code) {
                Rule::Outermost => {
                    if sure && (lowest < self.known_from || at.stack > self.known_to) {
                        (self.known_from, self.known_to) = (lowest, at.stack);
                    }
                    None
                }
                Rule::Table { from_frame, offset, return_at, frame_at }
                    if from_frame || has_stack =>
                {
                    has_stack = true;
                    let base = if from_frame { at.frame } else { at.stack };
                    self.up(base.wrapping_add(offset as usize), &at, return_at, frame_at)
                }
                _ => {
                    // It may be a signal's frame, which lies on another stack.
                    sure = false;
                    has_stack = processor::RECORD_IS_TOP;
                    self.up(at.frame.wrapping_add(16), &at, Some(8), Some(16))
                }
            };
            match next {
                Some(caller) if n < DEPTH => at = caller,
                _ => return &self.frames[..n],
            }
        }
    }

    /// The registers of the caller, if `top` is its stack pointer.
    fn up(
        &mut self,
        top: usize,
        at: &Registers,
        return_at: Option<u16>,
        frame_at: Option<u16>,
    ) -> Option<Registers> {
        // Stacks grow down, and end. Without this check a damaged one could lead round in a circle.
        // Only a function that has called nothing may have no frame. Its caller has no link.
        if top < at.stack || top == at.stack && return_at.is_some() {
            return None;
        }
        let mut saved = |below: u16| self.word(top.checked_sub(below.into())?, at.stack);
        let pc = processor::plain(match return_at {
            Some(below) => saved(below)?,
            None => at.link,
        });
        let frame = match frame_at {
            Some(below) => saved(below)?,
            None => at.frame,
        };
        // A small number is no code: the stack ends here, or the frame is nonsense.
        (pc >= 4096).then_some(Registers { pc, stack: top, frame, link: 0 })
    }
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
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
            let most =
                found.iter().map(|pc| found.iter().filter(|other| *other == pc).count()).max();
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
        fn hakmem_test_calls_at_its_end(
            f: extern "C" fn(usize, *mut c_void, usize),
            seen: *mut c_void,
        );
        safe static hakmem_test_what_follows: u8;
        fn hakmem_test_has_no_tables(
            f: extern "C" fn(usize, *mut c_void, usize),
            seen: *mut c_void,
        );
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
        let it = seen
            .frames
            .iter()
            .position(|&pc| pc == seen.caller)
            .expect("its caller is on the stack");
        assert!(seen.frames.len() > it + 1, "{:x?}", seen.frames);
        assert_eq!(seen.scratch.known(), (0, 0));
    }
}
