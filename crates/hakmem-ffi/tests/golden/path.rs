//! The fast path of a function: the shortest way from its entry to `ret` that makes no call, leaves
//! the function nowhere else, and stores something (a way without a store serves nobody: it is a
//! NULL check).
//!
//! The distance to `ret` is found breadth first over (instruction, whether something was stored
//! yet).

mod aarch64;
mod x86_64;

use object::Architecture;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;

/// What one instruction does, as far as paths need it.
#[derive(Clone)]
pub struct Instruction {
    at: u64,
    length: u64,
    flow: Flow,
    store: Store,
    /// A barrier, an ordered or an atomic access: it may take as long as many other instructions.
    is_ordered: bool,
    text: String,
}

/// Where an instruction leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flow {
    Next,
    /// To its target, or to the next one.
    Branch(u64),
    Jump(u64),
    Return,
    /// A call, or to a place that the code does not tell.
    Elsewhere,
}

/// What an instruction writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Store {
    Nothing,
    /// The stack. It counts, for it costs the same.
    Stack,
    /// Something else: what makes a path a useful one.
    Data,
}

pub struct Path(Vec<Instruction>);

impl Path {
    pub fn instructions(&self) -> usize {
        self.0.len()
    }

    pub fn stores(&self) -> usize {
        self.0.iter().filter(|i| i.store != Store::Nothing).count()
    }

    pub fn branches(&self) -> usize {
        self.0
            .iter()
            .filter(|i| matches!(i.flow, Flow::Branch(_)))
            .count()
    }

    /// Barriers, and ordered or atomic accesses.
    pub fn ordered(&self) -> usize {
        self.0.iter().filter(|i| i.is_ordered).count()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|i| writeln!(f, "  {:8x}  {}", i.at, i.text))
    }
}

/// The fast path of the function `code` at `address`; None if every way makes a call.
pub fn shortest(architecture: Architecture, address: u64, code: &[u8]) -> Option<Path> {
    let decoded = match architecture {
        Architecture::X86_64 => x86_64::decode(address, code),
        Architecture::Aarch64 => aarch64::decode(address, code),
        other => panic!("{other:?} is not known"),
    };
    let instructions: HashMap<u64, Instruction> = decoded.into_iter().map(|i| (i.at, i)).collect();
    let mut queue = VecDeque::from([vec![(address, false)]]);
    let mut seen = HashSet::from([(address, false)]);
    while let Some(way) = queue.pop_front() {
        let &(at, stored) = way.last()?;
        // An address outside is another function: a tail call.
        let Some(instruction) = instructions.get(&at) else {
            continue;
        };
        let stored = stored || instruction.store == Store::Data;
        let next = at + instruction.length;
        let successors: &[u64] = match instruction.flow {
            Flow::Next => &[next],
            Flow::Branch(target) => &[next, target],
            Flow::Jump(target) => &[target],
            Flow::Return if stored => {
                let all = way.iter().map(|(at, _)| instructions[at].clone());
                return Some(Path(all.collect()));
            }
            Flow::Return | Flow::Elsewhere => &[],
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
    use super::{Architecture, Path};

    fn shortest(address: u64, code: &[u8]) -> Option<Path> {
        super::shortest(Architecture::X86_64, address, code)
    }

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

    /// test rdi,rdi; je out; mov [rdi],rsi; call f; nop; out: ret. The only way with a store makes
    /// a call.
    #[test]
    fn a_call_is_no_fast_path() {
        let code = &[
            0x48, 0x85, 0xFF, 0x74, 0x09, 0x48, 0x89, 0x37, 0xE8, 0, 0x10, 0, 0, 0x90, 0xC3,
        ];
        assert!(shortest(0x1000, code).is_none());
    }

    /// test rdi,rdi; je out; cmp rdi,rsi; jne far; mov [rdi],rsi; out: ret; far: mov [rdi],rsi;
    /// nop; nop; jmp out. The early way out stores nothing; of the two that do, the shorter one
    /// counts.
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

    /// je taken; call f; ret; taken: mov [rdi],rsi; push rbx; ret. The fast way may be the taken
    /// one; pushes count.
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
