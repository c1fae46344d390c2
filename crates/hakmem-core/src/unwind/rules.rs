//! The way from a frame to its caller's, by the unwind tables that compilers put into every object
//! (`.eh_frame`). The C++ runtime uses them, too.
//!
//! Frame pointers alone are not enough. Most distributions build without them, and such code uses
//! the register for something else. A profile would then have wrong callers instead of none. The
//! tables are exact at each instruction. A search takes about a microsecond, so the rule for an
//! address is kept: the same call sites come again and again.
//!
//! A table that this module does not know ends the stack. A frame pointer would lead on, but
//! perhaps to a function that called nothing.
//!
//! Nothing here allocates or takes a lock. The C library finds the object without a lock
//! (`os::object_of`, glibc 2.35 and later; a statically linked program is one object). gimli keeps
//! its state on the stack. Without tables, frame pointers must do.

use super::processor;
use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::AtomicU64;
use crate::os::{self, Tables};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, NativeEndian, Pointer, Reader,
    Register, RegisterRule, UnwindContext, UnwindContextStorage, UnwindExpression, UnwindSection,
    UnwindTableRow, Vendor,
};

/// How to get from a frame to its caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The caller's stack pointer lies `offset` beyond a register.
    Table {
        /// True: beyond the frame pointer. False: beyond the stack pointer.
        from_frame: bool,
        /// In bytes, below 2²⁶.
        offset: u32,
        /// The return address lies so many bytes below the caller's stack pointer. None: it is in
        /// the link register, so the function has called nothing since it began.
        return_at: Option<u16>,
        /// The caller's frame pointer was saved so many bytes below the caller's stack pointer.
        /// None: it is in the register.
        frame_at: Option<u16>,
    },
    /// The caller's registers lie at these distances from a register, in bytes.
    Saved {
        /// True: from the frame pointer. False: from the stack pointer.
        from_frame: bool,
        /// Of the stack pointer, of the frame pointer.
        stack_at: i16,
        frame_at: i16,
        /// Of the code that a signal interrupted there, by the tables of a signal's frame. None:
        /// the return address lies below the caller's stack pointer.
        code_at: Option<i16>,
    },
    /// The frame has no caller.
    Outermost,
    /// The tables say something that this module does not know.
    Strange,
    /// The tables say nothing. Frame pointers must do.
    Unknown,
}

/// The rules that were found, by address. An entry is two words: the packed rule, and the address
/// mixed with it by exclusive or. If two threads write an entry at once, the two words fit no
/// address. So no word needs an order.
static KNOWN: [(AtomicU64, AtomicU64); 4096] =
    [const { (AtomicU64::new(0), AtomicU64::new(0)) }; 4096];

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

/// Asks the C library for the loaded objects, and looks for the program's tables if it has no
/// answer.
#[cfg(test)]
fn find() {
    os::find_objects();
    os::find_program();
}

/// [`find`], and forgets the rules that were searched for before:
/// another test may have followed its stack without.
#[cfg(test)]
pub fn find_objects_anew() {
    find();
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
    const RETURN_SAVED: u64 = 1 << 58;
    /// Without `TABLE`, these say what the rule is.
    const SAVED: u64 = 1 << 59;
    const STRANGE: u64 = 1 << 58;
    const CODE_SAVED: u64 = 1 << 57;
    const FRAME_AT: u32 = 42;
    const RETURN_AT: u32 = 26;
    const OFFSET: u64 = (1 << Self::RETURN_AT) - 1;

    /// The rule as a number that is not 0.
    fn pack(self) -> u64 {
        match self {
            Self::Outermost => Self::OUTERMOST,
            Self::Strange => Self::STRANGE,
            Self::Unknown => Self::UNKNOWN,
            Self::Saved { from_frame, stack_at, frame_at, code_at } => {
                let bits = |at: i16, shift: u32| u64::from(at as u16) << shift;
                Self::SAVED
                    | if from_frame { Self::FROM_FRAME } else { 0 }
                    | code_at.map_or(0, |at| Self::CODE_SAVED | bits(at, 32))
                    | bits(frame_at, 16)
                    | bits(stack_at, 0)
            }
            Self::Table { from_frame, offset, return_at, frame_at } => {
                let frame =
                    frame_at.map_or(0, |at| Self::FRAME_SAVED | u64::from(at) << Self::FRAME_AT);
                let link =
                    return_at.map_or(0, |at| Self::RETURN_SAVED | u64::from(at) << Self::RETURN_AT);
                Self::TABLE
                    | if from_frame { Self::FROM_FRAME } else { 0 }
                    | frame
                    | link
                    | u64::from(offset)
            }
        }
    }

    fn unpack(packed: u64) -> Self {
        match packed {
            p if p & Self::OUTERMOST != 0 => Self::Outermost,
            p if p & Self::UNKNOWN != 0 => Self::Unknown,
            p if p & (Self::TABLE | Self::SAVED) == Self::SAVED => Self::Saved {
                from_frame: p & Self::FROM_FRAME != 0,
                stack_at: p as i16,
                frame_at: (p >> 16) as i16,
                code_at: (p & Self::CODE_SAVED != 0).then_some((p >> 32) as i16),
            },
            p if p & Self::TABLE == 0 => Self::Strange,
            p => Self::Table {
                from_frame: p & Self::FROM_FRAME != 0,
                offset: (p & Self::OFFSET) as u32,
                return_at: (p & Self::RETURN_SAVED != 0).then_some((p >> Self::RETURN_AT) as u16),
                frame_at: (p & Self::FRAME_SAVED != 0).then_some((p >> Self::FRAME_AT) as u16),
            },
        }
    }
}

