//! Benchmarks of hakmem and its peers.
//!
//! The workloads call an allocator through `GlobalAlloc` directly, so that one process can measure any of them while its
//! own global allocator stays the system's. `hakmem-bench compare` runs each measurement in a fresh process, and
//! `cargo bench` runs parts of the workloads under criterion. Whole programs are run by `hakmem-trials`.

pub mod ab;
pub mod allocators;
pub mod best;
pub mod child;
pub mod compare;
pub mod executables;
pub mod growth;
pub mod heap;
pub mod html;
pub mod machine;
pub mod measure;
pub mod meter;
pub mod options;
pub mod packaged;
pub mod paths;
pub mod peers;
pub mod probes;
pub mod process;
pub mod progress;
pub mod record;
pub mod report;
pub mod rng;
#[cfg(feature = "rpmalloc")]
pub mod rpmalloc;
pub mod run_one;
pub mod selection;
pub mod side_by_side;
pub mod stats;
pub mod storage;
pub mod targets;
pub mod tracer;
pub mod workloads;
