//! The handler loop for architectures without assembly.
//!
//! Handlers run, but no exception can leave this loop. A failure that should become a bad_alloc
//! ends the process with one clear line.

use super::{Function, handler, retry};
use core::ffi::c_void;

fn run(size: usize, kind: usize) -> *mut c_void {
    loop {
        let f = handler();
        if f.is_null() {
            return f;
        }
        // SAFETY: get_new_handler returned it, and it is not NULL: the installed `void (*)()`.
        unsafe { core::mem::transmute::<Function, extern "C" fn()>(f)() };
        let p = retry(size, kind);
        if !p.is_null() {
            return p;
        }
    }
}

/// The failure path of the throwing forms.
///
/// # Safety
/// No promise is needed. It is unsafe because the form for x86-64, which can throw, is.
#[cold]
pub unsafe extern "C-unwind" fn new_or_throw(size: usize, kind: usize) -> *mut c_void {
    let p = run(size, kind);
    if p.is_null() {
        super::no_runtime();
    }
    p
}

/// The failure path of the nothrow forms.
///
/// # Safety
/// No promise is needed. It is unsafe because the form for x86-64, which can throw, is.
#[cold]
pub unsafe extern "C-unwind" fn new_or_null(size: usize, kind: usize) -> *mut c_void {
    run(size, kind)
}
