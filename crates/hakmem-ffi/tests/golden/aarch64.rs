//! Instructions of aarch64, as far as paths need them: the groups of the manual's section "A64
//! instruction set encoding".

use super::{Flow, Instruction, Store};

pub fn decode(address: u64, code: &[u8]) -> Vec<Instruction> {
    let words = code
        .as_chunks()
        .0
        .iter()
        .map(|bytes| u32::from_le_bytes(*bytes));
    words
        .zip((address..).step_by(4))
        .map(|(word, at)| instruction(word, at))
        .collect()
}

fn instruction(word: u32, at: u64) -> Instruction {
    Instruction {
        at,
        length: 4,
        flow: flow(word, at),
        store: store(word),
        is_ordered: is_ordered(word),
        text: format!("{word:08x}"),
    }
}

/// The target that lies as many instructions away as the `bits` bits from `from` on say.
fn target(word: u32, at: u64, from: u32, bits: u32) -> u64 {
    let distance = (word << (32 - from - bits)) as i32 >> (32 - bits);
    at.wrapping_add_signed(i64::from(distance) * 4)
}

fn flow(word: u32, at: u64) -> Flow {
    let is = |mask: u32, value: u32| word & mask == value;
    if is(0xfc00_0000, 0x1400_0000) {
        Flow::Jump(target(word, at, 0, 26)) // b
    } else if is(0xff00_0000, 0x5400_0000) || is(0x7e00_0000, 0x3400_0000) {
        Flow::Branch(target(word, at, 5, 19)) // b.cond, cbz, cbnz
    } else if is(0x7e00_0000, 0x3600_0000) {
        Flow::Branch(target(word, at, 5, 14)) // tbz, tbnz
    } else if is(0xffff_fbff, 0xd65f_0bff) || is(0xffff_fc1f, 0xd65f_0000) {
        Flow::Return // retaa, retab, ret
    } else if is(0xfc00_0000, 0x9400_0000)
        || is(0xfe00_0000, 0xd600_0000)
        || is(0xff00_0000, 0xd400_0000)
    {
        Flow::Elsewhere // bl; br, blr and those with signatures; svc, brk and the like
    } else {
        Flow::Next
    }
}

/// The groups of loads and stores.
const EXCLUSIVE_AND_ORDERED: (u32, u32) = (0x3f00_0000, 0x0800_0000);
const ATOMIC: (u32, u32) = (0x3b20_0c00, 0x3820_0000);
const ORDERED_UNSCALED: (u32, u32) = (0x3f20_0c00, 0x1900_0000);
const PAIR: (u32, u32) = (0x3a00_0000, 0x2800_0000);
const ONE: (u32, u32) = (0x3a00_0000, 0x3800_0000);

fn is_in(word: u32, (mask, value): (u32, u32)) -> bool {
    word & mask == value
}

fn is_ordered(word: u32) -> bool {
    // dsb, dmb, isb, sb: 4 to 7.
    let is_barrier = is_in(word, (0xffff_f01f, 0xd503_301f)) && word >> 5 & 7 >= 4;
    is_barrier
        || [EXCLUSIVE_AND_ORDERED, ATOMIC, ORDERED_UNSCALED]
            .into_iter()
            .any(|group| is_in(word, group))
}

fn store(word: u32) -> Store {
    let stores = if is_ordered(word) {
        is_in(word, (0x0a00_0000, 0x0800_0000))
    } else if is_in(word, PAIR) {
        word & 1 << 22 == 0
    } else if is_in(word, ONE) {
        let (is_vector, opc) = (word & 1 << 26 != 0, word >> 22 & 3);
        opc == 0 || is_vector && opc == 2
    } else {
        false
    };
    match (stores, word >> 5 & 31) {
        (false, _) => Store::Nothing,
        (true, 31) => Store::Stack,
        (true, _) => Store::Data,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Architecture, shortest};
    use super::*;

    #[test]
    fn instructions_are_told_apart() {
        // As the assembler writes them, at address 0x1000.
        let at = 0x1000;
        for (word, expected) in [
            (0xd65f_03c0, Flow::Return),         // ret
            (0xd65f_0bff, Flow::Return),         // retaa
            (0xd65f_0fff, Flow::Return),         // retab
            (0xd61f_0200, Flow::Elsewhere),      // br x16
            (0xd63f_0100, Flow::Elsewhere),      // blr x8
            (0x97ff_ffff, Flow::Elsewhere),      // bl .-4
            (0xd400_0001, Flow::Elsewhere),      // svc #0
            (0x17ff_ffff, Flow::Jump(0xffc)),    // b .-4
            (0x5400_0040, Flow::Branch(0x1008)), // b.eq .+8
            (0xb400_0048, Flow::Branch(0x1008)), // cbz x8, .+8
            (0x3607_ffe9, Flow::Branch(0xffc)),  // tbz w9, #0, .-4
            (0xd503_201f, Flow::Next),           // nop
            (0xf940_0108, Flow::Next),           // ldr x8, [x8]
        ] {
            assert_eq!(flow(word, at), expected, "{word:08x}");
        }
        for (word, expected) in [
            (0xf900_0008, Store::Data),    // str x8, [x0]
            (0xb900_1028, Store::Data),    // str w8, [x1, #16]
            (0xf821_792a, Store::Data),    // str x10, [x9, x1, lsl #3]
            (0xa9bf_7bfd, Store::Stack),   // stp x29, x30, [sp, #-16]!
            (0xa900_7c3f, Store::Data),    // stp xzr, xzr, [x1]
            (0x3d80_0020, Store::Data),    // str q0, [x1]
            (0xc89f_fc20, Store::Data),    // stlr x0, [x1]
            (0xf940_0108, Store::Nothing), // ldr x8, [x8]
            (0x3946_8101, Store::Nothing), // ldrb w1, [x8, #416]
            (0xa8c1_7bfd, Store::Nothing), // ldp x29, x30, [sp], #16
            (0xf980_0140, Store::Nothing), // prfm pldl1keep, [x10]
            (0x8b08_1d21, Store::Nothing), // add x1, x9, x8, lsl #7
        ] {
            assert_eq!(store(word), expected, "{word:08x}");
        }
        for (word, expected) in [
            (0xd503_3bbf, true),  // dmb ish
            (0xd503_3fdf, true),  // isb
            (0xc8df_fc20, true),  // ldar x0, [x1]
            (0xc89f_fc20, true),  // stlr x0, [x1]
            (0xf8bf_c020, true),  // ldapr x0, [x1]
            (0xf8e0_0020, true),  // ldaddal x0, x0, [x1]
            (0xc85f_fc20, true),  // ldaxr x0, [x1]
            (0xd503_201f, false), // nop
            (0xf821_792a, false), // str x10, [x9, x1, lsl #3]
            (0xf940_0108, false), // ldr x8, [x8]
        ] {
            assert_eq!(is_ordered(word), expected, "{word:08x}");
        }
    }

    /// cbz x0, out; ldr x1, [x0]; dmb ish; str x1, [x2]; out: ret. The early way out stores
    /// nothing.
    #[test]
    fn a_path_is_found() {
        let code: Vec<u8> = [
            0xb400_0080_u32,
            0xf940_0001,
            0xd503_3bbf,
            0xf900_0041,
            0xd65f_03c0,
        ]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
        let path = shortest(Architecture::Aarch64, 0x1000, &code).expect("a path");
        assert_eq!(
            (
                path.instructions(),
                path.stores(),
                path.branches(),
                path.ordered()
            ),
            (5, 1, 1, 1)
        );
    }
}
