//! What the allocator asks of the operating system. The layers above make no system call of their
//! own. The reports are an exception: they map through libc, and ask it for figures. `README.md`
//! here says what a port has to provide.
//!
//! | system | files |
//! |---|---|
//! | Linux | `linux`, `bare`, `hooks`, and files for one question each |
//! | Linux on one processor | `processor`, one file for each |
//! | Linux in tests | `faults` refuses calls, `coarse` acts as a kernel with larger system pages |
//! | unit tests on Linux | `stops` runs code of a test before memory goes back |
//! | Linux below sanitizers, and Miri | `joined`: these tools must know of every thread |
//! | Miri | `interpreted`: Miri has no machine below it |
//! | shuttle's models | `scheduled`: shuttle makes and schedules the threads |
//! | each of these three checkers | `checked`: what they answer alike |
//!
//! Rules
//! 1. No function here changes errno, except `set_enomem`: `free` must preserve errno.
//! 2. A range is an address and a length in bytes. A `bool` says whether the system did what was
//!    asked.
//! 3. `count` counts the calls of its kinds, and times them if `HAKMEM_TIMING=1`. Other calls are
//!    not counted, such as those that block signals, write a message or read a file.

#[cfg(all(target_os = "linux", not(any(miri, shuttle))))]
mod barriers;
pub mod cgroup;
#[cfg(all(feature = "fault-injection", target_os = "linux", not(miri)))]
pub mod coarse;
mod count;
#[cfg(not(any(loom, miri, shuttle)))]
mod defined;
mod fault;
#[cfg(feature = "fault-injection")]
pub mod faults;
#[cfg(all(target_os = "linux", not(miri)))]
#[cfg_attr(
    any(shuttle, not(feature = "reports")),
    allow(dead_code, reason = "reports need all of it, lines a part")
)]
mod files;
mod filter;
#[cfg(miri)]
mod interpreted;
#[cfg(all(target_os = "linux", not(miri)))]
#[cfg_attr(shuttle, allow(dead_code, reason = "`scheduled` replaces some of its functions"))]
mod linux;

#[cfg(all(target_os = "linux", not(any(miri, sanitizer, shuttle))))]
mod bare;
#[cfg(any(miri, sanitizer, shuttle))]
mod checked;
#[cfg(not(shuttle))]
mod hooks;
#[cfg(all(target_os = "linux", not(miri)))]
mod image;
#[cfg(all(any(miri, sanitizer), not(shuttle)))]
mod joined;
#[cfg(all(target_os = "linux", not(any(miri, shuttle))))]
mod library;
mod lines;
mod message;
#[cfg(all(target_os = "linux", not(miri)))]
mod moves;
mod node;
mod objects;
mod own;
#[cfg(not(any(loom, miri, shuttle)))]
mod own_stack;
#[cfg(all(target_os = "linux", not(miri)))]
mod pagemap;
#[cfg(target_os = "linux")]
#[cfg_attr(
    any(miri, shuttle),
    allow(dead_code, unused_macros, unused_imports, reason = "checkers replace most of it")
)]
mod processor;
#[cfg(all(target_os = "linux", not(miri)))]
mod quietly;
#[cfg(shuttle)]
mod scheduled;
#[cfg(all(target_os = "linux", not(miri)))]
mod start;
#[cfg(all(target_os = "linux", not(miri)))]
mod stderr;
#[cfg(all(test, target_os = "linux", not(any(miri, loom, shuttle))))]
pub mod stops;
#[cfg(all(target_os = "linux", not(miri)))]
mod tables;
#[cfg(all(target_os = "linux", not(miri)))]
#[cfg_attr(
    any(loom, shuttle, test, feature = "ledger"),
    allow(dead_code, reason = "models have a clock, tests and the ledger have nodes")
)]
mod vdso;
mod zeroes;

