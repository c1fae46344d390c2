//! Linker arguments of the shared library.

use std::path::Path;

/// The C++ operators, which a program may replace. The first eight are those that others end in:
/// see `operators::derived`.
const OPERATORS: [&str; 20] = [
    "_Znwm",
    "_Znam",
    "_ZdlPv",
    "_ZdaPv",
    "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t",
    "_ZdlPvSt11align_val_t",
    "_ZdaPvSt11align_val_t",
    "_ZnwmRKSt9nothrow_t",
    "_ZnamRKSt9nothrow_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
    "_ZdlPvm",
    "_ZdaPvm",
    "_ZdlPvmSt11align_val_t",
    "_ZdaPvmSt11align_val_t",
    "_ZdlPvRKSt9nothrow_t",
    "_ZdaPvRKSt9nothrow_t",
    "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    "_ZdaPvSt11align_val_tRKSt9nothrow_t",
];

/// Functions that others of the C library call by their names: see `bound`.
const BOUND: [&str; 2] = ["realloc", "free"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    for arg in [
        // The number is that of the interface: see docs/c-abi.md.
        "-Wl,-soname,libhakmem.so.0",
        // Blocks, thread exits and fork handlers point into the library for as long as the process
        // lives.
        "-Wl,-z,nodelete",
        // Segments begin at page boundaries: what is relocated at start-up then lies in one page,
        // not in two.
        "-Wl,-z,separate-loadable-segments",
        // See `hakmem_no_unwinder`.
        "-Wl,--defsym=rust_eh_personality=hakmem_no_unwinder",
        "-Wl,--defsym=_Unwind_Resume=hakmem_no_unwinder",
    ] {
        println!("cargo:rustc-cdylib-link-arg={arg}");
    }
    // Calls between our own functions never leave the library, but for those of functions that a
    // program may replace: see `operators::derived` and `bound`.
    let list = Path::new(&std::env::var_os("OUT_DIR").unwrap()).join("replaceable");
    let names = OPERATORS
        .iter()
        .chain(&BOUND)
        .map(|name| format!("{name};"));
    let names: String = names.collect();
    std::fs::write(&list, format!("{{ {names} }};\n")).unwrap();
    println!(
        "cargo:rustc-cdylib-link-arg=-Wl,--dynamic-list={}",
        list.display()
    );
    for name in BOUND {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--defsym=hakmem_own_{name}={name}");
    }
    for name in OPERATORS {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--defsym=hakmem_own{name}={name}");
    }
}
