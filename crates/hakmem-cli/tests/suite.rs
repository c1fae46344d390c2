//! All tests in one program: each module is what a program of its own would be otherwise.

mod common;

mod book;
mod commands;
mod daemons;
mod doctor;
mod errors;
mod grammar;
mod heaps;
mod hostile;
mod learn;
mod live;
mod map;
mod narrow;
mod options;
mod own;
mod pictures;
mod profile;
mod real_library;
mod run;
mod scratch;
mod signals;
mod stat;
mod top;
mod top_terminal;
mod users;

#[path = "../../hakmem-core/tests/oracle/listed.rs"]
mod listed;

#[test]
fn every_file_is_run() {
    let manifest = env!("CARGO_MANIFEST_DIR");
    listed::every_file_is_run(manifest, include_str!("suite.rs"), &["suite"]);
}
