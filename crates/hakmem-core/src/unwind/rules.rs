//! The way from a frame to its caller's, by the unwind tables that compilers put into every object
//! (`.eh_frame`). The C++ runtime uses them, too.
//!
//! Frame pointers alone are not enough. Most distributions build without them, and such code uses
//! the register for something else. A profile would then have wrong callers instead of none. The
//! tables are exact at each instruction. A search takes about a microsecond, so the rule for an
//! address is kept: the same call sites come again and again.
//!
//! Nothing here allocates or takes a lock. The C library finds the object without a lock
//! (`os::object_of`, glibc 2.35 and later; a statically linked program is one object). gimli keeps
//! its state on the stack. Without tables, frame pointers must do.

use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::AtomicU64;
use crate::os::{self, Tables};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, NativeEndian, Pointer, Register, RegisterRule, UnwindContext,
    UnwindContextStorage, UnwindSection, UnwindTableRow, X86_64,
};

/// How to get from a frame to its caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The caller's stack pointer lies `offset` beyond a register; the return address lies just
    /// below it.
    Table {
        /// True: beyond the frame pointer. False: beyond the stack pointer.
        from_frame: bool,
        /// In bytes.
        offset: u32,
        /// The caller's frame pointer was saved so many bytes below the caller's stack pointer.
        /// None: it is in the register.
        frame_at: Option<u16>,
    },
    /// The frame has no caller.
    Outermost,
    /// The tables say nothing. Frame pointers must do.
    Unknown,
}

/// The rules that were found, by address. An entry is two words: the packed rule, and the address
/// mixed with it by exclusive or. If two threads write an entry at once, the two words fit no
/// address. So no word needs an order.
static KNOWN: [(AtomicU64, AtomicU64); 4096] = [const { (AtomicU64::new(0), AtomicU64::new(0)) }; 4096];

/// The place in `KNOWN` for an address.
fn place(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize
}

/// The rule for code at `pc`. If the program unloads code and loads other code at the same address,
/// this may return the old rule. The stack then ends early, or has a wrong caller.
pub fn of(pc: usize) -> Rule {
    let key = pc as u64;
    let (mixed, rule) = &KNOWN[place(key)];
    let packed = rule.load(Relaxed);
    if mixed.load(Relaxed) ^ packed == key && packed != 0 {
        return Rule::unpack(packed);
    }
    let found = look_up(pc).unwrap_or(Rule::Unknown);
    let packed = found.pack();
    mixed.store(key ^ packed, Relaxed);
    rule.store(packed, Relaxed);
    found
}

/// Asks the C library for the loaded objects, and forgets the rules that were searched for before:
/// another test may have followed its stack without.
#[cfg(test)]
pub fn find_objects_anew() {
    os::find_objects();
    for (mixed, rule) in &KNOWN {
        mixed.store(0, Relaxed);
        rule.store(0, Relaxed);
    }
}

impl Rule {
    const TABLE: u64 = 1 << 63;
    const OUTERMOST: u64 = 1 << 62;
    const UNKNOWN: u64 = 1 << 61;
    const FROM_FRAME: u64 = 1 << 60;
    const FRAME_SAVED: u64 = 1 << 59;

    /// The rule as a number that is not 0.
    fn pack(self) -> u64 {
        match self {
            Self::Outermost => Self::OUTERMOST,
            Self::Unknown => Self::UNKNOWN,
            Self::Table { from_frame, offset, frame_at } => {
                let frame = frame_at.map_or(0, |at| Self::FRAME_SAVED | u64::from(at) << 32);
                Self::TABLE | if from_frame { Self::FROM_FRAME } else { 0 } | frame | u64::from(offset)
            }
        }
    }

    fn unpack(packed: u64) -> Self {
        match packed {
            p if p & Self::OUTERMOST != 0 => Self::Outermost,
            p if p & Self::UNKNOWN != 0 => Self::Unknown,
            p => Self::Table {
                from_frame: p & Self::FROM_FRAME != 0,
                offset: p as u32,
                frame_at: (p & Self::FRAME_SAVED != 0).then_some((p >> 32) as u16),
            },
        }
    }
}

/// Room for the registers of a row of the tables. On x86-64 a function must preserve seven.
struct OnStack;
impl UnwindContextStorage<usize> for OnStack {
    type Rules = [(Register, RegisterRule<usize>); 16];
    type Stack = [UnwindTableRow<usize, Self>; 4];
}

/// Searches the tables. None: there are none for this address, or they say something that this
/// module does not know.
#[inline(never)]
fn look_up(pc: usize) -> Option<Rule> {
    let object = os::object_of(pc)?;
    let mut context = UnwindContext::<usize, OnStack>::new_in();
    let cie = |section: &EhFrame<_>, bases: &BaseAddresses, at| section.cie_from_offset(bases, at);
    let index = match object.tables {
        Tables::Index(index) => index,
        Tables::Frames(start, len) => {
            let section = EhFrame::new(slice(start, start.checked_add(len)?)?, NativeEndian);
            let bases = BaseAddresses::default().set_eh_frame(start as u64);
            return rule_of(section.unwind_info_for_address(&bases, &mut context, pc as u64, cie).ok()?);
        }
    };
    let header = EhFrameHdr::new(slice(index, object.end)?, NativeEndian);
    let bases = BaseAddresses::default().set_eh_frame_hdr(index as u64);
    let header = header.parse(&bases, 8).ok()?;
    let Pointer::Direct(start) = header.eh_frame_ptr() else { return None };
    let bases = bases.set_eh_frame(start);
    let start = usize::try_from(start).ok().filter(|at| (object.start..object.end).contains(at))?;
    let section = EhFrame::new(slice(start, object.end)?, NativeEndian);
    let row = header.table()?.unwind_info_for_address(&section, &bases, &mut context, pc as u64, cie).ok()?;
    rule_of(row)
}

