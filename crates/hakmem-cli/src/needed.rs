//! The libraries that a program's file says it needs, and the allocators among them.

use crate::checked;
use object::LittleEndian as LE;
use object::elf::{self, Dyn64, FileHeader64};
use object::read::ReadCache;
use object::read::elf::{FileHeader, SectionHeader};
use std::ffi::CStr;
use std::path::Path;

/// Longer tables, and longer texts of names, are not read.
const MOST_ENTRIES: u64 = 1 << 16;
const MOST_NAMES: u64 = 64 << 20;
/// Parts of the names of allocators' libraries.
const ALLOCATORS: [&str; 6] = [
    "jemalloc", "mimalloc", "tcmalloc", "snmalloc", "rpmalloc", "hoard",
];

/// Whether a library of this name has a malloc.
pub fn is_allocator(name: &str) -> bool {
    ALLOCATORS.iter().any(|known| name.contains(known))
}

/// The first library with a malloc that the program itself needs. None also if the file cannot be
/// read.
pub fn allocator(path: &Path) -> Option<String> {
    let cache = ReadCache::new(checked::open(path).ok()?);
    let header = FileHeader64::<LE>::parse(&cache).ok()?;
    // Of more sections than fit in the header the number may be any.
    if header.e_shnum(LE) == 0 {
        return None;
    }
    let sections = header.section_headers(LE, &cache).ok()?;
    let table = sections
        .iter()
        .find(|s| s.sh_type(LE) == elf::SHT_DYNAMIC)?;
    let names = sections.get(table.sh_link(LE) as usize)?;
    if table.sh_size(LE) > MOST_ENTRIES || names.sh_size(LE) > MOST_NAMES {
        return None;
    }
    let names = names.data(LE, &cache).ok()?;
    let entries: &[Dyn64<LE>] = table.data_as_array(LE, &cache).ok()?;
    let name = |entry: &Dyn64<LE>| {
        let start = usize::try_from(entry.d_val.get(LE)).ok()?;
        let name = CStr::from_bytes_until_nul(names.get(start..)?).ok()?;
        Some(name.to_str().ok()?.to_owned())
    };
    let needed = entries
        .iter()
        .filter(|entry| entry.d_tag.get(LE) == elf::DT_NEEDED);
    needed.filter_map(name).find(|name| is_allocator(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_program_needs_nothing() {
        for path in ["Cargo.toml", "/dev/zero", "/no/such/file"] {
            assert_eq!(allocator(Path::new(path)), None);
        }
        assert!(is_allocator("libtcmalloc_minimal.so.4") && !is_allocator("libc.so.6"));
    }
}
