//! Makes the background thread by libc, for tools that must know of every thread (sanitizers,
//! Miri).
//!
//! `pthread_create` takes locks under which glibc frees memory. So this cannot be used where hakmem
//! serves glibc itself. Under these tools hakmem serves the test alone.

use super::count::{Kind, counted};
use crate::base::sync::{AtomicPtr, AtomicU32, Ordering};
use core::ffi::c_void;
use core::ptr::null_mut;

static ALIVE: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
static WORK: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// The thread's function: runs `WORK`, and then sets the word of `ALIVE` to 0.
extern "C" fn life(_: *mut c_void) -> *mut c_void {
    // Acquire, here and below: the thread reads what `spawn_bare` stored.
    // SAFETY: `spawn_bare` stored a function of this type before it made the thread.
    let work = unsafe {
        core::mem::transmute::<*mut c_void, extern "C" fn()>(WORK.load(Ordering::Acquire))
    };
    work();
    // SAFETY: `spawn_bare` stored a pointer made from a `&'static` reference.
    unsafe { (*ALIVE.load(Ordering::Acquire)).store(0, Ordering::Release) };
    null_mut()
}

/// Starts a thread that runs `work`. `alive` is 1 until the thread has run it. Returns 1, or 0 if
/// libc could not make the thread. At most one such thread may run in a process at a time.
pub fn spawn_bare(work: extern "C" fn(), alive: &'static AtomicU32) -> u32 {
    WORK.store(work as *mut c_void, Ordering::Release);
    ALIVE.store(core::ptr::from_ref(alive).cast_mut(), Ordering::Release);
    alive.store(1, Ordering::Relaxed);
    let made = counted(Kind::Clone, || {
        // SAFETY: `thread` is writable for the handle. An attribute of null is allowed. `life`
        // takes any argument. Only a handle that libc has made is detached, once.
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
