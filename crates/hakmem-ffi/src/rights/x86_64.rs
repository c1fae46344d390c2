//! `prctl` and `syscall` on x86-64.

use super::entries::entries;
use super::{IDENTITIES, bits};
use core::ffi::c_long;

/// The numbers of the calls that change rights lie in two ranges: the first number of each. That of
/// exit lies in neither.
const LOW: c_long = libc::SYS_setuid;
const HIGH: c_long = libc::SYS_unshare;
const LOW_NUMBERS: u64 =
    bits(LOW, IDENTITIES) | bits(LOW, &[libc::SYS_capset, libc::SYS_prctl, libc::SYS_chroot]);
const HIGH_NUMBERS: u64 = bits(
    HIGH,
    &[libc::SYS_unshare, libc::SYS_setns, libc::SYS_seccomp],
);

entries! {
    prctl {
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
    }
    syscall(
        low = const LOW, low_numbers = const LOW_NUMBERS,
        high = const HIGH, high_numbers = const HIGH_NUMBERS,
        exit = const libc::SYS_exit,
    ) {
        "cmp rdi, {exit}",
        "je {watched}",
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
    }
    call {
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
    }
    // The negated error number is in rax.
    fail {
        "neg eax",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "call {errno}",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "mov [rax], edx",
        "or rax, -1",
        "ret",
    }
    setxid {
        "mov {}, qword ptr [rip + __nptl_setxid@GOTPCREL]",
    }
}
