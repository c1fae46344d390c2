//! The tests that need no process of their own, or make one (`oracle::alone`), in one program: each
//! takes time to link, and space. `figures` has those that compare the process's totals.
#![cfg_attr(feature = "nightly", feature(allocator_api))]

mod oracle;

mod calls;
mod faults;
mod forked;
mod guarded;
mod huge;
mod idle;
mod layers;
mod learner;
mod learning;
mod limited;
mod limits;
mod map;
mod misuse;
mod moved;
mod options;
mod outside;
mod pages;
mod profile_pace;
mod program_heaps;
mod props;
mod reserved;
mod rules;
mod sends;
mod sleeping;
mod small;
mod stress;

#[path = "oracle/listed.rs"]
mod listed;

#[test]
fn every_file_is_run() {
    let manifest = env!("CARGO_MANIFEST_DIR");
    let programs = concat!(include_str!("suite.rs"), include_str!("figures.rs"));
    let others = ["suite", "figures", "profile", "constructors"];
    listed::every_file_is_run(manifest, programs, &others);
}
