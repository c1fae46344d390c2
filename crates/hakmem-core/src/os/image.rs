//! Functions of an image that is in use, found in memory: no lock, no allocation, no system
//! call.

use super::linux::at;
use core::ffi::CStr;

/// An entry of the dynamic section.
#[repr(C)]
pub(super) struct Dynamic {
    pub(super) tag: u64,
    pub(super) value: u64,
}

pub(super) const DT_STRTAB: u64 = 5;
pub(super) const DT_SYMTAB: u64 = 6;

/// Finds a function by its name among the dynamic symbols of an image, the first that has one of
/// `names`. Only its hash table has their number, and there are two kinds of hash tables. But
/// linkers put the names behind the symbols. So the symbols end where the names begin.
///
/// # Safety
/// `image` is the address of an ELF image for this machine that is in use: the vDSO, the loader or
/// a library. Its segments stay mapped.
pub unsafe fn find(image: usize, wanted: &[&CStr]) -> Option<usize> {
    // SAFETY: the caller says that the image is of this machine and mapped. So the offsets and
    // counts in it stay within it, its dynamic section ends with a 0, and its names with a NUL.
    unsafe {
        let header = &*at(image).cast::<libc::Elf64_Ehdr>();
        let programs = at(image + header.e_phoff as usize).cast::<libc::Elf64_Phdr>();
        let programs = core::slice::from_raw_parts(programs, header.e_phnum.into());
        let load = programs.iter().find(|p| p.p_type == libc::PT_LOAD)?;
        let dynamic = programs.iter().find(|p| p.p_type == libc::PT_DYNAMIC)?;
        // The distance from the addresses in the image to those in the process.
        let shift = image.wrapping_add(load.p_offset as usize).wrapping_sub(load.p_vaddr as usize);
        let (mut symbols, mut names) = (0, 0);
        let mut entry = at(shift.wrapping_add(dynamic.p_vaddr as usize)).cast::<Dynamic>();
        while (*entry).tag != 0 {
            // The loader adds its own place to the addresses of its section, as it starts.
            let value = (*entry).value as usize;
            let address = if value >= image { value } else { shift.wrapping_add(value) };
            match (*entry).tag {
                DT_STRTAB => names = address,
                DT_SYMTAB => symbols = address,
                _ => {}
            }
            entry = entry.add(1);
        }
        if symbols == 0 || names <= symbols {
            return None;
        }
        let count = (names - symbols) / size_of::<libc::Elf64_Sym>();
        let symbols = core::slice::from_raw_parts(at(symbols).cast::<libc::Elf64_Sym>(), count);
        let named = |s: &&libc::Elf64_Sym| {
            let name = CStr::from_ptr(at(names + s.st_name as usize).cast());
            s.st_shndx != 0 && wanted.contains(&name)
        };
        let symbol = symbols.iter().find(named)?;
        Some(shift.wrapping_add(symbol.st_value as usize))
    }
}
