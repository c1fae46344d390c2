//! A stack for work that may begin in a signal handler: reports, and the unwinder. The handler's
//! own stack may have little more room than the kernel's frame takes: Rust's alternate stack has
//! 8 KiB.

use super::linux::{at, syscall};
use core::arch::asm;
use core::ffi::c_void;

/// Bytes of the stack: several times what a report takes.
const ROOM: usize = 128 << 10;
/// Bytes of the inaccessible range below the stack. Code that overflows the stack faults there and
/// changes no other memory. A multiple of the system page of any kernel.
const GUARD: usize = 64 << 10;

/// Maps a stack with its guard. Returns the stack's lowest address, above the guard. It makes only
/// system calls that a report makes anyway, and none through libc: the scavenger has no errno.
fn map() -> Option<*mut c_void> {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    let map = |at: usize, bytes: usize, protection: i32, flags: usize| {
        let arguments = [at, bytes, protection as usize, flags, usize::MAX, 0];
        usize::try_from(syscall(libc::SYS_mmap, arguments)).ok()
    };
    // Without a fixed address, the system maps a range that nothing else uses. The second map lies
    // inside of it, and only this call has its address.
    let whole = map(0, GUARD + ROOM, libc::PROT_NONE, flags)?;
    let usable = libc::PROT_READ | libc::PROT_WRITE;
    if let Some(stack) = map(whole + GUARD, ROOM, usable, flags | libc::MAP_FIXED as usize) {
        return Some(at(stack).cast());
    }
    unmap(whole);
    None
}

/// Gives up the map that begins at `whole`.
fn unmap(whole: usize) {
    syscall(libc::SYS_munmap, [whole, GUARD + ROOM, 0, 0, 0, 0]);
}

/// Runs `f` on a stack that is mapped for it and unmapped afterwards. If the system refuses, `f`
/// runs on the caller's stack. If the caller may be on an alternate stack, it has blocked all
/// signals: else the system takes that stack for unused, and starts a signal's handler at its top.
pub fn on_own_stack<F: FnOnce()>(f: F) {
    let Some(stack) = map() else {
        return f();
    };
    let mut job = Some(f);
    // SAFETY: `run` has the C calling convention: it preserves r12 (on aarch64 x20) and changes the
    // named registers.
    // The top of the stack is aligned, and only this call uses the stack. `job` outlives the call.
    // A panic ends the process at the `extern "C"` function, so nothing unwinds through here.
    unsafe {
        #[cfg(target_arch = "x86_64")]
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
        #[cfg(target_arch = "aarch64")]
        asm!(
            "mov x20, sp",
            "mov sp, {top}",
            "blr {run}",
            "mov sp, x20",
            top = in(reg) stack.byte_add(ROOM),
            run = in(reg) run::<F> as *const (),
            inout("x0") &raw mut job => _,
            out("x20") _,
            clobber_abi("C"),
        );
    }
    // No code runs on the stack any more.
    unmap(stack.addr() - GUARD);
}

/// Runs the job.
///
/// # Safety
/// `job` is valid, and nothing else uses it during the call.
unsafe extern "C" fn run<F: FnOnce()>(job: *mut Option<F>) {
    // SAFETY: the caller says that `job` is valid and that nothing else uses it.
    if let Some(f) = unsafe { (*job).take() } {
        f();
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::testing::in_child;
    use std::fs::File;
    use std::io::Read;
    use std::string::{String, ToString};
    use std::vec::Vec;

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

    /// In a child: other threads of the parent could map something beside the stack.
    #[test]
    fn below_it_nothing_can_be_written() {
        in_child(|| {
            let mut maps = String::new();
            on_own_stack(|| {
                let local = 0u8;
                let here = (&raw const local).addr();
                maps = std::format!(
                    "{here:x}\n{}",
                    std::fs::read_to_string("/proc/self/maps").unwrap()
                );
            });
            let (here, maps) = maps.split_once('\n').unwrap();
            let address = |text: &str| usize::from_str_radix(text, 16).unwrap();
            let of = |line: &str| {
                let (range, rest) = line.split_once(' ').unwrap();
                let (from, to) = range.split_once('-').unwrap();
                (address(from), address(to), rest[..3].to_string())
            };
            let maps: Vec<_> = maps.lines().map(of).collect();
            let ours =
                maps.iter().position(|&(from, to, _)| (from..to).contains(&address(here))).unwrap();
            assert_eq!(maps[ours].2, "rw-");
            // The kernel joins neighbouring maps that are alike.
            let (from, to, rights) = &maps[ours - 1];
            assert_eq!((*to, rights.as_str()), (maps[ours].0, "---"));
            assert!(to - from >= GUARD);
        });
    }

    /// How much address space the process has mapped, in system pages.
    fn mapped() -> usize {
        let mut text = [0; 128];
        let length =
            File::open("/proc/self/statm").and_then(|mut file| file.read(&mut text)).unwrap();
        let text = std::str::from_utf8(&text[..length]).unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    }

    /// The stack and its guard are unmapped. In a child: it has no other thread that maps memory.
    #[test]
    fn nothing_stays_mapped() {
        in_child(|| {
            let before = mapped();
            for _ in 0..1000 {
                on_own_stack(|| ());
            }
            assert_eq!(mapped(), before);
        });
    }
}
