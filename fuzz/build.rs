//! The library under test is instrumented as the target is, and finds the fuzzer's functions in it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bin=ops_c=-rdynamic");
}
