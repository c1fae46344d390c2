//! Models of the protocols between threads, driven through every interleaving that loom knows, weak ones included.
//!
//! Run with `ci/loom`. Each model is run as the code is, and then once for each mistake that it is there to find: it must
//! fail. `tests/mistakes/list.toml` has the mistakes, and `ci/loom` weaves them into a copy of the source.
#![cfg(loom)]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "loom's cells check at run time what a comment would claim"
)]

// The protocols are compiled into this program, with loom's atomics; the library is empty here.
#[allow(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "the models need a part of it"
)]
mod base;
#[allow(dead_code, reason = "the models need a part of it")]
#[rustfmt::skip]
#[path = "../../src/proto/mod.rs"]
mod proto;

mod block;
mod bounds;
mod handover;
mod heap_state;
mod hints;
mod id_stack;
mod inbox;
mod journal;
mod lock;
#[path = "../mistakes/mod.rs"]
mod mistakes;
mod os;
mod owner;
mod page;
mod page_list;
mod run_bin;
mod slots;
mod worker;

use crate::base::sync::LOADS_ARE_CAS;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Checks a model; then, with each of `mistakes` made, that it fails.
///
/// Twice, as loom sees more stale values where loads are loads, and more schedules where they are compare-and-swaps.
fn check(model: fn(), mistakes: &[&'static str]) {
    let run = || {
        for cas in [true, false] {
            LOADS_ARE_CAS.set(cas);
            loom::model(model);
        }
    };
    mistakes::assert_woven();
    run();
    for &mistake in mistakes {
        mistakes::make(mistake);
        let found = catch_unwind(AssertUnwindSafe(run)).is_err();
        assert!(found, "the model does not find {mistake}");
    }
}
