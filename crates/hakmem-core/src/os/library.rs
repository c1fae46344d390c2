//! What the code that this is part of was linked into.

use core::arch::{asm, global_asm};

// Defined by the linker, but for programs that are linked statically at a fixed address.
global_asm!(".weak _DYNAMIC", ".hidden _DYNAMIC");
// Defined by the linker where the headers of the file are mapped with it.
global_asm!(".weak __ehdr_start", ".hidden __ehdr_start");

/// An entry of the dynamic section.
#[repr(C)]
struct Entry {
    tag: i64,
    value: u64,
}

const DT_NULL: i64 = 0;
/// In programs only.
const DT_DEBUG: i64 = 21;
const DT_FLAGS_1: i64 = 0x6fff_fffb;
const DF_1_NODELETE: u64 = 8;

/// True in a shared library that dlclose unloads; false in a program, and in a library that stays until the process ends.
pub fn may_be_unloaded() -> bool {
    let entry: *const Entry;
    // SAFETY: reads the address from the table of addresses, which is there in every kind of program.
    unsafe {
        asm!("mov {}, qword ptr [rip + _DYNAMIC@GOTPCREL]", out(reg) entry, options(pure, readonly, nostack, preserves_flags));
    }
    // SAFETY: null, or the dynamic section, which is mapped while the code is, and ends with DT_NULL.
    unsafe { is_of_what_may_be_unloaded(entry) }
}

/// True if it was linked into the program, false in a library.
#[cfg(feature = "reports")]
pub fn is_in_program() -> bool {
    let file: *const libc::Elf64_Ehdr;
    // SAFETY: reads the address from the table of addresses, which is there in every kind of
    // program.
    unsafe {
        asm!("mov {}, qword ptr [rip + __ehdr_start@GOTPCREL]", out(reg) file, options(pure, readonly, nostack, preserves_flags));
    }
    // SAFETY: null, or the header of the file, which is mapped while the code is.
    let Some(header) = (unsafe { file.as_ref() }) else { return false };
    file.addr() + header.e_phoff as usize == super::program_headers()
}

/// # Safety
/// `entry` is null, or the first of some that end with DT_NULL.
unsafe fn is_of_what_may_be_unloaded(mut entry: *const Entry) -> bool {
    // SAFETY: null, or one of the entries up to DT_NULL, behind which the loop does not go.
    while let Some(Entry { tag, value }) = unsafe { entry.as_ref() } {
        match *tag {
            DT_NULL => return true,
            DT_DEBUG => return false,
            DT_FLAGS_1 if value & DF_1_NODELETE != 0 => return false,
            _ => entry = entry.wrapping_add(1),
        }
    }
    false
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_program_is_not_unloaded() {
        assert!(!may_be_unloaded());
        #[cfg(feature = "reports")]
        assert!(is_in_program());
    }

    #[test]
    fn a_library_is_unless_it_says_otherwise() {
        const DT_NEEDED: i64 = 1;
        const DF_1_NOW: u64 = 1;
        let may = |entries: &[(i64, u64)]| {
            let entries: Vec<_> = entries.iter().map(|&(tag, value)| Entry { tag, value }).collect();
            // SAFETY: each of these ends with DT_NULL, or before it with an answer.
            unsafe { is_of_what_may_be_unloaded(entries.as_ptr()) }
        };
        assert!(may(&[(DT_NEEDED, 1), (DT_NULL, 0), (DT_DEBUG, 0)]));
        assert!(may(&[(DT_NEEDED, DF_1_NODELETE), (DT_FLAGS_1, DF_1_NOW), (DT_NULL, 0), (DT_DEBUG, 0)]));
        assert!(!may(&[(DT_NEEDED, 1), (DT_FLAGS_1, DF_1_NOW | DF_1_NODELETE), (DT_NULL, 0)]));
        assert!(!may(&[(DT_NEEDED, 1), (DT_DEBUG, 0), (DT_NULL, 0)]));
        // SAFETY: null may be asked about.
        assert!(!unsafe { is_of_what_may_be_unloaded(core::ptr::null()) }, "a program without a dynamic section");
    }
}
