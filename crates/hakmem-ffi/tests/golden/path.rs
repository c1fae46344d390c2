//! The fast path of a function: the shortest way from its entry to `ret` that makes no call, leaves the function
//! nowhere else, and stores something (a way without a store serves nobody: it is a NULL check).
//!
//! The distance to `ret` is found breadth first over (instruction, whether something was stored yet).

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Formatter, Instruction, InstructionInfoFactory,
    IntelFormatter, OpAccess,
};
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;

pub struct Path(Vec<Instruction>);

impl Path {
    pub fn instructions(&self) -> usize {
        self.0.len()
    }

    pub fn stores(&self) -> usize {
        self.0
            .iter()
            .filter(|instruction| stores(instruction))
            .count()
    }

    pub fn branches(&self) -> usize {
        self.0
            .iter()
            .filter(|i| i.flow_control() == FlowControl::ConditionalBranch)
            .count()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut formatter = IntelFormatter::new();
        self.0.iter().try_for_each(|instruction| {
            let mut text = String::new();
            formatter.format(instruction, &mut text);
            writeln!(f, "  {:8x}  {text}", instruction.ip())
        })
    }
}

/// Writes memory; pushes count, for they cost the same.
fn stores(instruction: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    info.used_memory().iter().any(|memory| {
        matches!(
            memory.access(),
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    })
}

/// Stores elsewhere than on the stack: what makes a path a useful one.
fn stores_data(instruction: &Instruction) -> bool {
    stores(instruction) && !matches!(instruction.code(), Code::Push_r64)
}

/// The fast path of the function `code` at `address`; None if every way makes a call.
pub fn shortest(address: u64, code: &[u8]) -> Option<Path> {
    let decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let instructions: HashMap<u64, Instruction> =
        decoder.into_iter().map(|i| (i.ip(), i)).collect();
    let mut queue = VecDeque::from([vec![(address, false)]]);
    let mut seen = HashSet::from([(address, false)]);
    while let Some(way) = queue.pop_front() {
        let &(at, stored) = way.last()?;
        // An address outside is another function: a tail call.
        let Some(instruction) = instructions.get(&at) else {
            continue;
        };
        let stored = stored || stores_data(instruction);
        let (next, target) = (instruction.next_ip(), instruction.near_branch_target());
        let successors: &[u64] = match instruction.flow_control() {
            FlowControl::Next => &[next],
            FlowControl::ConditionalBranch => &[next, target],
            FlowControl::UnconditionalBranch => &[target],
            FlowControl::Return if stored => {
                return Some(Path(way.iter().map(|(at, _)| instructions[at]).collect()));
            }
            _ => &[],
        };
        for &successor in successors {
            if seen.insert((successor, stored)) {
                let mut way = way.clone();
                way.push((successor, stored));
                queue.push_back(way);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::shortest;

    /// mov rax,[rdi]; test rax,rax; je cold; mov rcx,[rax]; mov [rdi],rcx; ret; cold: jmp elsewhere
    const POP: &[u8] = &[
        0x48, 0x8B, 0x07, 0x48, 0x85, 0xC0, 0x74, 0x07, 0x48, 0x8B, 0x08, 0x48, 0x89, 0x0F, 0xC3,
        0xE9, 0, 0x10, 0, 0,
    ];

    #[test]
    fn falls_through_to_the_return() {
        let path = shortest(0x1000, POP).expect("a path");
        assert_eq!(
            (path.instructions(), path.stores(), path.branches()),
            (6, 1, 1)
        );
    }

    /// test rdi,rdi; je out; mov [rdi],rsi; call f; nop; out: ret. The only way with a store makes a call.
    #[test]
    fn a_call_is_no_fast_path() {
        let code = &[
            0x48, 0x85, 0xFF, 0x74, 0x09, 0x48, 0x89, 0x37, 0xE8, 0, 0x10, 0, 0, 0x90, 0xC3,
        ];
        assert!(shortest(0x1000, code).is_none());
    }

    /// test rdi,rdi; je out; cmp rdi,rsi; jne far; mov [rdi],rsi; out: ret; far: mov [rdi],rsi; nop; nop; jmp out.
    /// The early way out stores nothing; of the two that do, the shorter one counts.
    #[test]
    fn a_null_check_is_no_fast_path() {
        let code = &[
            0x48, 0x85, 0xFF, 0x74, 0x08, 0x48, 0x39, 0xF7, 0x75, 0x04, 0x48, 0x89, 0x37, 0xC3,
            0x48, 0x89, 0x37, 0x90, 0x90, 0xEB, 0xF8,
        ];
        let path = shortest(0x1000, code).expect("a path");
        assert_eq!(
            (path.instructions(), path.stores(), path.branches()),
            (6, 1, 2)
        );
    }

    /// je taken; call f; ret; taken: mov [rdi],rsi; push rbx; ret. The fast way may be the taken one; pushes count.
    #[test]
    fn follows_taken_branches() {
        let code = &[
            0x74, 0x06, 0xE8, 0, 0x10, 0, 0, 0xC3, 0x48, 0x89, 0x37, 0x53, 0xC3,
        ];
        let path = shortest(0x1000, code).expect("a path");
        assert_eq!(
            (path.instructions(), path.stores(), path.branches()),
            (4, 2, 1)
        );
    }

    /// loop: jmp loop. It ends.
    #[test]
    fn a_loop_has_no_end() {
        assert!(shortest(0x1000, &[0xEB, 0xFE]).is_none());
    }
}
