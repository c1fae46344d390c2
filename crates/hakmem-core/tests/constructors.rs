//! A program with a constructor of its own that runs before the allocator's.
#![cfg(all(target_os = "linux", target_env = "gnu", not(any(loom, shuttle, miri))))]

mod oracle;

use hakmem_core::stats::Snapshot;
use hakmem_core::{c, options};
use oracle::{alone, apart};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

/// The process's first key is the program's: what it has for values, by whom, and how often a
/// thread ended with one.
static MINE: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn ends(value: *mut c_void) {
    assert_eq!(value.addr(), (&raw const MINE).addr());
    MINE.fetch_add(1, Relaxed);
}

extern "C" fn before() {
    let mut key = 7;
    // SAFETY: writes one key.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(ends)) }, 0);
    assert_eq!(key, 0);
    options::leave_environment();
}

#[used]
#[unsafe(link_section = ".init_array.00101")]
static BEFORE: extern "C" fn() = before;

#[test]
fn the_environment_is_left_alone() {
    let name = "the_environment_is_left_alone";
    let variables = [("HAKMEM_DECAY_MS", "1234"), ("HAKMEM_STATS", "json")];
    match apart(name, &variables) {
        None => assert_eq!(options::get("DECAY_MS").unwrap().to_string(), "500"),
        Some(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(!text.contains(r#""event""#), "{text}");
        }
    }
}

fn threads() {
    for i in 1..=5 {
        let thread = || {
            // SAFETY: freed once.
            unsafe { c::free(c::malloc(100)) }
            // SAFETY: the program's own key.
            let failed = unsafe { libc::pthread_setspecific(0, (&raw const MINE).cast()) };
            assert_eq!(failed, 0);
        };
        thread::spawn(thread).join().unwrap();
        assert_eq!(MINE.load(Relaxed), i);
        assert_eq!(Snapshot::take().running_heaps(), 0);
    }
    assert_eq!(
        Snapshot::take().process().heaps,
        1,
        "one after the other has it"
    );
}

#[test]
fn values_of_the_programs_own_stay_its_own() {
    alone("values_of_the_programs_own_stay_its_own", threads);
}
