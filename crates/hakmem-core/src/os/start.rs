//! Where the program and the first thread's stack lie. The kernel wrote that into the auxiliary
//! vector and mapped the program's headers. Both stay until the process ends. So there is no system
//! call and no lock here.

use super::tables::moved_by;
use libc::{PT_DYNAMIC, PT_INTERP, PT_LOAD};

/// The address of the program's headers.
pub fn program_headers() -> usize {
    // SAFETY: any key may be asked for. The answer comes from the auxiliary vector, which stays.
    unsafe { libc::getauxval(libc::AT_PHDR) as usize }
}

/// The program's headers. None: unknown.
pub(super) fn headers() -> Option<&'static [libc::Elf64_Phdr]> {
    let at = program_headers();
    // SAFETY: any key may be asked for. The answer comes from the auxiliary vector, which stays.
    let (count, size) =
        unsafe { (libc::getauxval(libc::AT_PHNUM), libc::getauxval(libc::AT_PHENT)) };
    if at == 0 || size as usize != size_of::<libc::Elf64_Phdr>() {
        return None;
    }
    // SAFETY: the kernel gave the address and the number of the headers, and their size was checked
    // above. They lie in a constant part of the program, which stays mapped.
    Some(unsafe {
        core::slice::from_raw_parts(super::at(at).cast::<libc::Elf64_Phdr>(), count as usize)
    })
}

/// True for an address in the program's code, constants or variables. False also if unknown.
pub fn in_program(address: usize) -> bool {
    let here = in_program as *const () as usize;
    headers().is_some_and(|headers| is_within(headers, program_headers(), here, address))
}

/// True if `address` lies in a range that the headers of a program map. The headers lie at `at`,
/// this code at `here`.
fn is_within(headers: &[libc::Elf64_Phdr], at: usize, here: usize, address: usize) -> bool {
    let of_kind = |kind| headers.iter().find(|header| header.p_type == kind);
    let (interpreter, dynamic) = (of_kind(PT_INTERP), of_kind(PT_DYNAMIC));
    let is_fixed = interpreter.is_none() && dynamic.is_none();
    let moved_by = if is_fixed { Some(0) } else { moved_by(headers, at) };
    let is_mapped = |address: usize| {
        let address = address.wrapping_sub(moved_by.unwrap_or(0)) as u64;
        let mut mapped = headers.iter().filter(|header| header.p_type == PT_LOAD);
        mapped.any(|header| address.wrapping_sub(header.p_vaddr) < header.p_memsz)
    };
    // A dynamic section and no interpreter: a static program that can be moved, or the loader
    // itself, started as a program. The loader keeps its first blocks in the last system page of
    // its variables, so the answer is false for it. This code is in the static program.
    let may_be_loader = interpreter.is_none() && !is_fixed;
    moved_by.is_some() && is_mapped(address) && (!may_be_loader || is_mapped(here))
}

/// The largest distance from the top of the first stack at which a stack pointer counts as on it.
/// The kernel keeps at least twice as much free below the top, so no other map lies in between.
const FIRST_STACK: usize = 64 << 20;

/// True if `stack_pointer` is on the first thread's stack and `address` is above it there: in its
/// frames, or in the arguments and the environment behind them.
pub fn on_first_stack(address: usize, stack_pointer: usize) -> bool {
    // SAFETY: any key may be asked for. The answer comes from the auxiliary vector, which stays.
    let top = unsafe { libc::getauxval(libc::AT_EXECFN) as usize };
    (stack_pointer..top).contains(&address) && top - stack_pointer <= FIRST_STACK
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use libc::PT_PHDR;
    use std::boxed::Box;

    static CONSTANT: u64 = 1;
    static VARIABLE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

    #[test]
    fn the_program_is_told_from_all_else() {
        let local = 0u8;
        let boxed = Box::new(0u8);
        assert!(
            in_program((&raw const CONSTANT).addr()) && in_program((&raw const VARIABLE).addr())
        );
        assert!(in_program(is_within as *const () as usize) && in_program(program_headers()));
        assert!(!in_program((&raw const local).addr()) && !in_program((&raw const *boxed).addr()));
        assert!(!in_program(0) && !in_program(usize::MAX));
        let is_static = cfg!(target_feature = "crt-static");
        assert_eq!(in_program(libc::getauxval as *const () as usize), is_static, "the C library");
    }

    #[test]
    fn headers_say_where_the_program_lies() {
        let header = |p_type, p_vaddr, p_memsz| libc::Elf64_Phdr {
            p_type,
            p_vaddr,
            p_memsz,
            // SAFETY: all fields are integers, so all zero bytes are a valid header.
            ..unsafe { core::mem::zeroed() }
        };
        let own = header(PT_PHDR, 0x40, 0x100);
        let (interpreter, dynamic) = (header(PT_INTERP, 0x140, 9), header(PT_DYNAMIC, 0x3000, 9));
        let (code, data) = (header(PT_LOAD, 0, 0x1000), header(PT_LOAD, 0x3000, 0x100));
        let program = [own, interpreter, code, data, dynamic];
        let elsewhere = 0x9000;
        let within = |address| is_within(&program, 0x70040, elsewhere, address);
        assert!(within(0x70000) && within(0x70fff) && within(0x73000) && within(0x730ff));
        assert!(!within(0x6ffff) && !within(0x71000) && !within(0x72fff) && !within(0x73100));
        let loader = [own, code, data, dynamic];
        assert!(!is_within(&loader, 0x70040, elsewhere, 0x70000));
        let is_static = |address| is_within(&loader, 0x70040, 0x70500, address);
        assert!(is_static(0x70000) && is_static(0x730ff) && !is_static(0x73100));
        let fixed = [code, data];
        let is_fixed = |address| is_within(&fixed, 0x40, 0x100, address);
        assert!(is_fixed(0x30ff) && !is_fixed(0x3100));
    }

    #[test]
    fn the_first_stack_ends_where_the_kernel_says() {
        // SAFETY: any key may be asked for. The answer comes from the auxiliary vector, which
        // stays.
        let [top, random] =
            [libc::AT_EXECFN, libc::AT_RANDOM].map(|key| unsafe { libc::getauxval(key) as usize });
        // `random` lies above all frames; an environment of any length lies between it and `top`.
        let sp = random - 4096;
        assert!(
            on_first_stack(sp, sp) && on_first_stack(random, sp) && on_first_stack(top - 1, sp)
        );
        assert!(
            !on_first_stack(sp - 1, sp)
                && !on_first_stack(top, sp)
                && !on_first_stack(top + 5, top + 1)
        );
        assert!(
            on_first_stack(top - 1, top - FIRST_STACK)
                && !on_first_stack(top - 1, top - FIRST_STACK - 1)
        );
    }
}
