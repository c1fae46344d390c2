//! The calling thread's stack, as return addresses.
//!
//! A frame may be nonsense: its code has no tables, a register holds something else, the program has damaged it. So nothing
//! that a frame leads to is read directly: the kernel copies pieces of the stack, and says where there is nothing to read
//! (`os::copy_readable`). A stack of any kind will do, a coroutine's or a signal handler's.
//!
//! That call is most of the cost. So what was once followed to its outermost frame by the tables alone is remembered: from the stack pointer of
//! then to that frame it is one stack, and the thread's. As long as the stack pointer is inside of it, what lies above is
//! read directly, up to there and no further.

use super::rules::{self, Rule};
use crate::os;

/// Return addresses that are kept, nearest first.
pub const DEPTH: usize = 128;
/// Bytes of the stack that are copied at a time.
const PIECE: usize = 8 << 10;

/// What following a stack takes: too much to lie on it. All zero is valid.
pub struct Scratch {
    frames: [usize; DEPTH],
    /// The part of the stack at `at`, of which `len` bytes are there.
    piece: [u8; PIECE],
    at: usize,
    len: usize,
    /// What is known to be the thread's stack.
    known_from: usize,
    known_to: usize,
}

impl Scratch {
    /// Another thread will have it, with another stack.
    pub fn forget(&mut self) {
        (self.known_from, self.known_to) = (0, 0);
    }

    /// The word at an address of the stack, which is at or above `low`. None: there is nothing to read.
    fn word(&mut self, address: usize, low: usize) -> Option<usize> {
        const WORD: usize = size_of::<usize>();
        if !address.is_multiple_of(WORD) || address < low {
            return None;
        }
        // A sanitizer would take it for an error: most of it is other functions' variables.
        if !cfg!(sanitizer) && low >= self.known_from && address < self.known_to && address <= self.known_to - WORD {
            // SAFETY: aligned, and between the stack pointer and the outermost frame of this thread's stack, see above.
            return Some(unsafe { core::ptr::with_exposed_provenance::<usize>(address).read_volatile() });
        }
        if address.wrapping_sub(self.at).saturating_add(WORD) > self.len {
            // What comes next lies at or above the frame that is left.
            self.at = if address - low <= PIECE - WORD { low & !(WORD - 1) } else { address };
            self.len = os::copy_readable(self.at, &mut self.piece);
        }
        let offset = address - self.at;
        let bytes = self.piece[..self.len].get(offset..)?.first_chunk()?;
        Some(usize::from_ne_bytes(*bytes))
    }

    /// Follows the stack from here. O(frames).
    #[inline(never)]
    pub fn follow(&mut self) -> &[usize] {
        self.len = 0;
        let Some((mut pc, mut stack, mut frame)) = registers() else { return &[] };
        let (lowest, mut sure) = (stack, true);
        let mut n = 0;
        loop {
            self.frames[n] = pc;
            n += 1;
            // A return address may be that of the next function, if the call was the last of its own.
            let code = if n == 1 { pc } else { pc - 1 };
            let next = match rules::of(code) {
                Rule::Outermost => {
                    if sure && (lowest < self.known_from || stack > self.known_to || self.known_to == 0) {
                        (self.known_from, self.known_to) = (lowest, stack);
                    }
                    None
                }
                Rule::Table { from_frame, offset, frame_at } => {
                    let base = if from_frame { frame } else { stack };
                    self.up(base.wrapping_add(offset as usize), stack, frame, frame_at)
                }
                Rule::Unknown => {
                    sure = false; // A signal's frame, maybe, which lies on another stack.
                    self.up(frame.wrapping_add(16), stack, frame, Some(16))
                }
            };
            match next {
                Some(caller) if n < DEPTH => (pc, stack, frame) = caller,
                _ => return &self.frames[..n],
            }
        }
    }

    /// The caller's return address, stack pointer and frame pointer, if `top` is its stack pointer.
    fn up(&mut self, top: usize, stack: usize, frame: usize, frame_at: Option<u16>) -> Option<(usize, usize, usize)> {
        // Stacks grow down, and end: or it would go round in a circle.
        if top <= stack {
            return None;
        }
        let pc = self.word(top.checked_sub(8)?, stack)?;
        let frame = match frame_at {
            Some(below) => self.word(top.checked_sub(usize::from(below))?, stack)?,
            None => frame,
        };
        // Not code: the end of the stack, or nonsense.
        (pc >= 4096).then_some((pc, top, frame))
    }
}

/// The program counter, stack pointer and frame pointer, here.
#[cfg(all(target_arch = "x86_64", not(any(miri, shuttle))))]
#[inline(always)]
fn registers() -> Option<(usize, usize, usize)> {
    let (pc, stack, frame);
    // SAFETY: reads registers.
    unsafe {
        core::arch::asm!(
            "lea {}, [rip]",
            "mov {}, rsp",
            "mov {}, rbp",
            out(reg) pc,
            out(reg) stack,
            out(reg) frame,
            options(nomem, nostack, preserves_flags)
        );
    }
    Some((pc, stack, frame))
}

/// Elsewhere there are no stacks yet.
#[cfg(not(all(target_arch = "x86_64", not(any(miri, shuttle)))))]
fn registers() -> Option<(usize, usize, usize)> {
    None
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    extern crate std;
    use super::*;

    fn scratch() -> std::boxed::Box<Scratch> {
        // SAFETY: all zero is a valid scratch.
        unsafe { std::boxed::Box::new(core::mem::zeroed()) }
    }

    #[inline(never)]
    fn inner(scratch: &mut Scratch) -> std::vec::Vec<usize> {
        std::hint::black_box(scratch).follow().to_vec()
    }

    #[inline(never)]
    fn deep(scratch: &mut Scratch, levels: usize) -> std::vec::Vec<usize> {
        // A frame of a size that the compiler cannot know to be small.
        let room = std::hint::black_box([levels; 40]);
        let found = if levels == 0 { inner(scratch) } else { deep(scratch, levels - 1) };
        std::hint::black_box(room);
        found
    }

    #[test]
    fn a_recursion_is_seen_at_every_level() {
        os::find_objects();
        for levels in [0, 1, 20, 60, 500] {
            let found = deep(&mut scratch(), levels);
            // The calls of itself return to one address; two frames are inside of them.
            let most = found.iter().map(|pc| found.iter().filter(|other| *other == pc).count()).max();
            assert_eq!(most, Some(levels.clamp(1, DEPTH - 3)), "{levels}: {found:x?}");
            assert_eq!(found.len() == DEPTH, levels == 500, "a stack ends, or is cut");
        }
    }

    #[test]
    fn what_cannot_be_read_ends_the_stack() {
        let mut scratch = scratch();
        let page = os::reserve(4 * 4096).unwrap();
        assert!(os::commit(page, 4096));
        let last = page + 4096 - 8;
        // SAFETY: just made accessible, and ours.
        unsafe { os::at(last).cast::<usize>().write(77) };
        assert_eq!(scratch.word(last, page), Some(77), "up to the end of what is there");
        assert_eq!(scratch.word(last + 8, page), None, "and no further");
        assert_eq!(scratch.word(last - 1, page), None, "misaligned");
        assert_eq!(scratch.word(last, last + 8), None, "below the stack pointer");
        assert_eq!(scratch.word(usize::MAX & !7, page), None);
        // A frame that leads to itself, or down, is not followed.
        assert_eq!(scratch.up(page + 16, page + 16, 0, None), None);
        assert!(os::unreserve(page, 4 * 4096));
    }
}
