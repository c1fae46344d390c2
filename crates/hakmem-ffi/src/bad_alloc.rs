//! What `operator new` does when memory is short: the new_handler, another try, and so on; without a handler,
//! `std::bad_alloc`, or NULL from the nothrow forms.
//!
//! Exceptions pass through here, and a library built with `panic = "abort"` may not have them in its own frames: such
//! functions count as never unwinding. So the loop around the handler is assembly with unwind tables of its own (one
//! file per architecture), reached by a tail call; this file has the parts that never unwind. The C++ runtime is
//! looked up when it is needed: C programs do not have it.

#[cfg_attr(target_arch = "x86_64", path = "bad_alloc/x86_64.rs")]
#[cfg_attr(not(target_arch = "x86_64"), path = "bad_alloc/portable.rs")]
mod arch;

pub use arch::{new_or_null, new_or_throw};

use crate::{aligned, out};
use core::ffi::{CStr, c_void};
use hakmem_core::c;

/// A function of the C++ runtime whose type only its caller knows.
type Function = *mut c_void;

/// Looks a function up among the program's libraries; failing that, in `library` if some plug-in has loaded it for
/// itself alone. NULL when there is none.
#[cold]
fn find(name: &CStr, library: &CStr) -> Function {
    // SAFETY: both are C strings, and a handle from dlopen goes to dlsym. Nothing is loaded (RTLD_NOLOAD), so no
    // constructor runs; the handle is kept, so the library stays.
    unsafe {
        let p = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        if !p.is_null() {
            return p;
        }
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() {
            return handle;
        }
        libc::dlsym(handle, name.as_ptr())
    }
}

/// A function of libstdc++, or of libc++ where that is the one in use.
#[cold]
fn find_cxx(name: &CStr) -> Function {
    [c"libstdc++.so.6", c"libc++.so.1", c"libc++abi.so.1"]
        .iter()
        .map(|library| find(name, library))
        .find(|p| !p.is_null())
        .unwrap_or(core::ptr::null_mut())
}

/// The installed new_handler, or NULL.
#[cold]
extern "C" fn handler() -> Function {
    let get = find_cxx(c"_ZSt15get_new_handlerv");
    if get.is_null() {
        return get;
    }
    // SAFETY: this is `std::new_handler std::get_new_handler() noexcept`.
    unsafe { core::mem::transmute::<Function, extern "C" fn() -> Function>(get)() }
}

/// Another try, after the handler had its chance.
#[cold]
extern "C" fn retry(size: usize, align: usize) -> *mut c_void {
    match align {
        // SAFETY: any size is allowed.
        0 => unsafe { c::malloc(size).cast() },
        _ => aligned::allocate(align, size),
    }
}

/// `std::__throw_bad_alloc`.
#[cold]
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(dead_code, reason = "nothing can be thrown yet")
)]
extern "C" fn thrower() -> Function {
    let throw = find_cxx(c"_ZSt17__throw_bad_allocv");
    if throw.is_null() {
        no_runtime();
    }
    throw
}

/// Without a C++ runtime there is nothing that could be thrown.
#[cold]
fn no_runtime() -> ! {
    out::stderr_line(format_args!(
        "out of memory in operator new, and no C++ runtime to throw std::bad_alloc"
    ));
    // SAFETY: abort has no preconditions.
    unsafe { libc::abort() }
}
