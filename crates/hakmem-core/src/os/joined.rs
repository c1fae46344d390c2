//! The bare thread for tools that must know of every thread (sanitizers, Miri): made by libc.
//!
//! glibc frees memory under locks that `pthread_create` takes, so this will not do where hakmem serves glibc itself.
//! Under these tools it serves the test alone.

use super::count::{Kind, counted};
use crate::base::sync::{AtomicPtr, AtomicU32, Ordering};
use core::ffi::c_void;
use core::ptr::null_mut;

/// Is scheduled as every other one.
pub fn be_ordinary() {}

/// True: `alive` is not 0 while the thread is there, and no longer.
pub fn is_thread(_: u32) -> bool {
    true
}

/// Every thread can tell that it ends.
pub fn numbers() -> (u32, u32) {
    (0, 0)
}

/// There are several.
pub fn is_single_threaded() -> bool {
    false
}

/// These tools' tests do not borrow.
pub fn in_borrowed_process() -> bool {
    false
}

static ALIVE: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
static WORK: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

extern "C" fn life(_: *mut c_void) -> *mut c_void {
    // Acquire, here and below: what `spawn_bare` stored. SAFETY: a function of this type.
    let work = unsafe { core::mem::transmute::<*mut c_void, extern "C" fn()>(WORK.load(Ordering::Acquire)) };
    work();
    // SAFETY: made of a reference for ever.
    unsafe { (*ALIVE.load(Ordering::Acquire)).store(0, Ordering::Release) };
    null_mut()
}

/// As the real one: see `bare`.
pub fn spawn_bare(work: extern "C" fn(), alive: &'static AtomicU32) -> u32 {
    WORK.store(work as *mut c_void, Ordering::Release);
    ALIVE.store(core::ptr::from_ref(alive).cast_mut(), Ordering::Release);
    alive.store(1, Ordering::Relaxed);
    let made = counted(Kind::Clone, || {
        // SAFETY: plain; the handle is used once.
        unsafe {
            let mut thread = core::mem::zeroed();
            let error = libc::pthread_create(&mut thread, core::ptr::null(), life, null_mut());
            if error == 0 {
                libc::pthread_detach(thread);
            }
            -(error as isize)
        }
    });
    if made != 0 {
        alive.store(0, Ordering::Relaxed);
    }
    u32::from(made == 0)
}
