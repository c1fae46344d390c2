//! `prctl` and `syscall` on x86-64.

use super::entries::entries;
use super::{IDENTITIES, OPTIONS, bits, watched_prctl, watched_syscall};
use core::ffi::c_long;

/// The numbers of the calls that change rights lie in two ranges: the first number of each.
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
    }
    syscall {
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
    }
    call {
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
    }
    // The negated error number is in rax.
    fail {
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
    }
    setxid {
        "mov {}, qword ptr [rip + __nptl_setxid@GOTPCREL]",
    }
}