/// Room for a row of the tables.
struct OnStack;
impl UnwindContextStorage<usize> for OnStack {
    type Rules = processor::Rules;
    type Stack = [UnwindTableRow<usize, Self>; 4];
}

/// Searches the tables. None: there are none for this address.
#[inline(never)]
fn look_up(pc: usize) -> Option<Rule> {
    let object = os::object_of(pc)?;
    let mut context = UnwindContext::<usize, OnStack>::new_in();
    let cie = |section: &EhFrame<_>, bases: &BaseAddresses, at| section.cie_from_offset(bases, at);
    let (index, object) = match object.tables {
        Tables::Index { at, start, end } => (at, start..end),
        Tables::Frames(start, len) => {
            let section = section(slice(start, start.checked_add(len)?)?);
            let bases = BaseAddresses::default().set_eh_frame(start as u64);
            let entry = section.fde_for_address(&bases, pc as u64, cie).ok()?;
            let row = entry.unwind_info_for_address(&section, &bases, &mut context, pc as u64);
            return Some(row.ok().and_then(|row| rule_of(row, &section)).unwrap_or(Rule::Strange));
        }
    };
    let header = EhFrameHdr::new(slice(index, object.end)?, NativeEndian);
    let bases = BaseAddresses::default().set_eh_frame_hdr(index as u64);
    let header = header.parse(&bases, 8).ok()?;
    let Pointer::Direct(start) = header.eh_frame_ptr() else { return None };
    let bases = bases.set_eh_frame(start);
    let start = usize::try_from(start).ok().filter(|at| (object.start..object.end).contains(at))?;
    let section = section(slice(start, object.end)?);
    let entry = header.table()?.fde_for_address(&section, &bases, pc as u64, cie).ok()?;
    let row = entry.unwind_info_for_address(&section, &bases, &mut context, pc as u64);
    Some(row.ok().and_then(|row| rule_of(row, &section)).unwrap_or(Rule::Strange))
}

type Section = EhFrame<EndianSlice<'static, NativeEndian>>;

fn section(bytes: &'static [u8]) -> Section {
    let mut section = EhFrame::new(bytes, NativeEndian);
    // One instruction of the tables has another meaning on each kind of processor.
    section.set_vendor(if cfg!(target_arch = "aarch64") {
        Vendor::AArch64
    } else {
        Vendor::Default
    });
    section
}

/// None: the row says something that this module does not know.
fn rule_of(row: &UnwindTableRow<usize, OnStack>, section: &Section) -> Option<Rule> {
    if let CfaRule::Expression(stack) = *row.cfa() {
        return saved(row, stack, section);
    }
    let below = |offset: i64| u16::try_from(offset.checked_neg()?).ok();
    let return_at = match row.register(processor::RETURN) {
        Some(RegisterRule::Offset(offset)) => Some(below(offset)?),
        Some(RegisterRule::Undefined) => return Some(Rule::Outermost),
        None if !processor::HAS_LINK => return Some(Rule::Outermost),
        None | Some(RegisterRule::SameValue) if processor::HAS_LINK => None,
        _ => return None,
    };
    let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else { return None };
    let from_frame = match register {
        processor::FRAME => true,
        processor::STACK => false,
        _ => return None,
    };
    let frame_at = match row.register(processor::FRAME) {
        None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => None,
        Some(RegisterRule::Offset(offset)) => Some(below(offset)?),
        Some(_) => return None,
    };
    let offset = u32::try_from(offset).ok().filter(|&offset| u64::from(offset) <= Rule::OFFSET)?;
    Some(Rule::Table { from_frame, offset, return_at, frame_at })
}

