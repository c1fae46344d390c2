//! What is asked of the operating system: one file per system, nothing above this layer makes a system call.
//!
//! Every call leaves errno alone (`free` must preserve it), is counted by kind, and is timed when asked to
//! (`HAKMEM_TIMING=1`). Ranges are addresses and lengths in bytes; a `bool` says whether the system agreed. For tests, calls
//! can be refused (`faults`), or made as a kernel with larger pages makes them (`coarse`).
//!
//! Checkers get parts of their own: `interpreted` for Miri, which has no machine below it; `joined` for tools that must
//! know of every thread; `scheduled` for models of which the threads are shuttle's; `checked` for all of these.

#[cfg(all(feature = "fault-injection", target_os = "linux", not(miri)))]
pub mod coarse;
mod count;
#[cfg(feature = "fault-injection")]
pub mod faults;
mod filter;
#[cfg(miri)]
mod interpreted;
#[cfg(all(target_os = "linux", not(miri)))]
#[cfg_attr(shuttle, allow(dead_code, reason = "`scheduled` has its own of some"))]
mod linux;

#[cfg(all(target_os = "linux", not(any(miri, sanitizer, shuttle))))]
mod bare;
#[cfg(any(miri, sanitizer, shuttle))]
mod checked;
#[cfg(not(shuttle))]
mod hooks;
#[cfg(all(any(miri, sanitizer), not(shuttle)))]
mod joined;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(any(miri, shuttle))))]
mod library;
mod message;
mod objects;
mod own;
#[cfg(all(target_os = "linux", not(miri)))]
mod pagemap;
#[cfg(shuttle)]
mod scheduled;
#[cfg(all(target_os = "linux", not(miri)))]
mod start;
#[cfg(all(target_os = "linux", not(miri)))]
mod tables;
#[cfg(all(target_os = "linux", not(miri)))]
#[cfg_attr(shuttle, allow(dead_code, reason = "as for `linux`"))]
mod vdso;

#[cfg_attr(any(miri, shuttle), allow(unused_imports, reason = "these have no note of where the figures lie"))]
pub use count::{COUNTERS, Counter, Kind};
pub use count::{KINDS, count, set_timing, timing};
pub use filter::{is_filtered, set_filtered};
#[cfg(miri)]
pub use interpreted::*;
#[cfg(all(target_os = "linux", not(miri)))]
pub use linux::*;
pub use message::{fatal, report};
pub use objects::{Tables, find_objects, find_program, loader, object_of};
pub use own::{copy_readable, map_memory, read_file};
#[cfg(all(target_os = "linux", not(miri)))]
pub use pagemap::{Page, Pagemap};
#[cfg(all(target_os = "linux", not(miri)))]
#[cfg_attr(shuttle, allow(unused_imports, reason = "models have no reports"))]
pub use start::{in_program, on_first_stack, program_headers};

#[cfg(all(target_os = "linux", not(any(miri, sanitizer, shuttle))))]
pub use bare::{be_ordinary, in_borrowed_process, is_single_threaded, is_thread, numbers, spawn_bare};
#[cfg(any(miri, sanitizer, shuttle))]
pub use checked::{be_ordinary, in_borrowed_process, is_single_threaded, is_thread, numbers};
#[cfg(not(shuttle))]
pub use hooks::{Key, at_fork, drop_exit_key, make_exit_key, set_exit_value};
#[cfg(all(any(miri, sanitizer), not(shuttle)))]
pub use joined::spawn_bare;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(any(miri, shuttle))))]
#[cfg(feature = "reports")]
pub use library::is_in_program;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(any(miri, shuttle))))]
pub use library::may_be_unloaded;
/// Not known: what is done then is not done.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", not(any(miri, shuttle)))))]
pub fn may_be_unloaded() -> bool {
    false
}
// In place of linux's of the same name.
#[cfg(shuttle)]
pub use scheduled::{
    Key, abort, at_fork, block_signals, drop_exit_key, fork, futex_wait, futex_wait_for_end, futex_wake, make_exit_key,
    now_ms, pass_time, restore_signals, set_exit_value, sleep_us, spawn_bare, thread_token,
};

// Checkers have no such system below them.
#[cfg(all(test, target_os = "linux", not(any(miri, loom, shuttle, sanitizer, feature = "fault-injection"))))]
mod tests;
