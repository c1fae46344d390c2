//! hakmem: a general-purpose memory allocator in pure, stable Rust.
//!
//! Two doors lead to one core: [`Hakmem`] for Rust programs, and module [`c`] for the C library built from it.
//!
//! ```text
//!   segment of 2 MiB = 32 slots of 64 KiB, claimed one word at a time by whoever needs one
//!   page = 1 slot (8 for blocks over 8 KiB), blocks of one class, owned by a heap
//!   heap = a thread's lists; the current page's whole list is held there
//! ```
//!
//! The layers, each using only those before it: `sync`, `counter`, `mutant`, `os`, `size_class`, `policy`, `proto`, `arena`,
//! `page`, `guard`, `parcel`, `usage`, `segment`, `large`, `whale`, `holes`, `sparse`, `remote`, `profile`, `heap`, `stray`, `foreign`,
//! `thread` with `purge`, `front`, and the doors `global`, `c`, `stats`, `options`; `learn` with `learner` and `decisions` is told by
//! `whale`, `heap` and `purge`. Each module opens with its idea and
//! its rules; SAFETY comments cite them.
//!
//! What every process runs and touches, however little it allocates, lies together, so that it costs few page faults: functions in the
//! section `.text.hot.hakmem`, variables in `.data.hakmem`.
#![no_std]

#[cfg(any(loom, shuttle, miri))]
extern crate std;

#[cfg(shuttle)]
#[doc(hidden)]
pub mod model;
#[cfg(not(any(loom, shuttle)))]
mod mutant;
#[cfg(any(loom, shuttle))]
#[doc(hidden)]
pub mod mutant;
#[doc(hidden)]
pub mod proto;
mod sync;

// Miri has no fork, and models have threads of their own.
#[cfg(all(test, not(any(loom, miri, shuttle))))]
#[path = "../tests/oracle/alone.rs"]
mod alone;
// Loom's models leave all but the protocols out: with its atomics there can be no statics.
#[cfg(not(loom))]
mod arena;
#[cfg(not(loom))]
pub mod c;
#[cfg(not(loom))]
mod counter;
#[cfg(not(loom))]
mod decisions;
#[cfg(not(loom))]
mod foreign;
#[cfg(not(loom))]
mod front;
#[cfg(not(loom))]
mod global;
#[cfg(not(loom))]
mod guard;
#[cfg(not(loom))]
mod heap;
#[cfg(not(loom))]
mod holes;
#[cfg(all(test, not(any(loom, miri, shuttle))))]
#[path = "../tests/oracle/in_child.rs"]
mod in_child;
#[cfg(not(loom))]
mod large;
#[cfg(not(loom))]
mod learn;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod learner;
#[cfg(not(loom))]
pub mod options;
#[cfg(not(loom))]
mod os;
#[cfg(not(loom))]
mod page;
#[cfg(not(loom))]
mod parcel;
#[cfg(not(loom))]
mod policy;
#[cfg(not(loom))]
pub mod profile;
#[cfg(not(loom))]
mod purge;
#[cfg(not(loom))]
mod remote;
#[cfg(not(loom))]
mod segment;
#[cfg(not(loom))]
mod size_class;
#[cfg(not(loom))]
mod sparse;
#[cfg(not(loom))]
pub mod stats;
#[cfg(not(loom))]
mod stray;
#[cfg(not(loom))]
mod thread;
#[cfg(not(loom))]
mod usage;
#[cfg(not(loom))]
mod whale;
#[cfg(not(loom))]
pub use global::{Configured, Hakmem};
#[cfg(feature = "fault-injection")]
#[doc(hidden)]
pub use os::{coarse, faults};
