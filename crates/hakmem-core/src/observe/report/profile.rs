//! `HAKMEM_PROFILE=FILE`: appends the heap profile to FILE at exit, and at each signal that
//! `HAKMEM_PROFILE_SIGNAL` names.

use super::handler::{self, Reports};
use super::out::stderr_line;
use super::sink::File;
use super::{errno, out, settings};
use crate::api::c;
use crate::profile::{self, Busy, Event};
use core::cell::UnsafeCell;
use core::ffi::c_char;

struct Shared(UnsafeCell<Option<File>>);

// SAFETY: only `start` and `leave` write it. Constructors call them, before the program has threads
// that could run `end`. After that it is only read.
unsafe impl Sync for Shared {}

#[unsafe(link_section = ".data.hakmem")]
static TO: Shared = Shared(UnsafeCell::new(None));

/// Begins the profile if the environment asks for it. True if it began.
///
/// # Safety
/// - `envp` is NULL or a NULL-terminated array of C strings, which do not change during the call.
/// - No other thread reads or writes what the environment asked for: a constructor calls this.
pub unsafe fn start(envp: *const *const c_char) -> bool {
    // SAFETY: the caller says that `envp` is NULL or such an array, which stays as it is. `file`
    // does not outlive this call, and the option's name has no NUL.
    let (file, signal) = unsafe {
        (settings::read_profile(envp), settings::read_signal(envp, b"HAKMEM_PROFILE_SIGNAL="))
    };
    let Some(file) = file else {
        if signal.is_some() {
            stderr_line(format_args!(
                "HAKMEM_PROFILE_SIGNAL ignored: HAKMEM_PROFILE asks for no profile"
            ));
        }
        return false;
    };
    let Some(file) = File::keep("HAKMEM_PROFILE", file) else {
        return false;
    };
    if !profile::start(c::profile_interval()) {
        stderr_line(format_args!("HAKMEM_PROFILE ignored: it cannot start"));
        return false;
    }
    // SAFETY: the caller says that no other thread uses it. `catch` installs the handler only
    // below.
    unsafe { *TO.0.get() = Some(file) };
    if let Some(signal) = signal {
        handler::catch::<OnSignal>(signal);
    }
    true
}

/// Stops the profile: the program has another copy of the allocator, which has its profile.
///
/// # Safety
/// No other thread reads or writes what the environment asked for: a constructor calls this.
pub unsafe fn leave() {
    // SAFETY: the caller says that no other thread uses it.
    if unsafe { (*TO.0.get()).take() }.is_some() {
        profile::stop();
    }
}

fn file() -> Option<File> {
    // SAFETY: only `start` and `leave` write it, in constructors: `start` before it installs the
    // handler, `leave` with all signals blocked. Other threads come later.
    unsafe { *TO.0.get() }
}

/// See `life::keep_files`.
pub fn keep_files() {
    if let Some(file) = file() {
        file.keep_open();
    }
}

/// See `life::drop_files`.
pub fn drop_files() {
    if let Some(file) = file() {
        file.drop_what_was_kept();
    }
}

/// What the handler of the profile's signal writes.
struct OnSignal;

// SAFETY: it waits for no lock, as it may have interrupted who has it, and allocates nothing.
unsafe impl Reports for OnSignal {
    fn write() {
        // SAFETY: `write_at_once` uses the report's own file and memory alone, and does not unwind.
        unsafe { profile::dump_soon(write_at_once) };
    }
}

/// Writes the profile now, or says that it is busy. If the signal came while a thread changed the
/// profile, that thread calls this after the change: in a `free`, which keeps errno.
fn write_at_once() -> Result<(), Busy> {
    errno::preserved(|| {
        if let Some(file) = file() {
            told_if_lost(profile::dump_at_once(Event::Signal, |text| file.append(text))?);
        }
        Ok(())
    })
}

/// Writes the profile at the end of the process.
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn end() {
    // SAFETY: only `start` and `leave` write it, in constructors: `start` before it installs the
    // handler, `leave` with all signals blocked. Other threads come later.
    if let Some(file) = unsafe { *TO.0.get() } {
        match profile::dump_at_end(|text| file.append(text)) {
            Ok(written) => told_if_lost(written),
            Err(Busy) => out::say_lost(format_args!("profile lost: another thread is in a fork")),
        }
    }
}

fn told_if_lost(written: Option<()>) {
    if written.is_none() {
        out::say_lost(format_args!("profile lost: no memory for it"));
    }
}
