//! Sequences of operations through the calls under malloc and its family.
#![no_main]

#[path = "../../crates/hakmem-core/tests/oracle/mod.rs"]
mod oracle;
mod sequence;

libfuzzer_sys::fuzz_target!(|ops: Vec<sequence::Op>| sequence::run(oracle::C, &ops));
