//! One error of the program among operations that are right, in a child process.
#![no_main]

use hakmem_fuzz::misuse::{Input, run};

libfuzzer_sys::fuzz_target!(|input: Input| run(&input));
