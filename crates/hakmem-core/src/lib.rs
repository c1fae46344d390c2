//! A memory allocator in stable Rust, with statistics, maps of the heap and a heap profile.
//!
//! # Quick start
//!
//! Programs take this crate by the name `hakmem`, which has all of it. Under `[dependencies]` in
//! `Cargo.toml`:
//!
//! ```toml
//! hakmem = { git = "https://github.com/hakmem/hakmem" }
//! ```
//!
//! In the program:
//!
//! ```
//! # extern crate hakmem_core as hakmem;
//! use hakmem::Hakmem;
//!
//! #[global_allocator]
//! static ALLOCATOR: Hakmem = Hakmem::new();
//! # fn main() { assert_eq!(vec![1, 2, 3].len(), 3); }
//! ```
//!
//! # Features
//!
//! - [Options](#options) in the source, in the environment, and while the program runs.
//! - [Statistics](#statistics) of the process, of each size class and of each thread heap.
//! - [Heaps] that the program makes, limits, and drops as a whole, and scopes in which they serve
//!   the ordinary allocations of a thread.
//! - A [heap profile](#the-heap-profile), live and in all, for flame graphs and pprof.
//! - Reports and maps at exit or on a signal, as the environment asks, without a change of the
//!   program. The command `hakmem` reads a running program from outside.
//! - Many errors of the program end it with a line that names the pointer.
//! - No `std`: the crate needs the system's C library alone.
//!
//! # Platforms
//!
//! hakmem serves programs on Linux on x86-64, with Rust 1.88 or later. Linux on aarch64 was tested
//! under an emulator only. On other targets the same program compiles: [`Hakmem`] hands every call
//! to the system's allocator there. [`is_active`] says which it is.
//! [All targets](https://github.com/hakmem/hakmem/blob/main/docs/platforms.md).
//!
//! # Limits
//!
//! - A block that is just over 1 MiB takes 2 MiB of address space. A tight limit of address space
//!   (`ulimit -v`) holds fewer blocks than with glibc's malloc.
//! - The allocator has no thread of its own in a Rust program that has but one thread. Such a
//!   program gives memory back only while it allocates or frees.
//! - Without the feature `hardened`, who can write beyond a block can change the lists of free
//!   blocks, and a use after free or a write beyond a block is not seen. With it, most are, and
//!   programs that allocate much take longer.
//!
//! # Options
//!
//! The environment sets them for one run, `HAKMEM_DECAY_MS=1000 prog`; the program sets them when
//! it starts, and while it runs. Module [`options`] has all of them.
//!
//! ```
//! # extern crate hakmem_core as hakmem;
//! use hakmem::{Configured, Hakmem, options, options::Options};
//!
//! // Free memory stays for a second before it goes back to the system.
//! #[global_allocator]
//! static ALLOCATOR: Configured = Hakmem::with(Options { decay_ms: 1000, ..Options::DEFAULT });
//!
//! # fn main() -> Result<(), options::Error> {
//! options::set("DECAY_MS", "100")?;
//! assert_eq!(options::get("DECAY_MS").unwrap().to_string(), "100");
//! # Ok(()) }
//! ```
//!
//! # Statistics
//!
//! Module [`stats`] has the figures as values; the fast paths count nothing for them. Module
//! `report` writes them as text, a map of the heap too. With the feature `serde` the values are
//! `Serialize`. `HAKMEM_STATS=1 prog` writes the text to standard error at exit without a change of
//! the program.
//!
//! ```
//! # extern crate hakmem_core as hakmem;
//! use hakmem::Hakmem;
//! use hakmem::stats::Snapshot;
//!
//! #[global_allocator]
//! static ALLOCATOR: Hakmem = Hakmem::new();
//!
//! # fn main() {
//! let before = Snapshot::take().process();
//! let blocks: Vec<Box<u64>> = (0..1000).map(Box::new).collect();
//! let now = Snapshot::take().process();
//! assert!(now.allocations - before.allocations > 1000);
//! println!("{} bytes are live, {} were at most", now.live_bytes, now.peak_live_bytes_upper_bound);
//! # drop(blocks); }
//! ```
//!
//! # The heap profile
//!
//! Module [`profile`] samples allocations: which code allocated what is live, and all that was
//! allocated. `HAKMEM_PROFILE=FILE prog` does so without a change of the program. `hakmem profile
//! --file FILE` and pprof read the file.
//!
//! ```
//! # extern crate hakmem_core as hakmem;
//! use hakmem::Hakmem;
//! use hakmem::profile::{self, Event};
//!
//! #[global_allocator]
//! static ALLOCATOR: Hakmem = Hakmem::new();
//!
//! # fn main() {
//! assert!(profile::start(profile::DEFAULT_INTERVAL));
//! let data = vec![0u8; 100 << 20];
//! let mut file = Vec::new(); // A std::fs::File, mostly.
//! profile::dump(Event::Call, |text| file.extend_from_slice(text)).expect("a profile");
//! assert!(file.starts_with(b"heap profile: 1: "));
//! # drop(data); }
//! ```
//!
//! # Cargo features
//!
//! - `reports`, on by default: the module `report`, and `HAKMEM_STATS`, `HAKMEM_MAP` and
//!   `HAKMEM_PROFILE` in the environment.
//! - `serde`: `Serialize` for [`stats::Snapshot`] and what is in it, under the names of the JSON
//!   report.
//! - `allocator-api2`: `&Heap` is an allocator for collections that take one.
//! - `nightly`: the same for the standard library's, on the nightly toolchain alone.
//! - `hardened`: finds more errors of the program, and takes more time.
//! - The others are for this project's tests and measurements.
//!
//! [Heaps]: heaps
//!
//! # Links
//!
//! - [Programs](https://github.com/hakmem/hakmem/tree/main/crates/hakmem-examples/examples) that
//!   show all of this.
//! - [Every option](https://github.com/hakmem/hakmem/blob/main/docs/options.md),
//!   [every figure](https://github.com/hakmem/hakmem/blob/main/docs/observability.md), and
//!   [the words](https://github.com/hakmem/hakmem/blob/main/docs/glossary.md).
//! - [How it works, and all known
//!   limits](https://github.com/hakmem/hakmem/blob/main/docs/design.md).

