//! Processes with a forged note, forged heaps and arenas, before the reader of `hakmem top` and
//! `hakmem map`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    hakmem_cli::fuzz::look(input);
});
