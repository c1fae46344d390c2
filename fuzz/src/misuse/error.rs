//! The kinds of errors, how each is made, and what is promised for it.

use super::books::Held;
use super::child::{Promise, note_write, promise};
use super::hands::{Call, Through};
use super::{HARDENED, Program, request};
use crate::ops::{Align, Size};
use arbitrary::Arbitrary;
use std::alloc::Layout;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Arbitrary)]
enum Kind {
    /// A block is freed twice.
    FreeFreed,
    /// A pointer into a block, a multiple of 16, is freed.
    FreeInner,
    /// A pointer that is no multiple of 16 is freed through the front end for C.
    FreeMisaligned,
    /// A pointer that was made up, somewhere about the arena, is freed.
    FreeWild,
    /// A pointer that is nobody's, or another allocator's, is freed.
    FreeForeign,
    /// A block is freed with another size and alignment than it was asked for with.
    FreeSized,
    /// A block from the front end for Rust is freed through the one for C.
    FreeOtherDoor,
    ReallocFreed,
    /// At any offset.
    ReallocInner,
    ReallocForeign,
    UsableFreed,
    /// At any offset.
    UsableInner,
    UsableForeign,
    /// A block is written to after it was freed.
    WriteFreed,
}

/// One error.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub struct Error {
    kind: Kind,
    /// The block that it is made with: one of those that are live, or a new one.
    target: u8,
    size: Size,
    align: Align,
    /// Who allocates it if it is new, who frees it first, and who makes the error.
    who: [u8; 3],
    offset: u16,
    value: u8,
}

/// What the error is made with.
pub struct Prepared {
    pub layout: Layout,
    /// None: there was no memory.
    target: Option<Held>,
}

const MISALIGNED: usize = 16;
/// A value that is no address.
const NO_ADDRESS: usize = 0x4141_4141_4141_4141;

static IN_DATA: [u64; 64] = [0; 64];

