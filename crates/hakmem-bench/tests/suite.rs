//! All tests in one program: each module is what a program of its own would be otherwise.

mod ab;
mod command_line;
mod lean;
mod peak_memory;
mod peers;
mod report;
mod system_calls;

#[path = "../../hakmem-core/tests/oracle/listed.rs"]
mod listed;

#[test]
fn every_file_is_run() {
    let manifest = env!("CARGO_MANIFEST_DIR");
    listed::every_file_is_run(manifest, include_str!("suite.rs"), &["suite"]);
}
