//! Sequences of operations through `GlobalAlloc`, with the knobs where the input wants them.
#![no_main]

use hakmem_fuzz::{Knobs, Rust, Step, sequence};

libfuzzer_sys::fuzz_target!(|input: (Knobs, Vec<Step>)| {
    let (knobs, steps) = input;
    knobs.set();
    sequence::run(Rust, &steps);
});
