//! The failure path of `operator new`.
//!
//! When memory is short, it calls the new_handler and tries again, as long as there is a handler.
//! Without a handler it throws `std::bad_alloc`, or returns NULL from the nothrow forms.
//!
//! 1. Exceptions pass through the loop around the handler. No frame of Rust may be in their way:
//!    with `panic = "abort"` the compiler takes its functions for never unwinding. So the loop is
//!    assembly with unwind tables of its own, reached by a tail call.
//! 2. This file has the parts that never unwind.
//! 3. `find` searches the C++ runtime when it is needed: C programs do not have it. A process may
//!    have two, each with an unwinder, if plug-ins bring them. So it searches for the caller.

#[cfg_attr(target_arch = "x86_64", path = "bad_alloc/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "bad_alloc/aarch64.rs")]
mod arch;
mod handler_loop;
mod personality;

pub use handler_loop::{chosen_or_null, new_or_null, new_or_throw, throw};

use crate::{aligned, out};
use core::ffi::{CStr, c_char, c_void};

/// A function of the C++ runtime whose type only its caller knows.
type Function = *mut c_void;

/// A function in the program's libraries. NULL if there is none.
#[cold]
fn find_global(name: &CStr) -> Function {
    // SAFETY: `name` is a C string, and dlsym only reads it.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// A function in the library of this file name, if it is loaded, and in those that it needs. NULL
/// if there is none.
///
/// # Safety
/// `library` is a C string.
#[cold]
unsafe fn find_in(library: *const c_char, name: &CStr) -> Function {
    // SAFETY: both names are C strings, and dlsym gets a handle of dlopen that is not NULL.
    // RTLD_NOLOAD loads nothing, so no constructor runs. Code that called an operator or the
    // unwinder uses the library, so it stays without this handle, too.
    unsafe {
        let handle = libc::dlopen(library, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() {
            return handle;
        }
        let found = libc::dlsym(handle, name.as_ptr());
        libc::dlclose(handle);
        found
    }
}

/// [`find_in`] the library that has the code at `caller`.
#[cold]
fn find_for(caller: *const c_void, name: &CStr) -> Function {
    // SAFETY: Dl_info is a struct of raw pointers, for which all zeroes are valid.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: dladdr accepts any address, and `info` is a local variable that it may write.
    let found = unsafe { libc::dladdr(caller, &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return core::ptr::null_mut();
    }
    // SAFETY: dladdr found a library, and its file name is a C string that stays as long as that.
    unsafe { find_in(info.dli_fname, name) }
}

/// A function of the C++ runtime that the code at `caller` uses: that of the program, as for the
/// loader, or of a plug-in that loaded one for itself alone. Else of any runtime.
#[cold]
fn find_cxx(caller: *const c_void, name: &CStr) -> Function {
    let any = || {
        [c"libstdc++.so.6", c"libc++.so.1", c"libc++abi.so.1"]
            .iter()
            // SAFETY: these are C strings.
            .map(|library| unsafe { find_in(library.as_ptr(), name) })
            .find(|p| !p.is_null())
            .unwrap_or(core::ptr::null_mut())
    };
    let found = [find_global(name), find_for(caller, name)];
    let found = found.into_iter().find(|p| !p.is_null());
    found.unwrap_or_else(any)
}

/// The new_handler that the code at `caller` installed, or NULL.
#[cold]
extern "C" fn handler(caller: *const c_void) -> Function {
    let get = find_cxx(caller, c"_ZSt15get_new_handlerv");
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

/// `std::__throw_bad_alloc`, for the code at `caller`.
#[cold]
extern "C" fn thrower(caller: *const c_void) -> Function {
    let throw = find_cxx(caller, c"_ZSt17__throw_bad_allocv");
    if throw.is_null() {
        no_runtime();
    }
    throw
}

/// Ends a program without a C++ runtime, which has nothing to throw.
#[cold]
fn no_runtime() -> ! {
    out::last_line(format_args!(
        "out of memory in operator new, and no C++ runtime to throw std::bad_alloc"
    ));
    // SAFETY: abort has no preconditions.
    unsafe { libc::abort() }
}
