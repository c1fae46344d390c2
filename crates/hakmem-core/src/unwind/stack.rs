//! The calling thread's stack, as return addresses.
//!
//! A frame may be nonsense: its code has no tables, or a register holds something else, or the
//! program has damaged it. So the profile reads nothing directly that a frame leads to. The kernel
//! copies pieces of the stack, and says what it could not read (`os::copy_readable`). Any kind of
//! stack will do, that of a coroutine or of a signal handler, too.
//!
//! That call is most of the cost. So the scratch remembers a stack that was followed to its
//! outermost frame by the tables alone, without a very long frame: from the stack pointer of that
//! time to that frame lies one stack, the thread's. While the stack pointer lies inside that range,
//! what lies above it is read directly, up to the end of the range and no further.

use super::processor;
use super::rules::{self, Rule};
use crate::os::{self, Registers};

/// Return addresses that a sample keeps, nearest first.
pub const DEPTH: usize = 128;
/// A frame of more bytes may be a change to another stack.
const FAR: usize = 64 << 10;
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
        // True: `at.pc` is no return address, but where the code was interrupted.
        let mut exact = true;
        let mut n = 0;
        loop {
            // Readers take one from each but the first: they look for the call.
            self.frames[n] = at.pc + usize::from(exact && n > 0);
            n += 1;
            // A return address may be that of the next function, if the call was the last
            // instruction of its function.
            let code = if exact { at.pc } else { at.pc - 1 };
            exact = false;
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
                Rule::Saved { from_frame, stack_at, frame_at, code_at }
                    if from_frame || has_stack =>
                {
                    has_stack = true;
                    exact = code_at.is_some();
                    // A signal's frame may lie on another stack.
                    sure &= !exact;
                    let base = if from_frame { at.frame } else { at.stack };
                    self.saved(base, &at, stack_at, frame_at, code_at)
                }
                Rule::Strange => None,
                _ => {
                    // It may be a signal's frame, which lies on another stack.
                    sure = false;
                    has_stack = processor::RECORD_IS_TOP;
                    self.up(at.frame.wrapping_add(16), &at, Some(8), Some(16))
                }
            };
            match next {
                Some(caller) if n < DEPTH => {
                    // The tables may lead from one stack to another, with who knows what between.
                    sure &= caller.stack.wrapping_sub(at.stack) <= FAR;
                    at = caller;
                }
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
        is_code(pc).then_some(Registers { pc, stack: top, frame, link: 0 })
    }

    /// The registers of the caller, which were saved at these distances from `base`. If a signal
    /// interrupted the caller, its stack may lie anywhere. `DEPTH` then ends a way round in a
    /// circle.
    fn saved(
        &mut self,
        base: usize,
        at: &Registers,
        stack_at: i16,
        frame_at: i16,
        code_at: Option<i16>,
    ) -> Option<Registers> {
        let mut word = |distance: i16| {
            let address = base.checked_add_signed(distance.into())?;
            self.word(address, at.stack)
        };
        let (stack, frame) = (word(stack_at)?, word(frame_at)?);
        let pc = match code_at {
            Some(distance) => word(distance)?,
            None if stack > at.stack => {
                self.word(stack.checked_sub(size_of::<usize>())?, at.stack)?
            }
            None => return None,
        };
        is_code(pc).then_some(Registers { pc, stack, frame, link: 0 })
    }
}

/// A small number is no code: the stack ends here, or the frame is nonsense. The same holds for the
/// last address, which nothing can follow.
fn is_code(pc: usize) -> bool {
    (4096..usize::MAX).contains(&pc)
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests;
