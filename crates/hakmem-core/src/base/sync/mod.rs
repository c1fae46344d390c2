//! Atomics for the whole crate: the hardware's, or those of the checker that a model is built for.
//!
//! | file | build | what it has |
//! |---|---|---|
//! | `hardware` | usual | `core`'s atomics |
//! | `points` | shuttle | `core`'s atomics; before each step another thread may run |
//! | `weak` | loom | loom's atomics and macros |
//! | `steps` | all but loom | the macros of `weak`, which do nothing special here |

#[cfg(not(any(loom, shuttle)))]
mod hardware;
#[cfg(shuttle)]
mod points;
#[cfg(not(loom))]
mod steps;
#[cfg(loom)]
mod weak;

#[cfg(not(any(loom, shuttle)))]
pub(crate) use hardware::*;
#[cfg(shuttle)]
pub(crate) use points::*;
#[cfg(not(loom))]
pub(crate) use steps::*;
#[cfg(loom)]
pub(crate) use weak::*;
