//! All tests but those of `conformance`, in one program: each module is what a program of its own
//! would be otherwise.

mod common;

mod abi_c;
mod abi_cpp;
mod at_rest;
mod attacks;
mod bad_input;
mod callgrind;
mod edges;
mod errors;
mod golden;
mod guards;
mod hazards;
mod header;
mod larson;
mod limits;
mod lines;
mod map;
mod probes;
mod processes;
mod profile;
mod rights;
mod rust_errors;
mod rust_programs;
mod seeds;
mod smoke;
mod startup;
mod stats;
mod symbols;
mod tools;

// What the fuzzer and its seeds run.
#[allow(dead_code, reason = "parts are for the fuzzer")]
#[path = "../../../fuzz/src/library.rs"]
mod library;
#[path = "../../../fuzz/src/misuse/mod.rs"]
mod misuse;
#[path = "../../../fuzz/src/ops.rs"]
mod ops;
#[path = "../../hakmem-core/tests/oracle/mod.rs"]
mod oracle;
#[path = "../../../fuzz/src/sequence.rs"]
mod sequence;

#[path = "../../hakmem-core/tests/oracle/listed.rs"]
mod listed;

#[test]
fn every_file_is_run() {
    let manifest = env!("CARGO_MANIFEST_DIR");
    listed::every_file_is_run(manifest, include_str!("suite.rs"), &["suite"]);
}
