//! Whether a loaded object defines a name that others define as well. The walk asks the loader,
//! which has a lock for its list of objects: so only a library's constructor makes it.

use super::image::{DT_STRTAB, DT_SYMTAB, Dynamic};
use super::linux::at;
use core::ffi::{CStr, c_int, c_void};

const DT_GNU_HASH: u64 = 0x6fff_fef5;

/// What the walk looks for.
struct Search<'a> {
    names: &'a [&'a CStr],
    /// How the files begin that are left out.
    usual: &'a [&'a [u8]],
    is_found: bool,
}

/// True if an object defines one of `names` that is neither this one nor has a file's name that
/// begins as one of `usual`. O(objects).
pub fn is_defined_elsewhere(names: &[&CStr], usual: &[&[u8]]) -> bool {
    let mut search = Search { names, usual, is_found: false };
    // SAFETY: `look` takes what the loader gives it and, as its last argument, a `Search` that
    // nothing else uses meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.is_found
}

/// Looks at an object. Not 0 ends the walk.
unsafe extern "C" fn look(
    object: *mut libc::dl_phdr_info,
    _: libc::size_t,
    search: *mut c_void,
) -> c_int {
    // SAFETY: the loader gives a description of an object that stays loaded during the call, and
    // `search` is as `is_defined_elsewhere` passed it.
    unsafe {
        let (object, search) = (&*object, &mut *search.cast::<Search<'_>>());
        let path = if object.dlpi_name.is_null() { c"" } else { CStr::from_ptr(object.dlpi_name) };
        let file = path.to_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        if search.usual.iter().any(|usual| file.starts_with(usual)) {
            return 0;
        }
        if object.dlpi_phdr.is_null() {
            return 0;
        }
        let parts = core::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into());
        let here = (look as unsafe extern "C" fn(_, _, _) -> _ as *const ()).addr();
        let place = object.dlpi_addr as usize;
        let is_here = |part: &libc::Elf64_Phdr| {
            part.p_type == libc::PT_LOAD
                && here.wrapping_sub(place.wrapping_add(part.p_vaddr as usize))
                    < part.p_memsz as usize
        };
        let dynamic = parts.iter().find(|part| part.p_type == libc::PT_DYNAMIC);
        if let Some(dynamic) = dynamic
            && !parts.iter().any(is_here)
            && let Some(table) = Table::of(place, dynamic)
        {
            search.is_found = search.names.iter().any(|name| table.defines(name));
        }
        c_int::from(search.is_found)
    }
}

/// The dynamic symbols of an object, with their hash table.
struct Table {
    hashes: *const u32,
    symbols: *const libc::Elf64_Sym,
    names: usize,
}

impl Table {
    /// None: the object has no such hash table. All linkers have made one for years.
    ///
    /// # Safety
    /// The object is loaded at `place`, with this dynamic section.
    unsafe fn of(place: usize, dynamic: &libc::Elf64_Phdr) -> Option<Self> {
        let (mut hashes, mut symbols, mut names) = (0, 0, 0);
        let mut entry = at(place.wrapping_add(dynamic.p_vaddr as usize)).cast::<Dynamic>();
        // SAFETY: the section ends with an entry of tag 0.
        unsafe {
            while (*entry).tag != 0 {
                // Some loaders leave the addresses as they are in the file.
                let value = (*entry).value as usize;
                let address = if value >= place { value } else { place.wrapping_add(value) };
                match (*entry).tag {
                    DT_GNU_HASH => hashes = address,
                    DT_SYMTAB => symbols = address,
                    DT_STRTAB => names = address,
                    _ => {}
                }
                entry = entry.add(1);
            }
        }
        (hashes != 0 && symbols != 0 && names != 0).then(|| Self {
            hashes: at(hashes).cast(),
            symbols: at(symbols).cast(),
            names,
        })
    }

    /// True if a symbol of that name has a place in the object.
    ///
    /// # Safety
    /// The object is loaded.
    unsafe fn defines(&self, name: &CStr) -> bool {
        let hash = name
            .to_bytes()
            .iter()
            .fold(5381_u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()));
        // SAFETY: the table begins with the number of buckets, the first symbol in it, the words of
        // its filter and a shift. Behind them lie the filter, the buckets, and a hash for each
        // symbol, which is odd for the last one of its bucket.
        unsafe {
            let [buckets, first, words] = [0, 1, 2].map(|i| *self.hashes.add(i));
            if buckets == 0 {
                return false;
            }
            let bucket = self.hashes.add(4 + 2 * words as usize);
            let mut symbol = *bucket.add((hash % buckets) as usize);
            if symbol < first {
                return false; // The bucket is empty.
            }
            let of_symbols = bucket.add(buckets as usize);
            loop {
                let other = *of_symbols.add((symbol - first) as usize);
                if other | 1 == hash | 1 && self.is_named(symbol, name) {
                    return true;
                }
                if other & 1 != 0 {
                    return false;
                }
                symbol += 1;
            }
        }
    }

    /// True if the symbol of that number has this name, and a place.
    ///
    /// # Safety
    /// The object is loaded, and has such a symbol.
    unsafe fn is_named(&self, symbol: u32, name: &CStr) -> bool {
        // SAFETY: the caller says that there is such a symbol. Its name ends with a NUL.
        unsafe {
            let symbol = &*self.symbols.add(symbol as usize);
            let its = CStr::from_ptr(at(self.names + symbol.st_name as usize).cast());
            symbol.st_shndx != 0 && its == name
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libc_is_another_object_unless_it_is_in_the_program() {
        let is_shared = !cfg!(target_feature = "crt-static");
        assert_eq!(is_defined_elsewhere(&[c"malloc"], &[]), is_shared);
        assert_eq!(is_defined_elsewhere(&[c"no such name", c"qsort"], &[]), is_shared);
        assert!(!is_defined_elsewhere(&[c"qsort"], &[b"libc.", b"ld-musl", b"ld-linux"]));
        assert!(!is_defined_elsewhere(&[c"no such name"], &[]));
    }
}
