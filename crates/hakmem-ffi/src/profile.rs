//! `HAKMEM_PROFILE=FILE`: the heap profile, appended to FILE at exit and whenever `HAKMEM_PROFILE_SIGNAL` comes.

use crate::out::stderr_line;
use crate::sink::File;
use crate::{errno, life, settings};
use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int};
use hakmem_core::c;
use hakmem_core::profile::{self, Busy, Event};

struct Shared(UnsafeCell<Option<File>>);

// SAFETY: written by `start`, before the program has threads that could run `end`; only read after that.
unsafe impl Sync for Shared {}

#[unsafe(link_section = ".data.hakmem")]
static TO: Shared = Shared(UnsafeCell::new(None));

/// Begins the profile if the environment asks for it.
///
/// # Safety
/// `envp` is NULL or a NULL-terminated array of C strings, which do not change meanwhile; there is one thread.
pub unsafe fn start(envp: *const *const c_char) {
    // SAFETY: passed on.
    let (file, signal) = unsafe {
        (
            settings::read_profile(envp),
            settings::read_signal(envp, b"HAKMEM_PROFILE_SIGNAL="),
        )
    };
    let Some(file) = file else {
        if signal.is_some() {
            stderr_line(format_args!(
                "HAKMEM_PROFILE_SIGNAL ignored: HAKMEM_PROFILE asks for no profile"
            ));
        }
        return;
    };
    let Some(file) = File::keep("HAKMEM_PROFILE", file) else {
        return;
    };
    if !profile::start(c::profile_interval()) {
        return stderr_line(format_args!("HAKMEM_PROFILE ignored: it cannot start"));
    }
    // SAFETY: nothing else runs that could use it: see Shared.
    unsafe { *TO.0.get() = Some(file) };
    if let Some(signal) = signal {
        life::catch(signal, on_signal);
    }
}

/// Whatever it has interrupted: it waits for nobody.
extern "C" fn on_signal(_signal: c_int) {
    errno::preserved(|| profile::dump_soon(write_at_once));
}

/// Also called by a thread that was in the profile when the signal came.
fn write_at_once() -> Result<(), Busy> {
    // SAFETY: only `start` writes it, and that is over.
    if let Some(file) = unsafe { *TO.0.get() } {
        let written = profile::dump_at_once(Event::Signal, |text| file.append(text))?;
        told_if_lost(written);
    }
    Ok(())
}

/// The process ends.
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn end() {
    // SAFETY: only `start` writes it, and that is over.
    if let Some(file) = unsafe { *TO.0.get() } {
        told_if_lost(profile::dump(Event::Exit, |text| file.append(text)));
    }
}

fn told_if_lost(written: Option<()>) {
    if written.is_none() {
        stderr_line(format_args!("profile lost: no memory for it"));
    }
}