#[cfg(all(target_os = "linux", not(any(miri, shuttle))))]
pub use barriers::HeavyBarriers;
#[cfg_attr(
    any(miri, shuttle),
    allow(unused_imports, reason = "checkers have no note of where the figures lie")
)]
pub use count::{COUNTERS, Counter, Kind};
pub use count::{KINDS, count, set_timing, timing};
#[cfg(not(any(loom, miri, shuttle)))]
pub use defined::is_defined_elsewhere;
pub use fault::{Fault, Registers, on_fault};
#[cfg(all(feature = "reports", target_os = "linux", not(miri)))]
#[cfg_attr(shuttle, allow(unused_imports, reason = "models have no reports"))]
pub use files::{close, open};
pub use filter::{
    FILTERED, INHERITED, NONE as NO_FILTER_INHERITED, SEES_FILTERS, is_careful, is_filtered,
    see_filters, sees_filters, set_filtered,
};
#[cfg(miri)]
pub use interpreted::*;
#[cfg(all(feature = "reports", not(miri)))]
#[cfg_attr(shuttle, allow(unused_imports, reason = "models have no reports"))]
pub use lines::each_line_of;
#[cfg(all(target_os = "linux", not(miri)))]
pub use linux::*;
#[cfg(feature = "reports")]
pub use message::on_line;
pub use message::{detail, fatal, fatal_about, is_ending, on_error, report, show_more};
#[cfg(all(target_os = "linux", not(miri)))]
pub use moves::{Moved, move_pages};
pub use node::node;
#[cfg(all(test, not(any(loom, miri, shuttle))))]
pub use node::on_node;
pub use objects::{
    Tables, find_objects, find_objects_at_once, find_program, loader, object_of, place_of, program,
};
#[cfg(all(test, not(any(miri, loom, shuttle, sanitizer, feature = "fault-injection"))))]
pub use own::read_file;
pub use own::{copy_readable, map_memory, with_file};
#[cfg(not(any(loom, miri, shuttle)))]
pub use own_stack::on_own_stack;
#[cfg(all(target_os = "linux", not(miri)))]
pub use pagemap::{Page, Pagemap};
#[cfg(all(feature = "reports", target_os = "linux", not(miri)))]
#[cfg_attr(shuttle, allow(unused_imports, reason = "models have no reports"))]
pub use quietly::{leave_blocked, write_quietly};
#[cfg(all(target_os = "linux", not(miri)))]
#[cfg_attr(shuttle, allow(unused_imports, reason = "models have no reports"))]
pub use start::{in_program, on_first_stack, program_headers};
#[cfg(all(target_os = "linux", not(miri)))]
pub use stderr::{note_stderr, write_line};
pub use zeroes::copy_to_zeroes;

#[cfg(all(feature = "reports", target_os = "linux", not(any(miri, sanitizer, shuttle))))]
pub use bare::write_to;
#[cfg(all(target_os = "linux", not(any(miri, sanitizer, shuttle))))]
pub use bare::{
    be_ordinary, in_borrowed_process, in_shared_memory, is_bare, is_counted, is_single_threaded,
    is_thread, libc_number, numbers, process, spawn_bare,
};
#[cfg(any(miri, shuttle))]
pub use checked::on_own_stack;
#[cfg(all(feature = "reports", any(miri, sanitizer, shuttle)))]
pub use checked::write_to;
#[cfg(any(miri, sanitizer, shuttle))]
pub use checked::{
    be_ordinary, in_borrowed_process, in_shared_memory, is_bare, is_counted, is_single_threaded,
    is_thread, libc_number, numbers, process,
};
#[cfg(not(shuttle))]
pub use hooks::{Key, at_fork, drop_exit_key, make_exit_key, set_exit_value};
#[cfg(all(any(miri, sanitizer), not(shuttle)))]
pub use joined::spawn_bare;
#[cfg(all(target_os = "linux", not(any(miri, shuttle))))]
#[cfg(feature = "reports")]
pub use library::is_in_program;
#[cfg(all(target_os = "linux", not(any(miri, shuttle))))]
pub use library::may_be_unloaded;
/// False: unknown here. What callers do for such a library is not done.
#[cfg(not(all(target_os = "linux", not(any(miri, shuttle)))))]
pub fn may_be_unloaded() -> bool {
    false
}
// These replace the functions of the same names in `linux`.
#[cfg(shuttle)]
pub use scheduled::{
    HeavyBarriers, Key, abort, at_fork, block_signals, drop_exit_key, fork, futex_wait,
    futex_wait_for_end, futex_wake, make_exit_key, now_ms, pass_time, restore_signals,
    set_exit_value, sleep_us, spawn_bare, thread_token,
};

// These tests need the real Linux. Checkers replace parts of it.
#[cfg(all(
    test,
    target_os = "linux",
    not(any(miri, loom, shuttle, sanitizer, feature = "fault-injection"))
))]
mod tests;
