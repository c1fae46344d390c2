//! A stack for a handler's work. The one that a handler runs on may have room for little more than the kernel's frame: Rust's own
//! alternate stack has 8 KiB.

use core::arch::asm;
use core::ffi::c_void;
use core::ptr::null_mut;

/// Several times what a report takes.
const ROOM: usize = 128 << 10;
/// Below it lies nothing that can be written: whoever takes more ends there, and changes nothing of
/// others. A page of any kernel.
const GUARD: usize = 64 << 10;

/// The lowest address of a fresh stack, above its guard. Makes no other system calls than those
/// that a report makes anyway.
fn map() -> Option<*mut c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh mapping touches nothing that exists.
    let whole = unsafe { libc::mmap(null_mut(), GUARD + ROOM, libc::PROT_NONE, flags, -1, 0) };
    if whole == libc::MAP_FAILED {
        return None;
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the upper part of what was mapped just now, which nobody else knows of.
    unsafe {
        let stack = whole.byte_add(GUARD);
        if libc::mmap(stack, ROOM, protection, flags | libc::MAP_FIXED, -1, 0) == stack {
            return Some(stack);
        }
        libc::munmap(whole, GUARD + ROOM);
    }
    None
}

/// Runs `f` on a stack of its own, which the system maps and takes back. Without memory for one, on that of the caller.
pub fn on_own_stack<F: FnOnce()>(f: F) {
    let Some(stack) = map() else {
        return f();
    };
    let mut job = Some(f);
    // SAFETY: `run` has the C calling convention: it preserves r12, and clobbers what is said. The stack is aligned to a page and
    // nobody else's; `job` outlives the call, and nothing unwinds. Afterwards nobody is on it.
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
        libc::munmap(stack.byte_sub(GUARD), GUARD + ROOM);
    }
}

/// # Safety
/// `job` is valid.
unsafe extern "C" fn run<F: FnOnce()>(job: *mut Option<F>) {
    // SAFETY: `job` is a local of `on_own_stack`, which waits for this call and does not use it
    // meanwhile.
    if let Some(f) = unsafe { (*job).take() } {
        f();
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::testing::in_child;
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

    /// In a child: what the parent's other threads map meanwhile may lie beside it.
    #[test]
    fn below_it_nothing_can_be_written() {
        in_child(|| {
            let mut maps = String::new();
            on_own_stack(|| {
                let local = 0u8;
                let here = (&raw const local).addr();
                maps = std::format!("{here:x}\n{}", std::fs::read_to_string("/proc/self/maps").unwrap());
            });
            let (here, maps) = maps.split_once('\n').unwrap();
            let address = |text: &str| usize::from_str_radix(text, 16).unwrap();
            let of = |line: &str| {
                let (range, rest) = line.split_once(' ').unwrap();
                let (from, to) = range.split_once('-').unwrap();
                (address(from), address(to), rest[..3].to_string())
            };
            let maps: Vec<_> = maps.lines().map(of).collect();
            let ours = maps.iter().position(|&(from, to, _)| (from..to).contains(&address(here))).unwrap();
            assert_eq!(maps[ours].2, "rw-");
            // One map may be all of what lies side by side and is alike.
            let (from, to, rights) = &maps[ours - 1];
            assert_eq!((*to, rights.as_str()), (maps[ours].0, "---"));
            assert!(to - from >= GUARD);
        });
    }

    /// It is given back with its guard.
    #[test]
    fn nothing_stays_mapped() {
        in_child(|| {
            let first = map().unwrap().addr();
            for _ in 0..1000 {
                on_own_stack(|| ());
            }
            let last = map().unwrap().addr();
            assert!(first.abs_diff(last) <= 4 * (GUARD + ROOM), "{first:#x} {last:#x}");
        });
    }
}
