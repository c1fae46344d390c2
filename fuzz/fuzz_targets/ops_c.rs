//! Sequences of operations through the functions that the shared library exports.
#![no_main]

use hakmem_fuzz::{Library, Step, sequence};

/// Where ci/fuzz puts the library.
const BUILT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/target/library/x86_64-unknown-linux-gnu/release/libhakmem.so"
);

libfuzzer_sys::fuzz_target!(|steps: Vec<Step>| sequence::run(Library::get(BUILT), &steps));
