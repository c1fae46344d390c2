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
//! The layers, each using only those before it: `sync`, `os`, `size_class`, `policy`, `proto`, `arena`, `page`, `guard`,
//! `parcel`, `usage`, `segment`, `large`, `whale`, `holes`, `sparse`, `remote`, `heap`, `foreign`, `thread` with `purge`, `front`, and the doors `global`,
//! `c`, `stats`, `options`. Each module opens with its idea and its rules; SAFETY comments cite them.
#![no_std]

#[cfg(loom)]
extern crate std;

#[doc(hidden)]
pub mod proto;
mod sync;

/// Declares the modules that loom's models leave out: with loom's atomics there can be no statics.
macro_rules! not_under_loom {
    ($($item:item)*) => { $(#[cfg(not(loom))] $item)* };
}

not_under_loom! {
    mod arena;
    mod foreign;
    mod front;
    mod global;
    mod guard;
    mod heap;
    mod holes;
    mod large;
    mod options;
    mod os;
    mod page;
    mod parcel;
    mod policy;
    mod purge;
    mod remote;
    mod segment;
    mod size_class;
    mod sparse;
    mod thread;
    mod usage;
    mod whale;
    pub mod c;
    pub mod stats;

    pub use global::Hakmem;
    #[cfg(feature = "fault-injection")]
    #[doc(hidden)]
    pub use os::faults;
}
