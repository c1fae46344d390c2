//! Sequences of operations through `GlobalAlloc`.
#![no_main]

#[path = "../../crates/hakmem-core/tests/oracle/mod.rs"]
mod oracle;
mod sequence;

libfuzzer_sys::fuzz_target!(|ops: Vec<sequence::Op>| sequence::run(oracle::Rust, &ops));