/// The rule of a frame whose caller's stack pointer lies in memory: that of a signal, or of a
/// function that aligns its stack.
fn saved(
    row: &UnwindTableRow<usize, OnStack>,
    stack: UnwindExpression<usize>,
    section: &Section,
) -> Option<Rule> {
    // On aarch64 the kernel's frame has no such tables, and compilers make none.
    if processor::HAS_LINK {
        return None;
    }
    let (base, stack_at) = distance(stack, section, &[DEREFERENCE])?;
    let from_base = |rule| match rule {
        Some(RegisterRule::Expression(at)) => {
            distance(at, section, &[]).filter(|&(register, _)| register == base).map(|(_, at)| at)
        }
        _ => None,
    };
    let code_at = match row.register(processor::RETURN) {
        Some(RegisterRule::Offset(-8)) => None,
        rule => Some(from_base(rule)?),
    };
    let frame_at = from_base(row.register(processor::FRAME))?;
    let from_frame = base == processor::FRAME;
    (from_frame || base == processor::STACK).then_some(Rule::Saved {
        from_frame,
        stack_at,
        frame_at,
        code_at,
    })
}

/// The operation that loads a word.
const DEREFERENCE: u8 = 0x06;

/// What an expression says that is a register plus a number, followed by `rest` alone. gimli's own
/// reader knows all expressions, which are much code.
fn distance(
    expression: UnwindExpression<usize>,
    section: &Section,
    rest: &[u8],
) -> Option<(Register, i16)> {
    const REGISTER: u8 = 0x70;
    let mut bytes = expression.get(section).ok()?.0;
    let register = bytes.read_u8().ok()?.checked_sub(REGISTER).filter(|&n| n < 32)?;
    let number = i16::try_from(bytes.read_sleb128().ok()?).ok()?;
    (bytes.slice() == rest).then_some((Register(register.into()), number))
}

