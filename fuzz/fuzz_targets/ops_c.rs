//! Sequences of operations through the functions that the shared library exports.
#![no_main]

use hakmem_fuzz::{Library, Step, sequence};

libfuzzer_sys::fuzz_target!(|steps: Vec<Step>| sequence::run(Library::get(), &steps));
