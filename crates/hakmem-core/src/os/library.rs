//! What this code was linked into: a program or a shared library.

use super::processor::address_of;
use core::arch::global_asm;

// The linker defines it, except in programs that it links statically at a fixed address. Weak here,
// too: a reference of any kind makes the symbol necessary, unless each object file says that it is
// weak.
global_asm!(".weak _DYNAMIC", ".hidden _DYNAMIC");
// The linker defines it if the file's headers are mapped with its code.
global_asm!(".weak __ehdr_start", ".hidden __ehdr_start");

/// An entry of the dynamic section.
#[repr(C)]
struct Entry {
    tag: i64,
    value: u64,
}

const DT_NULL: i64 = 0;
/// Only programs have this entry.
const DT_DEBUG: i64 = 21;
const DT_FLAGS_1: i64 = 0x6fff_fffb;
const DF_1_NODELETE: u64 = 8;

/// True in a shared library that dlclose unloads. False in a program, and in a library that stays
/// until the process ends.
pub fn may_be_unloaded() -> bool {
    let entry: *const Entry;
    // SAFETY: the linker gives a weak symbol an entry in the table of addresses, in every kind of
    // program. The load reads that entry: null where the symbol is undefined.
    unsafe { entry = address_of!("_DYNAMIC") };
    // SAFETY: null, or the dynamic section. It ends with DT_NULL, and is mapped as long as this
    // code.
    unsafe { is_of_what_may_be_unloaded(entry) }
}

/// True in the program, false in a shared library.
#[cfg(feature = "reports")]
pub fn is_in_program() -> bool {
    let file: *const libc::Elf64_Ehdr;
    // SAFETY: the linker gives a weak symbol an entry in the table of addresses, in every kind of
    // program. The load reads that entry: null where the symbol is undefined.
    unsafe { file = address_of!("__ehdr_start") };
    // SAFETY: null, or the file's header, which is mapped as long as this code.
    let Some(header) = (unsafe { file.as_ref() }) else { return false };
    file.addr() + header.e_phoff as usize == super::program_headers()
}

/// What a dynamic section says of its file. Null: the file has none.
///
/// # Safety
/// `entry` is null, or it points to the first of some readable entries, one of which is a DT_NULL.
unsafe fn is_of_what_may_be_unloaded(mut entry: *const Entry) -> bool {
    // SAFETY: null, or one of the caller's entries: the loop ends at DT_NULL and goes no further.
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
            let entries: Vec<_> =
                entries.iter().map(|&(tag, value)| Entry { tag, value }).collect();
            // SAFETY: `entries` lives through the call, and each list below has a DT_NULL.
            unsafe { is_of_what_may_be_unloaded(entries.as_ptr()) }
        };
        assert!(may(&[(DT_NEEDED, 1), (DT_NULL, 0), (DT_DEBUG, 0)]));
        assert!(may(&[
            (DT_NEEDED, DF_1_NODELETE),
            (DT_FLAGS_1, DF_1_NOW),
            (DT_NULL, 0),
            (DT_DEBUG, 0)
        ]));
        assert!(!may(&[(DT_NEEDED, 1), (DT_FLAGS_1, DF_1_NOW | DF_1_NODELETE), (DT_NULL, 0)]));
        assert!(!may(&[(DT_NEEDED, 1), (DT_DEBUG, 0), (DT_NULL, 0)]));
        // SAFETY: null stands for a file without a dynamic section.
        let may_be_unloaded = unsafe { is_of_what_may_be_unloaded(core::ptr::null()) };
        assert!(!may_be_unloaded, "a program without a dynamic section");
    }
}
