//! What Linux's interface has differently on x86-64. `aarch64` has the same functions.

use crate::os::Registers;
use core::arch::asm;

/// Makes a system call that no test refuses or changes.
#[inline]
pub fn raw(number: libc::c_long, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel reads and writes only the memory that the arguments name. Each caller in
    // `os` passes its own variables, or a range that its own caller owns. Of the registers, the
    // kernel changes rax, rcx and r11.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// The address of the calling thread's control block.
#[inline]
pub fn control_block() -> usize {
    let control: usize;
    // SAFETY: fs points to the thread control block, whose first word is its own address (x86-64
    // psABI). The bare thread's control block has that word too.
    unsafe {
        asm!("mov {}, qword ptr fs:[0]", out(reg) control,
            options(pure, readonly, nostack, preserves_flags));
    }
    control
}

/// Makes a thread by `clone`. It runs `work` on the stack below `top`, and ends when `work`
/// returns. The kernel writes its number to `number_at` now, and 0 at its end. Returns the number,
/// or a negated error number.
///
/// # Safety
/// - Nothing else uses the stack, whose top is aligned to 16 bytes, or `control`, a control block
///   of three words, as long as the thread runs.
/// - `number_at` is the address of an atomic that stays for ever.
/// - The flags share everything between the two threads, and set the control block.
pub unsafe fn clone(
    flags: i32,
    top: usize,
    control: *mut usize,
    number_at: usize,
    work: extern "C" fn(),
) -> isize {
    // A control block's first and third words are its own address.
    let own = control.expose_provenance();
    // SAFETY: the caller says that nothing else uses the three words.
    unsafe {
        control.write(own);
        control.add(2).write(own);
    }
    let result: isize;
    // SAFETY: the child runs on its own stack. It ends itself when `work` returns, and touches
    // nothing of this frame. Of the maker's registers, the kernel changes rax, rcx and r11.
    unsafe {
        asm!("syscall", "test rax, rax", "jnz 2f", "xor ebp, ebp", "call r12",
            "xor edi, edi", "mov eax, {exit}", "syscall", "ud2", "2:",
            exit = const libc::SYS_exit, in("r12") work,
            inlateout("rax") libc::SYS_clone as isize => result,
            in("rdi") flags as isize, in("rsi") top,
            in("rdx") number_at, in("r10") number_at, in("r8") own,
            lateout("rcx") _, lateout("r11") _);
    }
    result
}

/// Instructions that load an address from the linker's table of addresses.
macro_rules! load_address {
    ($symbol:literal) => {
        concat!("mov {}, qword ptr [rip + ", $symbol, "@GOTPCREL]")
    };
}
pub(in crate::os) use load_address;

/// The registers of the code that a signal interrupted.
pub fn interrupted(context: &libc::ucontext_t) -> Registers {
    let register = |i: libc::c_int| context.uc_mcontext.gregs[i as usize] as usize;
    Registers {
        pc: register(libc::REG_RIP),
        stack: register(libc::REG_RSP),
        frame: register(libc::REG_RBP),
        link: 0,
    }
}