impl Error {
    /// What is to be done with foreign pointers.
    pub fn foreign(&self) -> &'static str {
        ["forward", "leak", "abort"][usize::from(self.value / 8 % 3)]
    }

    /// True if the program writes where it should not, of itself.
    pub fn writes(&self) -> bool {
        self.kind == Kind::WriteFreed
    }

    fn who(&self, part: usize) -> usize {
        usize::from(self.who[part] % 4)
    }

    /// Makes ready, by operations that are right.
    pub fn prepare(&self, program: &mut Program) -> Prepared {
        let (through, layout) = request(self.size, self.align.bytes());
        let live = program.books.held.len();
        let mut at = usize::from(self.target) % (live + 1);
        if at == live {
            program.alloc(self.who(0), through, layout);
            at = program.books.held.len().wrapping_sub(1);
        }
        let target = match self.kind {
            Kind::FreeFreed | Kind::ReallocFreed | Kind::UsableFreed | Kind::WriteFreed => {
                program.free(self.who(1), at)
            }
            _ => program.books.held.get(at).copied(),
        };
        Prepared { layout, target }
    }

    /// Makes it.
    pub fn make(&self, program: &mut Program, prepared: &Prepared) {
        let who = self.who(2);
        let Some(target) = prepared.target else {
            return;
        };
        match self.kind {
            Kind::FreeFreed => self.free_again(program, who, &target),
            Kind::FreeInner | Kind::FreeMisaligned | Kind::ReallocInner | Kind::UsableInner => {
                // Steps between may have freed it, and another may be in its place.
                if program.books.held.iter().any(|h| h.is(&target)) {
                    self.inner(program, who, &target);
                }
            }
            Kind::FreeWild => {
                let unit = [16, 1 << 10, 64 << 10, 16 << 20][usize::from(self.value % 4)];
                let distance = isize::from(self.offset as i16) * unit;
                let p = (target.start & !15).wrapping_add_signed(distance);
                program.books.taint(p, true);
                confined(program);
                program.hands.have(who, Call::Free(p));
            }
            Kind::FreeForeign | Kind::ReallocForeign | Kind::UsableForeign => {
                self.foreign_pointer(program, who);
            }
            Kind::FreeSized | Kind::FreeOtherDoor => self.free_otherwise(program, who, &target),
            Kind::ReallocFreed => {
                let refused = target.is_whole() && !program.books.was_touched(&target);
                program.books.taint(target.start, false);
                match target.start % 16 {
                    0 if refused => promise(Promise::Refused, 0),
                    _ => confined(program),
                }
                let got = program
                    .hands
                    .have(who, Call::Realloc(target.start, prepared.layout.size()));
                let layout = Layout::from_size_align(prepared.layout.size(), 16).unwrap();
                program.admit(got, layout, Through::C);
            }
            Kind::UsableFreed => {
                let refused = target.is_whole() && !program.books.was_touched(&target);
                promise(
                    if refused {
                        Promise::Refused
                    } else {
                        Promise::RefusedOrHarmless
                    },
                    0,
                );
                program.hands.have(who, Call::UsableSize(target.start));
            }
            Kind::WriteFreed => self.write_freed(program, &target),
        }
    }

    fn write_freed(&self, program: &mut Program, target: &Held) {
        let offset = usize::from(self.offset);
        let word = match self.value / 4 {
            0..48 => offset % 2, // What may be a link.
            _ => offset,
        } % (target.len / 8).max(1);
        let at = target.start + word * 8;
        let value = [0, target.start, NO_ADDRESS, 0x10][usize::from(self.value % 4)];
        let wild = if value == NO_ADDRESS {
            usize::MAX
        } else {
            value
        };
        // Or the link of a block that was made of its place since.
        let linked = word < 2 && !target.is_whole() || program.books.was_touched(target);
        program.books.taint(at, false);
        // A fenced block has no access.
        let (linked, wild) = match HARDENED && target.is_whole() {
            true => (true, at),
            false => (linked, wild),
        };
        promise(
            if linked {
                Promise::Followed
            } else {
                Promise::Confined
            },
            wild,
        );
        note_write(at);
        // SAFETY: the arena is mapped; that it should not be written to is what the process is for.
        unsafe { std::ptr::with_exposed_provenance_mut::<usize>(at).write(value) };
    }

    fn free_again(&self, program: &mut Program, who: usize, target: &Held) {
        let refused = target.is_whole() && !program.books.was_touched(target);
        program.books.taint(target.start, false);
        match refused {
            true => promise(Promise::Refused, 0),
            false => confined(program),
        }
        let call = match target.through {
            Through::C => Call::Free(target.start),
            Through::Rust => Call::Dealloc(target.start, target.layout),
        };
        program.hands.have(who, call);
    }

    fn inner(&self, program: &mut Program, who: usize, target: &Held) {
        let offset = usize::from(self.offset) * usize::from(self.value % 64).max(1);
        let p = target.start + 1 + offset % (target.len - 1).max(1);
        let aligned = (p & !15).max(target.start.next_multiple_of(16));
        match self.kind {
            Kind::FreeMisaligned => {
                // The block behind may start 8 bytes further.
                let p = match p.is_multiple_of(MISALIGNED) {
                    true if p + 8 < target.start + target.len => p + 8,
                    true => p + 1,
                    false => p,
                };
                promise(Promise::Refused, 0);
                program.hands.have(who, Call::Free(p));
            }
            Kind::FreeInner if aligned == target.start => {} // Too small a block.
            Kind::FreeInner => {
                program.books.taint(aligned, true);
                match target.is_whole() {
                    true => promise(Promise::Refused, 0),
                    false => confined(program),
                }
                program.hands.have(who, Call::Free(aligned));
            }
            Kind::ReallocInner => {
                match target.is_whole() {
                    true => promise(Promise::Refused, 0),
                    false => promise(Promise::RefusedOrHarmless, 0),
                }
                let got = program
                    .hands
                    .have(who, Call::Realloc(p, self.size.bytes(1)));
                assert!(
                    got == p || got == 0,
                    "{p:#x}, which is no block, was moved to {got:#x}"
                );
            }
            _ => {
                match target.is_whole() {
                    true => promise(Promise::Refused, 0),
                    false => promise(Promise::RefusedOrHarmless, 0),
                }
                program.hands.have(who, Call::UsableSize(p));
            }
        }
    }

    fn foreign_pointer(&self, program: &mut Program, who: usize) {
        let on_stack = [0u64; 64];
        let on_heap = vec![0u64; 64];
        let outside = [
            on_stack.as_ptr().expose_provenance(),
            on_heap.as_ptr().expose_provenance(),
            IN_DATA.as_ptr().expose_provenance(),
            0x10,
            0x7FFF_FFFF_F000,
            0xFFFF_FFFF_FFFF_F000,
            NO_ADDRESS,
        ];
        let p = outside[usize::from(self.offset) % outside.len()] + usize::from(self.target);
        let counted = self.kind != Kind::UsableForeign;
        promise(
            match self.foreign() {
                "abort" if counted => Promise::Refused,
                // Most of these are nobody's beyond doubt.
                "forward" if counted => Promise::RefusedOrHarmless,
                _ => Promise::Harmless,
            },
            0,
        );
        let call = match self.kind {
            Kind::ReallocForeign => Call::Realloc(p, self.size.bytes(1)),
            Kind::UsableForeign => Call::UsableSize(p),
            _ if self.value.is_multiple_of(2) => Call::Free(p),
            _ => Call::Dealloc(p, Layout::new::<u64>()),
        };
        let got = program.hands.have(who, call);
        assert_eq!(got, 0, "for a pointer that is not ours");
        assert!(
            on_stack
                .iter()
                .chain(&on_heap)
                .chain(&IN_DATA)
                .all(|&word| word == 0)
        );
    }

    /// A block that is live, and freed in a way that is wrong, but for the allocator the same.
    fn free_otherwise(&self, program: &mut Program, who: usize, target: &Held) {
        let Some(at) = program.books.held.iter().position(|h| h.is(target)) else {
            return;
        };
        let held = program.books.take(at).expect("it is there");
        let call = match self.kind {
            Kind::FreeOtherDoor => Call::Free(held.start),
            _ => Call::Dealloc(
                held.start,
                Layout::from_size_align(self.size.bytes(1), 1 << (self.value % 16)).unwrap(),
            ),
        };
        let misaligned = self.kind == Kind::FreeOtherDoor && !held.start.is_multiple_of(16);
        promise(
            match self.kind {
                _ if misaligned => Promise::Refused,
                Kind::FreeOtherDoor if HARDENED && held.through == Through::Rust => {
                    Promise::Refused
                }
                _ if HARDENED => Promise::RefusedOrHarmless,
                _ => Promise::Harmless,
            },
            0,
        );
        program.hands.have(who, call);
    }
}

/// Promises that the error stays in its page. A program that writes to what it was given wrongly
/// may write over a link, with a value that is no address.
fn confined(program: &Program) {
    if program.books.scribbles {
        promise(Promise::Followed, usize::MAX);
    } else {
        promise(Promise::Confined, 0);
    }
}
