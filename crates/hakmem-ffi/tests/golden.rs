//! The fast paths of the built library, counted in its machine code, against tests/golden/*.toml.

use crate::common;

#[path = "golden/path.rs"]
mod path;

use object::{Architecture, Object, ObjectSection, ObjectSymbol};
use path::Path;
use serde::Deserialize;
use std::collections::BTreeMap;

/// At most this much.
#[derive(Deserialize)]
struct Golden {
    instructions: usize,
    stores: Option<usize>,
    branches: Option<usize>,
    /// Ordered accesses. None: there may be none.
    ordered: Option<usize>,
}

/// The code of an exported function.
fn code(file: &object::File, name: &str) -> (u64, Vec<u8>) {
    let symbol = file
        .dynamic_symbols()
        .find(|symbol| symbol.name() == Ok(name) && symbol.is_definition())
        .unwrap_or_else(|| panic!("{name} is not exported"));
    let section = symbol.section_index().expect("a section");
    let section = file.section_by_index(section).expect("a section");
    let code = section
        .data_range(symbol.address(), symbol.size())
        .expect("readable")
        .expect("in its section");
    (symbol.address(), code.to_vec())
}

fn fast_path(file: &object::File, name: &str) -> Path {
    let (address, code) = code(file, name);
    path::shortest(file.architecture(), address, &code)
        .unwrap_or_else(|| panic!("{name} has no path to its end without a call"))
}

#[test]
#[cfg_attr(feature = "hardened", ignore = "the figures are the default build's")]
fn within_the_golden_figures() {
    let bytes = std::fs::read(&common::library().shared).expect("the library can be read");
    let file = object::File::parse(&*bytes).expect("an object file");
    let figures = match file.architecture() {
        Architecture::X86_64 => "tests/golden/x86_64.toml",
        Architecture::Aarch64 => "tests/golden/aarch64.toml",
        other => panic!("no figures for {other:?}"),
    };
    let figures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(figures);
    let text = std::fs::read_to_string(figures).expect("the figures");
    let golden: BTreeMap<String, Golden> = toml::from_str(&text).expect("well-formed figures");
    let mut over = Vec::new();
    for (name, golden) in &golden {
        let path = fast_path(&file, name);
        let ordered = golden.ordered.unwrap_or(0);
        assert!(path.ordered() <= ordered, "{name} has a barrier:\n{path}");
        let (instructions, stores, branches) =
            (path.instructions(), path.stores(), path.branches());
        println!(
            "{name}: {instructions} instructions, {stores} stores, {branches} branches\n{path}"
        );
        if instructions > golden.instructions
            || golden.stores.is_some_and(|most| stores > most)
            || golden.branches.is_some_and(|most| branches > most)
        {
            over.push(format!(
                "{name}: {instructions} instructions, {stores} stores, {branches} branches\n{path}"
            ));
        }
    }
    assert!(
        over.is_empty(),
        "over the golden figures:\n{}",
        over.join("\n")
    );
}

/// No thread-local access through a call, in any section of code.
#[test]
fn no_dynamic_tls() {
    let bytes = std::fs::read(&common::library().shared).expect("the library can be read");
    let file = object::File::parse(&*bytes).expect("an object file");
    let relocations = file.dynamic_relocations().expect("relocations").count();
    assert!(relocations > 0, "no relocations were read");
    let names: Vec<_> = file
        .dynamic_symbols()
        .filter_map(|symbol| symbol.name().ok())
        .collect();
    assert!(
        !names.contains(&"__tls_get_addr"),
        "a call of __tls_get_addr goes through a symbol"
    );
    // The general- and local-dynamic models need a module number, filled in by these relocations.
    for (at, relocation) in file.dynamic_relocations().expect("relocations") {
        let object::RelocationFlags::Elf { r_type } = relocation.flags() else {
            continue;
        };
        let dynamic = [
            object::elf::R_X86_64_DTPMOD64,
            object::elf::R_X86_64_DTPOFF64,
            object::elf::R_X86_64_TLSDESC,
        ];
        let dynamic = match file.architecture() {
            Architecture::Aarch64 => [
                object::elf::R_AARCH64_TLS_DTPMOD,
                object::elf::R_AARCH64_TLS_DTPREL,
                object::elf::R_AARCH64_TLSDESC,
            ],
            _ => dynamic,
        };
        assert!(
            !dynamic.contains(&r_type),
            "a dynamic TLS relocation at {at:#x}"
        );
    }
}
