//! What Linux's interface has differently on aarch64. `x86_64` has the same functions.

use crate::os::Registers;
use core::arch::asm;

/// Makes a system call that no test refuses or changes.
#[inline]
pub fn raw(number: libc::c_long, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel reads and writes only the memory that the arguments name. Each caller in
    // `os` passes its own variables, or a range that its own caller owns. Of the registers, the
    // kernel changes x0.
    unsafe {
        asm!("svc #0", in("x8") number, inlateout("x0") a[0] => result, in("x1") a[1], in("x2") a[2],
            in("x3") a[3], in("x4") a[4], in("x5") a[5], options(nostack));
    }
    result
}

/// The address of the calling thread's control block.
#[inline]
pub fn control_block() -> usize {
    let control: usize;
    // SAFETY: the instruction copies a register. The kernel and libc set it once for a thread.
    unsafe { asm!("mrs {}, tpidr_el0", out(reg) control, options(pure, nomem, nostack, preserves_flags)) };
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
pub unsafe fn clone(flags: i32, top: usize, control: *mut usize, number_at: usize, work: extern "C" fn()) -> isize {
    let own = control.expose_provenance();
    let result: isize;
    // SAFETY: the child runs on its own stack. It ends itself when `work` returns, and touches
    // nothing of this frame: so it may change the frame pointer, where stacks end with 0. Of the
    // maker's registers, the kernel changes x0.
    unsafe {
        asm!("svc #0", "cbnz x0, 2f", "mov x29, xzr", "blr {work}",
            "mov x0, xzr", "mov x8, {exit}", "svc #0", "brk #1", "2:",
            exit = const libc::SYS_exit, work = in(reg) work,
            in("x8") libc::SYS_clone, inlateout("x0") flags as isize => result,
            in("x1") top, in("x2") number_at, in("x3") own, in("x4") number_at);
    }
    result
}

/// The address of a symbol, by the linker's table of addresses: null if nobody defines it. To be
/// used in an `unsafe` block.
macro_rules! address_of {
    ($symbol:literal) => {{
        let address;
        core::arch::asm!(
            // Each object file says itself that the symbol is weak: the code may go into any.
            concat!(".weak ", $symbol),
            concat!("adrp {0}, :got:", $symbol),
            concat!("ldr {0}, [{0}, :got_lo12:", $symbol, "]"),
            out(reg) address,
            options(pure, readonly, nostack, preserves_flags)
        );
        address
    }};
}
pub(in crate::os) use address_of;

/// The registers of the code that a signal interrupted.
pub fn interrupted(context: &libc::ucontext_t) -> Registers {
    let registers = &context.uc_mcontext;
    let register = |i: usize| registers.regs[i] as usize;
    Registers { pc: registers.pc as usize, stack: registers.sp as usize, frame: register(29), link: register(30) }
}
