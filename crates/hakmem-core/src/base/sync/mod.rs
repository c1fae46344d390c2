//! Atomics for the whole crate: the hardware's, or those of the checker that a model is built for.
//!
//! | file | build | what it has |
//! |---|---|---|
//! | `hardware` | usual | `core`'s atomics |
//! | `points` | shuttle | before each step another thread may run |
//! | `ledger` | feature `ledger` | each step is counted, with what its cache line costs |
//! | `wrapped` | these two | `core`'s atomics with something before each step |
//! | `weak` | loom | loom's atomics and macros |
//! | `steps` | all but loom | the macros of `weak`, which do nothing special here |

#[cfg(not(any(loom, shuttle, feature = "ledger")))]
mod hardware;
#[cfg(all(feature = "ledger", not(any(loom, shuttle))))]
pub mod ledger;
#[cfg(shuttle)]
mod points;
#[cfg(not(loom))]
mod steps;
#[cfg(loom)]
mod weak;
#[cfg(any(shuttle, all(feature = "ledger", not(loom))))]
mod wrapped;

#[cfg(not(any(loom, shuttle, feature = "ledger")))]
pub(crate) use hardware::*;
#[cfg(all(feature = "ledger", not(any(loom, shuttle))))]
pub(crate) use ledger::*;
#[cfg(shuttle)]
pub(crate) use points::*;
#[cfg(not(loom))]
pub(crate) use steps::*;
#[cfg(loom)]
pub(crate) use weak::*;
#[cfg(any(shuttle, all(feature = "ledger", not(loom))))]
pub(crate) use wrapped::*;