/// The bytes of an object from `from`, a table, to `to`, its end.
fn slice(from: usize, to: usize) -> Option<&'static [u8]> {
    let len = to.checked_sub(from).filter(|&len| len <= isize::MAX as usize)?;
    // SAFETY: the bytes are part of a loaded object, which stays loaded while its code is on this
    // stack. gimli reads only what the tables lead to. That lies in readable segments: every
    // exception reads it, too.
    Some(unsafe {
        core::slice::from_raw_parts(core::ptr::with_exposed_provenance::<u8>(from), len)
    })
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::*;

    #[test]
    fn rules_survive_packing() {
        for from_frame in [false, true] {
            for offset in [0, 8, 16, 12_345, Rule::OFFSET as u32] {
                for frame_at in [None, Some(0), Some(16), Some(u16::MAX)] {
                    for return_at in [None, Some(0), Some(8), Some(u16::MAX)] {
                        let rule = Rule::Table { from_frame, offset, return_at, frame_at };
                        assert_ne!(rule.pack(), 0, "that is no rule");
                        assert_eq!(Rule::unpack(rule.pack()), rule);
                    }
                }
            }
        }
        for from_frame in [false, true] {
            for (stack_at, frame_at) in [(0, 0), (160, 120), (-8, 0), (i16::MIN, i16::MAX)] {
                for code_at in [None, Some(0), Some(168), Some(-1), Some(i16::MIN)] {
                    let rule = Rule::Saved { from_frame, stack_at, frame_at, code_at };
                    assert_eq!(Rule::unpack(rule.pack()), rule);
                }
            }
        }
        for rule in [Rule::Outermost, Rule::Strange, Rule::Unknown] {
            assert_eq!(Rule::unpack(rule.pack()), rule);
        }
    }

    /// As a call leaves the stack.
    const AT_ENTRY: Rule = if cfg!(target_arch = "x86_64") {
        Rule::Table { from_frame: false, offset: 8, return_at: Some(8), frame_at: None }
    } else {
        Rule::Table { from_frame: false, offset: 0, return_at: None, frame_at: None }
    };

    #[test]
    fn code_has_rules_and_data_has_none() {
        find();
        let here = code_has_rules_and_data_has_none as fn() as usize;
        assert_eq!(of(here), AT_ENTRY);
        assert_eq!(of(here), AT_ENTRY, "the second time, too");
        assert_eq!(of(&raw const KNOWN as usize), Rule::Unknown);
        assert_eq!(of(8), Rule::Unknown);
    }

    /// The second call takes the entry, without a search, if it is that of this address. It does
    /// not take one of another address, or half of one.
    #[test]
    fn what_was_found_is_known() {
        find();
        let by_the_frame =
            Rule::Table { from_frame: true, offset: 16, return_at: Some(8), frame_at: Some(16) };
        let planted =
            Rule::Table { from_frame: true, offset: 24, return_at: Some(8), frame_at: None };
        let function = what_was_found_is_known as fn() as usize;
        let inside = (&raw const hakmem_test_goes_by_the_frame).addr() + 48;
        assert_ne!(inside as u64 & by_the_frame.pack(), 0);
        for (here, found) in [(function, AT_ENTRY), (inside, by_the_frame)] {
            assert_eq!(of(here), found);
            let (mixed, rule) = &KNOWN[place(here as u64)];
            let change = planted.pack() ^ found.pack();
            mixed.fetch_xor(change, Relaxed);
            rule.fetch_xor(change, Relaxed);
            assert_eq!(of(here), planted);
            rule.store(Rule::Unknown.pack(), Relaxed);
            assert_eq!(of(here), found, "an address and a rule that are not of one entry");
            let other =
                (here + 1..).find(|&other| place(other as u64) == place(here as u64)).unwrap();
            mixed.store(other as u64 ^ planted.pack(), Relaxed);
            rule.store(planted.pack(), Relaxed);
            assert_eq!(of(here), found, "another address");
            assert_eq!(of(here), found);
        }
    }

    /// Sets the frame pointer up. At an address that has bits in common with its rule, makes the
    /// frame longer by the argument, and returns.
    #[cfg(target_arch = "x86_64")]
    macro_rules! body {
        () => {
            "push rbp
            .cfi_def_cfa_offset 16
            .cfi_offset rbp, -16
            mov rbp, rsp
            .cfi_def_cfa_register rbp
            .balign 32
            .zero 16, 0x90
            sub rsp, rdi
            leave
            .cfi_def_cfa rsp, 8
            ret"
        };
    }
    #[cfg(target_arch = "aarch64")]
    macro_rules! body {
        () => {
            "stp x29, x30, [sp, #-16]!
            .cfi_def_cfa_offset 16
            .cfi_offset x29, -16
            .cfi_offset x30, -8
            mov x29, sp
            .cfi_def_cfa_register x29
            .balign 32
            nop
            nop
            nop
            nop
            sub sp, sp, x0
            mov sp, x29
            .cfi_def_cfa sp, 16
            ldp x29, x30, [sp], #16
            .cfi_def_cfa_offset 0
            ret"
        };
    }
    core::arch::global_asm!(
        ".balign 32",
        ".globl hakmem_test_goes_by_the_frame",
        ".hidden hakmem_test_goes_by_the_frame",
        "hakmem_test_goes_by_the_frame:",
        ".cfi_startproc",
        body!(),
        ".cfi_endproc",
    );
    unsafe extern "C" {
        safe static hakmem_test_goes_by_the_frame: u8;
    }

    #[cfg(target_arch = "x86_64")]
    core::arch::global_asm!(
        // As gcc sets up a function that aligns its stack: the caller's stack pointer is saved.
        ".globl hakmem_test_aligns",
        ".hidden hakmem_test_aligns",
        "hakmem_test_aligns:",
        ".cfi_startproc",
        "lea r10, [rsp + 8]",
        ".cfi_def_cfa r10, 0",
        "push rbp",
        "mov rbp, rsp",
        ".cfi_escape 0x10, 6, 2, 0x76, 0",
        "push r10",
        ".cfi_escape 0x0f, 3, 0x76, 0x78, 6",
        "pop r10",
        "pop rbp",
        "ret",
        ".cfi_endproc",
        // As a linker describes the entries of the PLT: the frame depends on the address.
        ".globl hakmem_test_is_strange",
        ".hidden hakmem_test_is_strange",
        "hakmem_test_is_strange:",
        ".cfi_startproc",
        ".cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22",
        "ret",
        ".cfi_endproc",
    );
    #[cfg(target_arch = "x86_64")]
    unsafe extern "C" {
        safe static hakmem_test_aligns: u8;
        safe static hakmem_test_is_strange: u8;
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn tables_may_say_where_the_registers_were_saved() {
        find();
        let at = (&raw const hakmem_test_aligns).addr();
        // Behind the four instructions: 5, 1, 3 and 2 bytes.
        let rule = Rule::Saved { from_frame: true, stack_at: -8, frame_at: 0, code_at: None };
        assert_eq!(of(at + 11), rule);
    }

    /// Frame pointers may be anything in such a function.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn tables_that_are_not_understood_are_not_replaced_by_frame_pointers() {
        find();
        assert_eq!(of((&raw const hakmem_test_is_strange).addr()), Rule::Strange);
    }

    /// Functions whose frame has no fixed size go by the frame pointer.
    #[test]
    fn frames_may_go_by_the_frame_pointer() {
        find();
        let at = |offset: usize| of((&raw const hakmem_test_goes_by_the_frame).addr() + offset);
        let (saved, set) = if cfg!(target_arch = "x86_64") { (1, 4) } else { (4, 8) };
        let rule = |from_frame| Rule::Table {
            from_frame,
            offset: 16,
            return_at: Some(8),
            frame_at: Some(16),
        };
        assert_eq!(at(0), AT_ENTRY);
        assert_eq!(at(saved), rule(false));
        assert_eq!(at(set), rule(true));
    }
}
