//! The tests that compare the process's totals, one at a time.

mod oracle;

mod books;
mod holes;
mod sizes;
mod statistics;

use hakmem_core::{c, stats};
use std::sync::{Mutex, MutexGuard};
use std::thread;

/// Totals are the process's: the tests take turns, each after everything free was given back.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(|failed| failed.into_inner());
    // The thread of the last test may still be ending, and then give its heap back.
    while stats::Snapshot::take().running_heaps() > 0 {
        thread::yield_now();
    }
    // Of so many tests' threads the last ones would share pages, which `pages` looks at.
    hakmem_core::options::set("SHARED_FROM_HEAPS", "0").expect("an option");
    c::trim();
    turn
}
