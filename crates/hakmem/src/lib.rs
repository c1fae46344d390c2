//! A fast, lean memory allocator in pure, stable Rust. It serves a Rust program as its global
//! allocator, and tells what it did: statistics, maps of the heap, a heap profile.
//!
//! # Two lines
//!
//! ```
//! use hakmem::Hakmem;
//!
//! #[global_allocator]
//! static ALLOCATOR: Hakmem = Hakmem::new();
//!
//! # fn main() {
//! let words: Vec<String> = ["a", "bc"].map(String::from).to_vec();
//! assert!(hakmem::stats::process().live_bytes >= 3 || !hakmem::is_active());
//! # drop(words); }
//! ```
//!
//! In `Cargo.toml`, until the crate is in the registry:
//!
//! ```toml
//! [dependencies]
//! hakmem = { git = "https://github.com/hakmem/hakmem" }
//! ```
//!
//! # What is where
//!
//! | | |
//! |---|---|
//! | [`Hakmem`] | the allocator with default options |
//! | [`Configured`], [`Hakmem::with`] | the allocator with the program's own options |
//! | [`options`] | all options: in the source, in the environment, while the program runs |
//! | [`stats`] | figures of the process, of each size class and each thread's heap, as values |
#![cfg_attr(
    feature = "reports",
    doc = "| [`report`] | the same as text, JSON and CSV, and maps |"
)]
//! | [`profile`] | the heap profile: which code allocated what is live, and all that was allocated |
//! | [`thread_idle`] | for a thread that is about to sleep: it gives up its free memory |
//! | [`Heap`], [`heaps`] | heaps of the program: with a name and a limit, given back as a whole |
//! | [`purge_all`] | gives back what all threads keep |
//! | [`set_limit_callback`] | a function that may free memory before an allocation fails |
//! | [`is_active`] | whether hakmem serves the program on this target |
//!
//! The environment changes a program without a build: `HAKMEM_STATS=1 prog` writes the figures at
//! exit, `HAKMEM_PROFILE=FILE prog` the heap profile. The command
//! [`hakmem`](https://github.com/hakmem/hakmem#observe-it) watches a running program.
//!
//! # Features
//!
//! | | | |
//! |---|---|---|
//! | `reports` | on by default | the module `report`, and `HAKMEM_STATS`, `HAKMEM_MAP` and `HAKMEM_PROFILE` |
//! | `serde` | off | `Serialize` for [`stats::Snapshot`] and what is in it |
//! | `allocator-api2`, `nightly` | off | `Allocator` for [`Heap`]: of the crate allocator-api2, or the standard library's |
//! | `hardened` | off | more errors of the program end it at once; [what that costs](https://github.com/hakmem/hakmem/blob/main/docs/security.md) |
//!
//! A library should not choose the allocator of the programs that use it. If it only reads figures,
//! it takes this crate with `default-features = false`.
//!
//! # With other tools
//!
//! Wrappers such as `stats_alloc`, Miri, the sanitizers, valgrind and heaptrack:
//! [what happens with each](https://github.com/hakmem/hakmem/blob/main/docs/tools.md).
//!
//! # Platforms
//!
//! Linux on x86-64 and aarch64, with Rust 1.88 or later. On other targets the same program
//! compiles, and the system's allocator serves it: [all
//! targets](https://github.com/hakmem/hakmem/blob/main/docs/platforms.md), and [when not to use
//! hakmem](https://github.com/hakmem/hakmem#when-not-to-use-it).
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
// With loom's atomics there are models alone, and no allocator.
#![cfg(not(loom))]

// By name: `*` would show on this crate's pages what hakmem-core hides. `ci/doc` finds what is
// missing.
#[doc(inline)]
pub use hakmem_core::{
    Configured, Hakmem, Heap, LimitCallback, fit_address_limit, heaps, is_active, options, profile,
    purge_all, set_limit_callback, stats, thread_idle,
};
// A model writes no reports.
#[cfg(all(feature = "reports", not(shuttle)))]
#[doc(inline)]
pub use hakmem_core::report;

// The page on heaps: what it shows runs.
#[cfg(all(doctest, feature = "allocator-api2"))]
#[doc = include_str!("../../../docs/heaps.md")]
mod page_on_heaps {}