fn rule_of(row: &UnwindTableRow<usize, OnStack>) -> Option<Rule> {
    match row.register(X86_64::RA) {
        Some(RegisterRule::Offset(-8)) => {}
        None | Some(RegisterRule::Undefined) => return Some(Rule::Outermost),
        Some(_) => return None,
    }
    let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else { return None };
    let from_frame = match register {
        X86_64::RBP => true,
        X86_64::RSP => false,
        _ => return None,
    };
    let frame_at = match row.register(X86_64::RBP) {
        None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => None,
        Some(RegisterRule::Offset(below)) => Some(u16::try_from(below.checked_neg()?).ok()?),
        Some(_) => return None,
    };
    Some(Rule::Table { from_frame, offset: u32::try_from(offset).ok()?, frame_at })
}

/// The bytes of an object from `from`, a table, to `to`, its end.
fn slice(from: usize, to: usize) -> Option<&'static [u8]> {
    let len = to.checked_sub(from).filter(|&len| len <= isize::MAX as usize)?;
    // SAFETY: the bytes are part of a loaded object, which stays loaded while its code is on this
    // stack. gimli reads only what the tables lead to. That lies in readable segments: every
    // exception reads it, too.
    Some(unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance::<u8>(from), len) })
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::*;

    #[test]
    fn rules_survive_packing() {
        for from_frame in [false, true] {
            for offset in [0, 8, 16, 12_345, u32::MAX] {
                for frame_at in [None, Some(0), Some(16), Some(u16::MAX)] {
                    let rule = Rule::Table { from_frame, offset, frame_at };
                    assert_ne!(rule.pack(), 0, "that is no rule");
                    assert_eq!(Rule::unpack(rule.pack()), rule);
                }
            }
        }
        for rule in [Rule::Outermost, Rule::Unknown] {
            assert_eq!(Rule::unpack(rule.pack()), rule);
        }
    }

    #[test]
    fn code_has_rules_and_data_has_none() {
        os::find_objects();
        let here = code_has_rules_and_data_has_none as fn() as usize;
        assert_eq!(of(here), Rule::Table { from_frame: false, offset: 8, frame_at: None }, "as a call left the stack");
        assert_eq!(of(here), Rule::Table { from_frame: false, offset: 8, frame_at: None }, "the second time, too");
        assert_eq!(of(&raw const KNOWN as usize), Rule::Unknown);
        assert_eq!(of(8), Rule::Unknown);
    }

    /// The second call takes the entry, without a search, if it is that of this address. It does
    /// not take one of another address, or half of one.
    #[test]
    fn what_was_found_is_known() {
        os::find_objects();
        let of_a_call = Rule::Table { from_frame: false, offset: 8, frame_at: None };
        let by_the_frame = Rule::Table { from_frame: true, offset: 16, frame_at: Some(16) };
        let planted = Rule::Table { from_frame: true, offset: 24, frame_at: None };
        let function = what_was_found_is_known as fn() as usize;
        let inside = (&raw const hakmem_test_goes_by_the_frame).addr() + 48;
        assert_ne!(inside as u64 & by_the_frame.pack(), 0);
        for (here, found) in [(function, of_a_call), (inside, by_the_frame)] {
            assert_eq!(of(here), found);
            let (mixed, rule) = &KNOWN[place(here as u64)];
            let change = planted.pack() ^ found.pack();
            mixed.fetch_xor(change, Relaxed);
            rule.fetch_xor(change, Relaxed);
            assert_eq!(of(here), planted);
            rule.store(Rule::Unknown.pack(), Relaxed);
            assert_eq!(of(here), found, "an address and a rule that are not of one entry");
            let other = (here + 1..).find(|&other| place(other as u64) == place(here as u64)).unwrap();
            mixed.store(other as u64 ^ planted.pack(), Relaxed);
            rule.store(planted.pack(), Relaxed);
            assert_eq!(of(here), found, "another address");
            assert_eq!(of(here), found);
        }
    }

    core::arch::global_asm!(
        ".balign 32",
        ".globl hakmem_test_goes_by_the_frame",
        ".hidden hakmem_test_goes_by_the_frame",
        "hakmem_test_goes_by_the_frame:",
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        // Go to an address that has bits in common with its rule.
        ".balign 32",
        ".zero 16, 0x90",
        "sub rsp, rdi",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    );
    unsafe extern "C" {
        safe static hakmem_test_goes_by_the_frame: u8;
    }

    /// Functions whose frame has no fixed size go by the frame pointer.
    #[test]
    fn frames_may_go_by_the_frame_pointer() {
        os::find_objects();
        let at = |offset: usize| of((&raw const hakmem_test_goes_by_the_frame).addr() + offset);
        assert_eq!(at(0), Rule::Table { from_frame: false, offset: 8, frame_at: None });
        assert_eq!(at(1), Rule::Table { from_frame: false, offset: 16, frame_at: Some(16) });
        assert_eq!(at(4), Rule::Table { from_frame: true, offset: 16, frame_at: Some(16) });
    }
}
