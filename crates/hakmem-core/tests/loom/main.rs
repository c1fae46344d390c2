//! Models of the protocols between threads. loom runs each in every order of the threads' steps
//! that it knows, and with every value that a weak order allows a load to return.
//!
//! `ci/loom` runs them. It runs each model with the code as it is: the model must hold. Then it
//! runs the model once for each mistake that the model names: it must fail.
//! `tests/mistakes/list.toml` has the mistakes, and `ci/loom` weaves them into a copy of the
//! source.
#![cfg(loom)]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "loom's cells check at run time what a comment would claim"
)]

// This program has the sources of the protocols as modules, with loom's atomics. In this build the
// library is empty.
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
mod deferred;
mod guarded;
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
mod page_state;
mod pause;
mod place;
mod run_bin;
mod samples;
mod slots;
mod take_away;
mod taken;
mod walk;
mod worker;

use crate::base::sync::LOADS_ARE_CAS;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Checks that a model holds, and that it fails with each of `mistakes`.
///
/// Each run is twofold. loom finds more stale values if loads are loads, and more schedules if they
/// are compare-and-swaps.
fn check(model: fn(), mistakes: &[&'static str]) {
    check_with(&loom::model::Builder::new(), model, mistakes);
}

/// [`check`] of a model that has too many schedules: only those in which at most `preemptions`
/// threads stop although they could go on.
fn check_within(preemptions: usize, model: fn(), mistakes: &[&'static str]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    check_with(&builder, model, mistakes);
}

fn check_with(builder: &loom::model::Builder, model: fn(), mistakes: &[&'static str]) {
    let run = || {
        for cas in [true, false] {
            LOADS_ARE_CAS.set(cas);
            builder.check(move || {
                os::forget_sleeps();
                model();
            });
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
