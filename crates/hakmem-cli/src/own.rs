//! The allocator that a program brings along, read from its file before it runs.
//!
//! A program may have hakmem inside, as a Rust program's global allocator or from `libhakmem.a`.
//! Its note says so: then that one serves the program, and a preloaded copy would be a second one
//! that sees next to nothing. Other allocators are known by functions that only they define. A file
//! without symbols hides them, and nothing is said.

use crate::build::Build;
use crate::{checked, view};
use object::elf::{self, FileHeader64, Sym64};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{LittleEndian as LE, ReadRef};
use std::ffi::CStr;
use std::path::Path;

/// Larger tables of symbols, and segments of notes, are not read.
const MOST_SYMBOLS: u64 = 256 << 20;
const MOST_NOTES: u64 = 1 << 16;
const SEGMENTS: usize = 64;
/// The type of the note: see `view::note`.
const NOTE: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// hakmem, as a Rust program's global allocator or by its malloc. Not `certain`: the program
    /// calls the C library's malloc, too, maybe for all that it has.
    Hakmem { certain: bool },
    /// Another one, in words that follow "uses".
    Other(&'static str),
}

/// What the names of functions begin with by which allocators are known, and whose they are.
/// Linkers leave out functions that nobody calls, so that of an allocator there may be only some.
const KNOWN: [(&str, &str); 10] = [
    ("mi_malloc", "mimalloc of its own"),
    ("_rjem_malloc", "jemalloc of its own"),
    ("_rjem_calloc", "jemalloc of its own"),
    ("je_malloc", "jemalloc of its own"),
    (MALLCTL, "jemalloc of its own"),
    ("tc_malloc", "tcmalloc of its own"),
    ("sn_rust_alloc", "snmalloc of its own"),
    ("rpmalloc", "rpmalloc of its own"),
    ("rpaligned_alloc", "rpmalloc of its own"),
    (MALLOC, "a malloc of its own"),
];
const MALLOC: &str = "malloc";
/// A program on jemalloc as a library may have helpers whose names begin so: redis has
/// `mallctl_int`.
const MALLCTL: &str = "mallctl";

/// The same for functions of a library. A library's `malloc` is not among them: one that is
/// preloaded comes before it, and before those that the library defines for its own use alone.
const CALLED: [(&str, &str); 6] = [
    ("mi_malloc", "mimalloc of a library"),
    ("mi_new", "mimalloc of a library"),
    ("je_malloc", "jemalloc of a library"),
    ("mallocx", "jemalloc of a library"),
    ("tc_malloc", "tcmalloc of a library"),
    ("rpmalloc", "rpmalloc of a library"),
];

/// Functions whose names begin so come from `libhakmem.a`, and with them its malloc. …
const HAKMEMS: &[u8] = b"hakmem_";
/// … A linker may leave these out, or their names. A dynamic program then still exports this one,
/// which no other allocator has.
const EXPORTED: &[u8] = b"__libc_reallocarray";

/// CPython has mimalloc in it and allocates, unless it is told otherwise, by malloc.
const CPYTHON: &str = "PyObject_Malloc";
/// A Rust program without a global allocator of its own has this function, which calls malloc.
const RUST_DEFAULT: &[u8] = b"___rdl_alloc";

/// What the file says; `None` also if it cannot be read.
pub fn of(path: &Path) -> Option<Own> {
    let cache = ReadCache::new(checked::open(path).ok()?);
    let header = FileHeader64::<LE>::parse(&cache).ok()?;
    let mut found = Found {
        hakmem: with_note(header, &cache, |_| ()).is_some(),
        ..Found::default()
    };
    for table in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
        let _ = each_symbol(header, &cache, table, &mut |name, symbol| {
            found.add(name, symbol);
            let exported = table == elf::SHT_DYNSYM && symbol == Symbol::Defined;
            found.hakmems |= exported && name == EXPORTED;
        });
    }
    found.own()
}

/// Whether the file is an executable or a library with hakmem in it.
pub fn is_hakmem(path: &Path) -> bool {
    in_file(path, |_| ()).is_some()
}

/// The build of the hakmem in the file, if its note says that.
pub fn build(path: &Path) -> Option<Build> {
    in_file(path, view::build_in_file)?
}

