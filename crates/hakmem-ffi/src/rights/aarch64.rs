//! `prctl` and `syscall` on aarch64.

use super::entries::entries;
use super::{IDENTITIES, bits};
use core::ffi::c_long;

/// The numbers of the calls that change rights lie in three ranges: the first number of each.
const LOW: c_long = libc::SYS_chroot;
const MIDDLE: c_long = libc::SYS_setregid;
const HIGH: c_long = libc::SYS_setns;
const LOW_NUMBERS: u64 = bits(
    LOW,
    &[
        libc::SYS_chroot,
        libc::SYS_capset,
        libc::SYS_unshare,
        libc::SYS_exit,
    ],
);
const MIDDLE_NUMBERS: u64 = bits(MIDDLE, IDENTITIES) | bits(MIDDLE, &[libc::SYS_prctl]);
const HIGH_NUMBERS: u64 = bits(HIGH, &[libc::SYS_setns, libc::SYS_seccomp]);

/// Loads a word of 64 bits, in four parts, into x9.
macro_rules! load {
    ($word:literal) => {
        concat!(
            "movz x9, #({",
            $word,
            "} & 0xffff)\n",
            "movk x9, #({",
            $word,
            "} >> 16 & 0xffff), lsl #16\n",
            "movk x9, #({",
            $word,
            "} >> 32 & 0xffff), lsl #32\n",
            "movk x9, #({",
            $word,
            "} >> 48 & 0xffff), lsl #48\n",
        )
    };
}

entries! {
    prctl {
        "cmp w0, #63",
        "b.hi 2f",
        load!("numbers"),
        "lsr x9, x9, x0",
        "tbz x9, #0, 2f",
        "b {watched}",
        "2:",
        "mov x8, {number}",
        "svc #0",
        "cmn x0, #4095",
        "b.cs 3f",
        "ret",
        "3:",
        "b {fail}",
    }
    syscall(
        low = const LOW, low_numbers = const LOW_NUMBERS,
        middle = const MIDDLE, middle_numbers = const MIDDLE_NUMBERS,
        high = const HIGH, high_numbers = const HIGH_NUMBERS,
    ) {
        "sub x10, x0, {low}",
        load!("low_numbers"),
        "cmp x10, #63",
        "b.ls 2f",
        "sub x10, x0, {middle}",
        load!("middle_numbers"),
        "cmp x10, #63",
        "b.ls 2f",
        "sub x10, x0, {high}",
        load!("high_numbers"),
        "cmp x10, #63",
        "b.hi 3f",
        "2:",
        "lsr x9, x9, x10",
        "tbz x9, #0, 3f",
        "b {watched}",
        "3:",
        "b {call}",
    }
    call {
        "mov x8, x0",
        "mov x0, x1",
        "mov x1, x2",
        "mov x2, x3",
        "mov x3, x4",
        "mov x4, x5",
        "mov x5, x6",
        "svc #0",
        "cmn x0, #4095",
        "b.cs 2f",
        "ret",
        "2:",
        "b {fail}",
    }
    // The negated error number is in x0.
    fail {
        "stp x29, x30, [sp, #-32]!",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset x29, -32",
        ".cfi_offset x30, -24",
        "mov x29, sp",
        "neg w0, w0",
        "str w0, [sp, #16]",
        "bl {errno}",
        "ldr w1, [sp, #16]",
        "str w1, [x0]",
        "mov x0, #-1",
        "ldp x29, x30, [sp], #32",
        ".cfi_restore x29",
        ".cfi_restore x30",
        ".cfi_def_cfa_offset 0",
        "ret",
    }
    setxid {
        "adrp {0}, :got:__nptl_setxid",
        "ldr {0}, [{0}, :got_lo12:__nptl_setxid]",
    }
}
