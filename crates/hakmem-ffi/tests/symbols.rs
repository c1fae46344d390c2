//! What the shared library gives to a process and takes from it.

use crate::common;

use object::elf;
use object::read::elf::{Dyn, FileHeader};
use object::{
    Architecture, Endianness, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable,
    RelocationFlags, RelocationTarget,
};
use std::path::Path;

fn bytes() -> Vec<u8> {
    std::fs::read(&common::library().shared).expect("the library can be read")
}

/// The exports are tests/exported-symbols.txt, no more and no less. `BLESS=1` writes it anew.
#[test]
fn exports() {
    let bytes = bytes();
    let file = object::File::parse(&*bytes).expect("an object file");
    let mut names: Vec<_> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.is_global())
        .map(|symbol| symbol.name().expect("UTF-8").to_owned())
        .collect();
    names.sort_unstable();
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exported-symbols.txt");
    common::same_as_committed(&list, &(names.join("\n") + "\n"));
}

/// `__tls_get_addr` would be slow and may itself allocate.
#[test]
fn thread_state_is_initial_exec() {
    let bytes = bytes();
    let file = object::File::parse(&*bytes).expect("an object file");
    let undefined: Vec<_> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_undefined())
        .collect();
    assert!(!undefined.is_empty(), "no symbols were read");
    assert!(
        undefined
            .iter()
            .all(|symbol| symbol.name() != Ok("__tls_get_addr"))
    );
}

/// The C library and its loader, and not, say, the unwinder that Rust's std would bring.
#[test]
fn needs_the_c_library_alone() {
    let needed = dynamic_strings(elf::DT_NEEDED);
    assert!(needed.iter().any(|name| name == "libc.so.6"), "{needed:?}");
    let other: Vec<_> = needed
        .iter()
        .filter(|name| *name != "libc.so.6" && !name.starts_with("ld-linux"))
        .collect();
    assert!(other.is_empty(), "{other:?}");
}

#[test]
fn soname() {
    assert_eq!(dynamic_strings(elf::DT_SONAME), ["libhakmem.so.0"]);
}

/// dlclose must not unmap what holds everybody's blocks.
#[test]
fn cannot_be_unloaded() {
    let flags = dynamic(elf::DT_FLAGS_1);
    assert!(
        flags.iter().any(|flags| flags & elf::DF_1_NODELETE.0 != 0),
        "{flags:x?}"
    );
}

/// The derived operators find the operator that they end in through a table of data. A call of it
/// from anywhere else would be the compiler's, which took two functions with the same code for one.
#[test]
fn no_function_calls_an_operator_that_a_program_may_replace() {
    let bytes = bytes();
    let file = object::read::elf::ElfFile64::<Endianness>::parse(&*bytes).expect("an ELF file");
    let symbols = file.dynamic_symbol_table().expect("dynamic symbols");
    // The places that the loader fills, for relocations of this kind, with operators.
    let places = |wanted: &[elf::RelocationType]| -> Vec<_> {
        let all = file.dynamic_relocations().expect("dynamic relocations");
        all.filter_map(
            |(place, relocation)| match (relocation.flags(), relocation.target()) {
                (RelocationFlags::Elf { r_type }, RelocationTarget::Symbol(index)) => {
                    let symbol = symbols.symbol_by_index(index).expect("a symbol");
                    let is_operator = symbol.name().expect("UTF-8").starts_with("_Z");
                    (wanted.contains(&r_type) && is_operator).then_some(place)
                }
                _ => None,
            },
        )
        .collect()
    };
    let table = places(&[elf::R_X86_64_GLOB_DAT, elf::R_AARCH64_GLOB_DAT]);
    // The hardened build asks whether the program has any form.
    let forms = if cfg!(feature = "hardened") { 20 } else { 8 };
    assert_eq!(table.len(), forms);
    let called = places(&[elf::R_X86_64_JUMP_SLOT, elf::R_AARCH64_JUMP_SLOT]);
    assert!(called.is_empty(), "{called:x?}");
    if file.architecture() != Architecture::X86_64 {
        return;
    }
    // There the compiler's calls go through the table, too.
    let text = file.section_by_name(".text").expect("code");
    let code = text.data().expect("readable");
    let jumps = (0..code.len() - 6).filter_map(|at| {
        // A jump or a call through a word whose distance from the next instruction follows.
        let [0xff, 0x25 | 0x15, distance @ ..] = &code[at..at + 6] else {
            return None;
        };
        let distance = i32::from_le_bytes(distance.try_into().expect("four bytes"));
        let from = text.address() + at as u64;
        let to = (from + 6).wrapping_add_signed(distance.into());
        table.contains(&to).then_some(from)
    });
    let jumps: Vec<_> = jumps.collect();
    assert!(cfg!(feature = "hardened") || !jumps.is_empty());
    for jump in jumps {
        let inside = file.dynamic_symbols().any(|symbol| {
            let has = symbol.address()..symbol.address() + symbol.size();
            has.contains(&jump) && symbol.name().is_ok_and(|name| name.starts_with("_Z"))
        });
        assert!(inside, "a jump at {jump:#x}");
    }
}

fn dynamic(tag: elf::DynamicTag) -> Vec<u64> {
    entries(|entry_tag, value, _| (entry_tag == tag).then_some(value))
}

fn dynamic_strings(tag: elf::DynamicTag) -> Vec<String> {
    entries(|entry_tag, value, strings| {
        let string = strings.get(u32::try_from(value).ok()?).ok()?;
        (entry_tag == tag).then(|| String::from_utf8_lossy(string).into_owned())
    })
}

fn entries<T>(select: impl Fn(elf::DynamicTag, u64, object::StringTable) -> Option<T>) -> Vec<T> {
    let bytes = bytes();
    let header = elf::FileHeader64::<Endianness>::parse(&*bytes).expect("a 64-bit ELF file");
    let endian = header.endian().expect("an endianness");
    let sections = header.sections(endian, &*bytes).expect("sections");
    let (dynamic, link) = sections
        .dynamic(endian, &*bytes)
        .expect("readable")
        .expect("a dynamic section");
    let strings = sections
        .strings(endian, &*bytes, link)
        .expect("its strings");
    dynamic
        .iter()
        .filter_map(|entry| select(entry.d_tag(endian), entry.d_val(endian), strings))
        .collect()
}
