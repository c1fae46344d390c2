//! `HAKMEM_PROFILE=FILE`: the heap profile, appended to FILE at exit and whenever `HAKMEM_PROFILE_SIGNAL` comes.

use super::out::stderr_line;
use super::sink::File;
use super::stack::on_own_stack;
use super::{errno, life, out, settings};
use crate::api::c;
use crate::profile::{self, Busy, Event};
use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int};
use libc::{siginfo_t, ucontext_t};

struct Shared(UnsafeCell<Option<File>>);

// SAFETY: written by `start`, before the program has threads that could run `end`; only read after that.
unsafe impl Sync for Shared {}

#[unsafe(link_section = ".data.hakmem")]
static TO: Shared = Shared(UnsafeCell::new(None));

/// Begins the profile if the environment asks for it. Returns whether it did.
///
/// # Safety
/// `envp` is NULL or a NULL-terminated array of C strings, which do not change meanwhile; there is one thread.
pub unsafe fn start(envp: *const *const c_char) -> bool {
    // SAFETY: the caller promises that `envp` is NULL or such an array, and that it stays as it is.
    let (file, signal) =
        unsafe { (settings::read_profile(envp), settings::read_signal(envp, b"HAKMEM_PROFILE_SIGNAL=")) };
    let Some(file) = file else {
        if signal.is_some() {
            stderr_line(format_args!("HAKMEM_PROFILE_SIGNAL ignored: HAKMEM_PROFILE asks for no profile"));
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
    // SAFETY: nothing else runs that could use it: see Shared.
    unsafe { *TO.0.get() = Some(file) };
    if let Some(signal) = signal {
        life::catch(signal, on_signal);
    }
    true
}

/// Another copy of the allocator has its program's profile.
pub fn leave() {
    // SAFETY: `life::leave` is called while there is one thread, so nothing else uses it.
    if unsafe { (*TO.0.get()).take() }.is_some() {
        profile::stop();
    }
}

fn file() -> Option<File> {
    // SAFETY: only `start` writes it, and that is over.
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

/// Whatever it has interrupted: it waits for nobody.
extern "C" fn on_signal(_: c_int, _: *mut siginfo_t, context: *mut ucontext_t) {
    errno::preserved(|| {
        on_own_stack(|| profile::dump_soon(write_at_once));
        // SAFETY: `context` is what the system gave this handler, and valid until it returns.
        unsafe { out::leave_blocked(context) };
    });
}

/// Also called by a thread that was in the profile when the signal came.
fn write_at_once() -> Result<(), Busy> {
    if let Some(file) = file() {
        told_if_lost(profile::dump_at_once(Event::Signal, |text| file.append(text))?);
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
        out::say_lost(format_args!("profile lost: no memory for it"));
    }
}
