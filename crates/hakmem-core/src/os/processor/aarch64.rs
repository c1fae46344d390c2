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
        asm!("svc #0", in("x8") number,
            inlateout("x0") a[0] => result, in("x1") a[1], in("x2") a[2],
            in("x3") a[3], in("x4") a[4], in("x5") a[5], options(nostack));
    }
    result
}

/// The address of the calling thread's control block.
#[inline]
pub fn control_block() -> usize {
    let control: usize;
    // SAFETY: the instruction copies a register. The kernel and libc set it once for a thread.
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) control, options(pure, nomem, nostack, preserves_flags))
    };
    control
}

/// Makes a thread by `clone`: see `x86_64`, whose function of this name does the same.
///
/// # Safety
/// As there.
pub unsafe fn clone(
    flags: i32,
    top: usize,
    control: *mut usize,
    number_at: usize,
    work: extern "C" fn(),
) -> isize {
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

/// Instructions that load an address from the linker's table of addresses.
macro_rules! load_address {
    ($symbol:literal) => {
        concat!("adrp {0}, :got:", $symbol, "\nldr {0}, [{0}, :got_lo12:", $symbol, "]")
    };
}
pub(in crate::os) use load_address;

/// The registers of the code that a signal interrupted.
pub fn interrupted(context: &libc::ucontext_t) -> Registers {
    let registers = &context.uc_mcontext;
    let register = |i: usize| registers.regs[i] as usize;
    Registers {
        pc: registers.pc as usize,
        stack: registers.sp as usize,
        frame: register(29),
        link: register(30),
    }
}
