//! A stack for a handler's work. The one that a handler runs on may have room for little more than the kernel's frame: Rust's own
//! alternate stack has 8 KiB.

use core::arch::asm;
use core::ptr::null_mut;

/// Several times what a report takes.
const ROOM: usize = 128 << 10;

/// Runs `f` on a stack of its own, which the system maps and takes back. Without memory for one, on that of the caller.
pub fn on_own_stack<F: FnOnce()>(f: F) {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh mapping touches nothing that exists.
    let stack = unsafe { libc::mmap(null_mut(), ROOM, protection, flags, -1, 0) };
    if stack == libc::MAP_FAILED {
        return f();
    }
    let mut job = Some(f);
    // SAFETY: `run` has the C calling convention: it preserves r12, and clobbers what is said. The stack is aligned to a page and
    // nobody else's; `job` outlives the call, and nothing unwinds.
    unsafe {
        asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {run}",
            "mov rsp, r12",
            top = in(reg) stack.byte_add(ROOM),
            run = in(reg) run::<F> as *const (),
            inout("rdi") &raw mut job => _,
            out("r12") _,
            clobber_abi("C"),
        );
        libc::munmap(stack, ROOM);
    }
}

/// # Safety
/// `job` is valid.
unsafe extern "C" fn run<F: FnOnce()>(job: *mut Option<F>) {
    // SAFETY: by the contract.
    if let Some(f) = unsafe { (*job).take() } {
        f();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_goes_on_where_it_was() {
        let (mut here, there) = ([0usize; 3], 0usize);
        let before = (&raw const there).addr();
        on_own_stack(|| {
            let local = 1usize;
            here = [(&raw const local).addr(), (&raw const local).addr() % 8, local];
        });
        assert!(here[0].abs_diff(before) > ROOM && here[1..] == [0, 1]);
    }
}
