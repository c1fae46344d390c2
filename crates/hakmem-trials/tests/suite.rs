//! All tests in one program: each module is what a program of its own would be otherwise.

mod compat;
mod preload;
mod programs;

#[path = "../../hakmem-core/tests/oracle/listed.rs"]
mod listed;

#[test]
fn every_file_is_run() {
    let manifest = env!("CARGO_MANIFEST_DIR");
    listed::every_file_is_run(manifest, include_str!("suite.rs"), &["suite"]);
}