/// What `read` makes of the description of the note in the file.
fn in_file<T>(path: &Path, read: impl Fn(&[u8]) -> T) -> Option<T> {
    let cache = ReadCache::new(checked::open(path).ok()?);
    let header = FileHeader64::<LE>::parse(&cache).ok()?;
    with_note(header, &cache, read)
}

fn with_note<'a, R: ReadRef<'a>, T>(
    header: &FileHeader64<LE>,
    data: R,
    read: impl Fn(&[u8]) -> T,
) -> Option<T> {
    // More segments than fit in the header are counted elsewhere, by a number that may be any.
    if header.e_phnum(LE) == elf::PN_XNUM {
        return None;
    }
    let segments = header.program_headers(LE, data).unwrap_or_default();
    let small = |s: &&elf::ProgramHeader64<LE>| s.p_filesz(LE) <= MOST_NOTES;
    let mut small = segments.iter().take(SEGMENTS).filter(small);
    small.find_map(|segment| {
        let mut notes = segment.notes(LE, data).ok()??;
        std::iter::from_fn(|| notes.next().ok().flatten())
            .find(|note| note.name() == b"hakmem" && note.n_type(LE).0 == NOTE)
            .map(|note| read(note.desc()))
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Symbol {
    /// A function for one source file alone.
    Local,
    /// A function for others, too.
    Defined,
    /// Of another file.
    Imported,
}

/// Calls `each` with the names of functions.
fn each_symbol<'a, R: ReadRef<'a>>(
    header: &FileHeader64<LE>,
    data: R,
    table: elf::SectionType,
    each: &mut dyn FnMut(&'a [u8], Symbol),
) -> Option<()> {
    // Of more sections than fit in the header the number may be any.
    if header.e_shnum(LE) == 0 {
        return None;
    }
    let sections = header.section_headers(LE, data).ok()?;
    let symbols = sections.iter().find(|s| s.sh_type(LE) == table)?;
    let strings = sections.get(symbols.sh_link(LE) as usize)?;
    if symbols.sh_size(LE).max(strings.sh_size(LE)) > MOST_SYMBOLS {
        return None;
    }
    let names = strings.data(LE, data).ok()?;
    let symbols: &[Sym64<LE>] = symbols.data_as_array(LE, data).ok()?;
    for symbol in symbols {
        let kind = match symbol.is_undefined(LE) {
            true => Symbol::Imported,
            false if symbol.st_type() != elf::STT_FUNC => continue,
            false if symbol.st_bind() == elf::STB_LOCAL => Symbol::Local,
            false => Symbol::Defined,
        };
        let name = names.get(symbol.st_name(LE) as usize..)?;
        each(CStr::from_bytes_until_nul(name).ok()?.to_bytes(), kind);
    }
    Some(())
}

/// What is known of a file.
#[derive(Default)]
struct Found {
    hakmem: bool,
    /// The first of `KNOWN` that is there.
    known: Option<usize>,
    /// The first of `CALLED` that it takes from a library.
    called: Option<usize>,
    malloc: bool,
    /// It has functions of `libhakmem.a`.
    hakmems: bool,
    calls_malloc: bool,
    cpython: bool,
    rust_default: bool,
}

impl Found {
    fn add(&mut self, name: &[u8], symbol: Symbol) {
        self.rust_default |= name.ends_with(RUST_DEFAULT);
        // With its version behind it, in a table for debuggers.
        self.calls_malloc |= symbol == Symbol::Imported
            && name.split(|&b| b == b'@').next() == Some(MALLOC.as_bytes());
        if symbol == Symbol::Imported {
            let is = |&(called, _): &(&str, &str)| name.starts_with(called.as_bytes());
            let number = CALLED.iter().position(is);
            self.called = self.called.into_iter().chain(number).min();
        }
        if symbol != Symbol::Defined {
            return;
        }
        let is = |&(known, _): &(&str, &str)| match known {
            MALLOC | MALLCTL => name == known.as_bytes(),
            _ => name.starts_with(known.as_bytes()),
        };
        let number = KNOWN.iter().position(is);
        self.known = self.known.into_iter().chain(number).min();
        self.malloc |= name == MALLOC.as_bytes();
        self.hakmems |= name.starts_with(HAKMEMS);
        self.cpython |= name == CPYTHON.as_bytes();
    }

    fn own(&self) -> Option<Own> {
        // It may have the functions of an allocator, or the note, and not allocate by it.
        if (self.rust_default || self.cpython) && !self.malloc {
            return None;
        }
        let certain = !self.calls_malloc;
        let hakmem = || self.hakmem.then_some(Own::Hakmem { certain });
        let called = || self.called.map(|n| Own::Other(CALLED[n].1));
        let is_ours = |name| name == MALLOC && self.hakmem && self.hakmems;
        let known = self.known.filter(|&n| !is_ours(KNOWN[n].0));
        let known = known.map(|n| Own::Other(KNOWN[n].1));
        known.or_else(hakmem).or_else(called)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_names(hakmem: bool, names: &[&str]) -> Option<Own> {
        let mut found = Found {
            hakmem,
            ..Found::default()
        };
        for name in names {
            found.add(name.as_bytes(), Symbol::Defined);
        }
        found.own()
    }

    #[test]
    fn allocators_are_known_by_their_functions() {
        let other = |name| Some(Own::Other(name));
        let of = |names: &[&str]| of_names(false, names);
        assert_eq!(of(&["main", "malloc_trim", "xmalloc"]), None);
        assert_eq!(of(&["malloc"]), other("a malloc of its own"));
        assert_eq!(of(&["malloc", "mallctl"]), other("jemalloc of its own"));
        assert_eq!(of(&["mallctl_int", "mallctl_string"]), None);
        assert_eq!(of(&["mi_malloc_aligned"]), other("mimalloc of its own"));
        assert_eq!(of(&["mi_malloc", CPYTHON]), None);
        let certain = Some(Own::Hakmem { certain: true });
        assert_eq!(of_names(true, &["main"]), certain);
        assert_eq!(of_names(true, &["mi_malloc"]), other("mimalloc of its own"));
        assert_eq!(of_names(true, &["_R7___rustc11___rdl_alloc"]), None);
    }

    #[test]
    fn functions_of_a_library_are_known_by_their_own_names() {
        for (name, own) in [
            ("malloc", None),
            ("mallctl", None),
            ("mi_malloc", Some(Own::Other("mimalloc of a library"))),
            ("mallocx", Some(Own::Other("jemalloc of a library"))),
        ] {
            let mut found = Found::default();
            found.add(name.as_bytes(), Symbol::Imported);
            assert_eq!(found.own(), own, "{name}");
        }
    }

    #[test]
    fn a_function_for_one_source_file_alone_serves_nobody_else() {
        let mut found = Found::default();
        found.add(b"malloc", Symbol::Local);
        assert_eq!(found.own(), None);
    }

    /// `libhakmem.a` defines malloc, and more. A program with an allocator's own functions besides
    /// may allocate by them.
    #[test]
    fn malloc_of_the_static_library_is_hakmems() {
        let certain = Some(Own::Hakmem { certain: true });
        let other = |name| Some(Own::Other(name));
        assert_eq!(of_names(true, &["malloc", "hakmem_version"]), certain);
        assert_eq!(
            of_names(true, &[CPYTHON, "malloc", "hakmem_stats"]),
            certain
        );
        assert_eq!(
            of_names(false, &["malloc", "hakmem_stats"]),
            other("a malloc of its own")
        );
        assert_eq!(of_names(true, &["malloc"]), other("a malloc of its own"));
        let names = ["malloc", "hakmem_stats", "mi_malloc"];
        assert_eq!(of_names(true, &names), other("mimalloc of its own"));
    }

    #[test]
    fn a_program_that_calls_malloc_may_have_all_from_there() {
        let mut found = Found {
            hakmem: true,
            ..Found::default()
        };
        found.add(b"malloc@GLIBC_2.2.5", Symbol::Imported);
        assert_eq!(found.own(), Some(Own::Hakmem { certain: false }));
    }

    #[test]
    fn a_file_that_is_no_program_has_none() {
        assert_eq!(of(Path::new("Cargo.toml")), None);
        assert_eq!(of(Path::new("/dev/zero")), None);
        assert!(!is_hakmem(Path::new("Cargo.toml")));
    }
}
