//! include/hakmem.h says what src/api.rs and src/heaps.rs say. `BLESS=1` writes it anew.

use crate::common;

use std::path::Path;

#[test]
fn header_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml");
    let mut made = Vec::new();
    cbindgen::Builder::new()
        .with_src(root.join("src/api.rs"))
        .with_src(root.join("src/heaps.rs"))
        .with_config(config)
        .generate()
        .expect("a header")
        .write(&mut made);
    let made = String::from_utf8(made).expect("UTF-8");
    let path = root.join("include/hakmem.h");
    common::same_as_committed(&path, &made);
}

/// Both languages accept the header, and the functions do what it says.
#[test]
fn header_compiles_and_links() {
    for language in [common::Language::C, common::Language::Cpp] {
        for source in ["own_functions.c", "program_heaps.c"] {
            let program = common::compile(language, source, common::Link::Static);
            common::assert_checks_pass(&mut std::process::Command::new(&program));
        }
    }
}