// One core has two front ends: `Hakmem` for Rust programs, and module `c` for the C library built
// from it.
//
//   segment of 2 MiB = 32 slots of 64 KiB, claimed one word at a time by whoever needs one
//   page = 1 slot (8 for blocks over 8 KiB), blocks of one class, owned by a heap
//   heap = a thread's lists; the current page's whole list is held there
//
// The folders of the source are layers; `src/README.md` has their order. Each module opens with its
// idea and its rules; SAFETY comments cite them.
//
// What every process runs and touches, however little it allocates, lies together, so that it costs
// few page faults: functions in the section `.text.hot.hakmem`, variables in `.data.hakmem`.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(feature = "nightly", feature(allocator_api))]
#![deny(missing_docs)]
// Loom's models have the protocols alone (`tests/loom`): with its atomics there can be no statics.
#![cfg(not(loom))]
// `build.rs` sets `ported` where there is a port. Elsewhere the layers that have no such condition
// here are compiled, and `fallback`. They have what only the others use.
#![cfg_attr(
    not(ported),
    allow(dead_code, unused_imports, unused_macros, reason = "for ported targets alone")
)]

#[cfg(any(miri, all(ported, shuttle)))]
extern crate std;

#[cfg(ported)]
mod api;
#[cfg(ported)]
mod backend;
mod base;
#[cfg(not(ported))]
mod fallback;
#[cfg(ported)]
mod guard;
#[cfg(ported)]
mod harden;
#[cfg(ported)]
mod heap;
#[cfg(ported)]
mod large;
#[cfg(all(ported, shuttle))]
#[doc(hidden)]
pub mod model;
mod observe;
#[cfg(ported)]
mod os;
mod policy;
#[cfg(ported)]
pub mod profile;
#[cfg(ported)]
mod program;
#[cfg(ported)]
#[doc(hidden)]
pub mod proto;
#[cfg(ported)]
mod purge;
#[cfg(ported)]
mod start;
#[cfg(ported)]
mod thread;
mod types;
#[cfg(ported)]
mod unwind;

// Miri has no fork, and models have threads of their own.
#[cfg(all(ported, test, not(any(miri, shuttle))))]
mod testing;

#[cfg(ported)]
#[doc(hidden)]
pub use api::c;
#[cfg(ported)]
pub use api::c::{fit_address_limit, thread_idle};
#[cfg(ported)]
pub use api::heaps;
#[cfg(ported)]
pub use api::memory::{purge_all, set_limit_callback};
#[cfg(all(ported, feature = "ledger"))]
#[doc(hidden)]
pub use base::sync::ledger;
#[cfg(not(ported))]
use fallback::os;
#[cfg(all(not(ported), feature = "reports"))]
pub use fallback::report;
#[cfg(not(ported))]
pub use fallback::{fit_address_limit, heaps, profile, purge_all, set_limit_callback, thread_idle};
pub use heaps::Heap;
#[cfg(all(ported, feature = "reports", not(any(miri, shuttle))))]
pub use observe::report;
pub use observe::stats;
#[cfg(all(ported, feature = "fault-injection"))]
#[doc(hidden)]
pub use os::{coarse, faults};
#[doc(hidden)]
pub use policy::learner;
pub use policy::options;
pub use types::{Configured, Hakmem, LimitCallback};

/// True if hakmem itself serves the program. False on a target without a port: there
/// [`Hakmem`] hands every call to the system's allocator, options have no effect, figures are zero,
/// and there is no profile. O(1).
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::Hakmem;
///
/// #[global_allocator]
/// static ALLOCATOR: Hakmem = Hakmem::new();
///
/// # fn main() {
/// let blocks = vec![1; 1000];
/// let live = hakmem::stats::process().live_bytes;
/// if hakmem::is_active() {
///     assert!(live >= 4000);
/// } else {
///     assert_eq!(live, 0, "nobody counts");
/// }
/// # drop(blocks); }
/// ```
pub const fn is_active() -> bool {
    cfg!(ported)
}
