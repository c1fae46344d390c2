//! Linker arguments of the shared library.

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
        // Calls between our own functions never leave the library.
        "-Wl,-Bsymbolic-functions",
        // Segments begin at page boundaries: what is relocated at start-up then lies in one page,
        // not in two.
        "-Wl,-z,separate-loadable-segments",
        // See `hakmem_no_unwinder`.
        "-Wl,--defsym=rust_eh_personality=hakmem_no_unwinder",
        "-Wl,--defsym=_Unwind_Resume=hakmem_no_unwinder",
    ] {
        println!("cargo:rustc-cdylib-link-arg={arg}");
    }
}
