//! `prctl` and `syscall` on aarch64.

use super::{OPTIONS, bits, watched_prctl, watched_syscall};
use core::arch::{asm, naked_asm};
use core::ffi::{c_int, c_long, c_ulong};

/// The numbers of the calls that change rights lie in three ranges: the first number of each.
const LOW: c_long = libc::SYS_chroot;
const MIDDLE: c_long = libc::SYS_setregid;
const HIGH: c_long = libc::SYS_setns;
const LOW_NUMBERS: u64 = bits(
    LOW,
    &[libc::SYS_chroot, libc::SYS_capset, libc::SYS_unshare],
);
const MIDDLE_NUMBERS: u64 = bits(
    MIDDLE,
    &[
        libc::SYS_setuid,
        libc::SYS_setgid,
        libc::SYS_setreuid,
        libc::SYS_setregid,
        libc::SYS_setgroups,
        libc::SYS_setresuid,
        libc::SYS_setresgid,
        libc::SYS_setfsuid,
        libc::SYS_setfsgid,
        libc::SYS_prctl,
    ],
);
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

/// # Safety
/// The contract of `prctl`: the arguments are as the option asks.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn prctl(
    option: c_int,
    a: c_ulong,
    b: c_ulong,
    c: c_ulong,
    d: c_ulong,
) -> c_int {
    naked_asm!(
        ".cfi_startproc",
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
        ".cfi_endproc",
        numbers = const OPTIONS,
        number = const libc::SYS_prctl,
        watched = sym watched_prctl,
        fail = sym fail,
    )
}

/// # Safety
/// The contract of `syscall`: the arguments are as the system call of that number asks.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    naked_asm!(
        ".cfi_startproc",
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
        ".cfi_endproc",
        low = const LOW,
        low_numbers = const LOW_NUMBERS,
        middle = const MIDDLE,
        middle_numbers = const MIDDLE_NUMBERS,
        high = const HIGH,
        high_numbers = const HIGH_NUMBERS,
        watched = sym watched_syscall,
        call = sym call,
    )
}

/// Makes a system call as the C library's `syscall` does.
///
/// # Safety
/// The arguments are as the system call of that number asks.
#[unsafe(naked)]
pub unsafe extern "C" fn call(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    naked_asm!(
        ".cfi_startproc",
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
        ".cfi_endproc",
        fail = sym fail,
    )
}

/// Sets errno and returns -1. Others jump here, with the kernel's negated error number in x0.
#[unsafe(naked)]
unsafe extern "C" fn fail() -> c_long {
    naked_asm!(
        ".cfi_startproc",
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
        ".cfi_endproc",
        errno = sym libc::__errno_location,
    )
}

/// The address of `__nptl_setxid`. 0 but in fully static programs that start threads. Each object
/// file says itself that the symbol is weak: the compiler may put this function into any.
pub fn setxid() -> usize {
    let change: usize;
    // SAFETY: this reads one word of the global offset table, which every kind of program has.
    unsafe {
        asm!(
            ".weak __nptl_setxid",
            ".hidden __nptl_setxid",
            "adrp {0}, :got:__nptl_setxid",
            "ldr {0}, [{0}, :got_lo12:__nptl_setxid]",
            out(reg) change,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    change
}
