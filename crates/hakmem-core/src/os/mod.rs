//! What is asked of the operating system: one file per system, nothing above this layer makes a system call.
//!
//! Every call leaves errno alone (`free` must preserve it), is counted by kind, and is timed when asked to
//! (`HAKMEM_TIMING=1`). Ranges are addresses and lengths in bytes; a `bool` says whether the system agreed. For tests, calls
//! can be refused (`faults`).

#[cfg(target_os = "linux")]
mod bare;
mod count;
#[cfg(feature = "fault-injection")]
pub mod faults;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
pub use bare::{drop_capabilities, exit_bare, in_borrowed_process, is_thread, spawn_bare};
pub use count::{KINDS, count, set_timing};
#[cfg(target_os = "linux")]
pub use linux::*;
