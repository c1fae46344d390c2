//! `prctl` and `syscall` on x86-64.

use super::{OPTIONS, bits, watched_prctl, watched_syscall};
use core::arch::{asm, naked_asm};
use core::ffi::{c_int, c_long, c_ulong};

/// The numbers of the calls that change rights lie in two ranges: the first number of each.
const LOW: c_long = libc::SYS_setuid;
const HIGH: c_long = libc::SYS_unshare;
const LOW_NUMBERS: u64 = bits(
    LOW,
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
        libc::SYS_capset,
        libc::SYS_prctl,
        libc::SYS_chroot,
    ],
);
const HIGH_NUMBERS: u64 = bits(
    HIGH,
    &[libc::SYS_unshare, libc::SYS_setns, libc::SYS_seccomp],
);

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
        "cmp edi, 63",
        "ja 2f",
        "mov rax, {numbers}",
        "mov r11d, edi",
        "bt rax, r11",
        "jc {watched}",
        "2:",
        "mov r10, rcx",
        "mov eax, {number}",
        "syscall",
        "cmp rax, -4095",
        "jae {fail}",
        "ret",
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
        "lea rax, [rdi - {low}]",
        "cmp rax, 63",
        "ja 2f",
        "mov r11, {low_numbers}",
        "bt r11, rax",
        "jc {watched}",
        "jmp {call}",
        "2:",
        "lea rax, [rdi - {high}]",
        "cmp rax, 63",
        "ja {call}",
        "mov r11, {high_numbers}",
        "bt r11, rax",
        "jc {watched}",
        "jmp {call}",
        ".cfi_endproc",
        low = const LOW,
        low_numbers = const LOW_NUMBERS,
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
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae {fail}",
        "ret",
        ".cfi_endproc",
        fail = sym fail,
    )
}

/// Sets errno and returns -1. Others jump here, with the kernel's negated error number in rax.
#[unsafe(naked)]
unsafe extern "C" fn fail() -> c_long {
    naked_asm!(
        ".cfi_startproc",
        "neg eax",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "call {errno}",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "mov [rax], edx",
        "or rax, -1",
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
            "mov {}, qword ptr [rip + __nptl_setxid@GOTPCREL]",
            out(reg) change,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    change
}
