//! Benchmarks of hakmem and its peers.
//!
//! The workloads call an allocator through `GlobalAlloc` directly, so that one process can measure
//! any of them while its own global allocator stays the system's. `hakmem-bench compare` runs each
//! measurement in a fresh process, and `cargo bench` runs parts of the workloads under criterion.
//! Whole programs are run by `hakmem-trials`.
//!
//! The modules in their order; each uses only those before it:
//!
//! 1. Tools: [`heap`], [`meter`], [`rng`], [`stats`], [`storage`], [`ticks`], [`paths`],
//!    [`options`], [`executables`], [`packaged`], [`progress`], [`host`], [`child`], [`tracer`],
//!    [`command`].
//! 2. Allocators and the machine: [`peers`], `rpmalloc`, `rusty_alloc`, [`allocators`],
//!    [`machine`].
//! 3. What runs give: [`sample`], [`report`], [`pairs`], [`record`].
//! 4. What is measured: [`workloads`]. [`run_one`] runs one of them in its process, and [`measure`]
//!    starts such a process.
//! 5. [`probes`], [`growth`]. [`process`] is the whole of a measured process.
//! 6. What is printed and judged: [`best`], [`side_by_side`], [`targets`].
//! 7. The commands: [`ab`], [`selection`], [`compare`], and [`html`] for the page.

pub mod ab;
pub mod allocators;
pub mod best;
pub mod child;
pub mod command;
pub mod compare;
pub mod executables;
pub mod growth;
pub mod heap;
pub mod host;
pub mod html;
pub mod machine;
pub mod measure;
pub mod meter;
pub mod options;
pub mod packaged;
pub mod pairs;
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
#[cfg(feature = "rusty_alloc")]
pub mod rusty_alloc;
pub mod sample;
pub mod selection;
pub mod side_by_side;
pub mod stats;
pub mod storage;
pub mod targets;
pub mod ticks;
pub mod tracer;
pub mod workloads;
