//! Atomics for the whole crate: the hardware's, or those of the checker that a model is compiled for.

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
