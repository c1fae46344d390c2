//! The failure path of `operator new`.
//!
//! When memory is short, it calls the new_handler and tries again, as long as there is a handler.
//! Without a handler it throws `std::bad_alloc`, or returns NULL from the nothrow forms.
//!
//! 1. Exceptions pass through the loop around the handler. No frame of Rust may be in their way:
//!    with `panic = "abort"` the compiler takes its functions for never unwinding. So the loop is
//!    assembly with unwind tables of its own, reached by a tail call.
//! 2. This file has the parts that never unwind.
//! 3. `find` searches the C++ runtime when it is needed: C programs do not have it.

#[cfg_attr(target_arch = "x86_64", path = "bad_alloc/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "bad_alloc/aarch64.rs")]
mod arch;
mod handler_loop;
mod personality;

pub use handler_loop::{chosen_or_null, new_or_null, new_or_throw};

use crate::{aligned, out};
use core::ffi::{CStr, c_void};

/// A function of the C++ runtime whose type only its caller knows.
type Function = *mut c_void;

/// Searches a function in the program's libraries, then in `library`, which a plug-in may have
/// loaded for itself alone. NULL if there is none.
#[cold]
fn find(name: &CStr, library: &CStr) -> Function {
    // SAFETY: both names are C strings, and dlsym gets a handle of dlopen that is not NULL.
    // RTLD_NOLOAD loads nothing, so no constructor runs. The handle is never closed, so the library
    // and the function stay.
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
    // SAFETY: the symbol is `std::new_handler std::get_new_handler() noexcept`, which has this type
    // and does not throw.
    unsafe { core::mem::transmute::<Function, extern "C" fn() -> Function>(get)() }
}

/// Another try, after the handler has run.
#[cold]
extern "C" fn retry(size: usize, kind: usize) -> *mut c_void {
    aligned::allocate_new(kind & !ARRAY, size, kind & ARRAY != 0)
}

/// The bit of a kind that stands for `new[]`. No alignment of a kind has it.
const ARRAY: usize = 1 << 63;
/// An alignment that no memory has, for all that are larger.
const TOO_LARGE: usize = 1 << 62;

/// What the functions that follow a failure know of the request beside its size.
pub const fn kind(align: usize, is_array: bool) -> usize {
    let align = if align > TOO_LARGE { TOO_LARGE } else { align };
    if is_array { align | ARRAY } else { align }
}

/// `std::__throw_bad_alloc`.
#[cold]
extern "C" fn thrower() -> Function {
    let throw = find_cxx(c"_ZSt17__throw_bad_allocv");
    if throw.is_null() {
        no_runtime();
    }
    throw
}

/// Ends a program without a C++ runtime, which has nothing to throw.
#[cold]
fn no_runtime() -> ! {
    out::stderr_line(format_args!(
        "out of memory in operator new, and no C++ runtime to throw std::bad_alloc"
    ));
    // SAFETY: abort has no preconditions.
    unsafe { libc::abort() }
}
