//! Instructions of x86-64.

use super::{Flow, Instruction, Store};
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Formatter, InstructionInfoFactory, IntelFormatter,
    OpAccess,
};

pub fn decode(address: u64, code: &[u8]) -> Vec<Instruction> {
    let decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    decoder.into_iter().map(|i| instruction(&i)).collect()
}

fn instruction(i: &iced_x86::Instruction) -> Instruction {
    let target = i.near_branch_target();
    let mut text = String::new();
    IntelFormatter::new().format(i, &mut text);
    Instruction {
        at: i.ip(),
        length: i.len() as u64,
        flow: match i.flow_control() {
            FlowControl::Next => Flow::Next,
            FlowControl::ConditionalBranch => Flow::Branch(target),
            FlowControl::UnconditionalBranch => Flow::Jump(target),
            FlowControl::Return => Flow::Return,
            _ => Flow::Elsewhere,
        },
        store: match (stores(i), i.code()) {
            (false, _) => Store::Nothing,
            (true, Code::Push_r64) => Store::Stack,
            (true, _) => Store::Data,
        },
        is_ordered: i.has_lock_prefix() || i.code() == Code::Mfence,
        text,
    }
}

fn stores(instruction: &iced_x86::Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    info.used_memory().iter().any(|memory| {
        matches!(
            memory.access(),
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    })
}
