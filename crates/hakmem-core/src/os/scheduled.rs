//! Models of which the threads are shuttle's: sleeping, clocks, threads and fork as its scheduler has them. Memory is
//! the system's.
//!
//! All the threads of a model are coroutines of one. So [`fork`] is a real one: the child has all of the process, and the
//! coroutine that forked is the only one that ever goes on in it.

use super::count::{Kind, counted};
use super::linux::SignalMask;
use crate::base::sync::{AtomicU32, FORKED, Ordering, is_child, point, spin};
use core::ffi::c_void;
use shuttle::thread;
use std::boxed::Box;
use std::cell::Cell;
use std::sync::Mutex;

// These are no points of the schedule themselves.
static CLOCK: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(1);

/// Lets time go by.
pub fn pass_time(ms: u32) {
    CLOCK.fetch_add(ms, Ordering::Relaxed);
}

/// Milliseconds that wrap; see [`pass_time`].
pub fn now_ms() -> u32 {
    CLOCK.load(Ordering::Relaxed)
}

/// Returns early, as it may; who has slept through a time limit finds that the time has gone by.
pub fn futex_wait(_: &AtomicU32, _: u32, ms: Option<u32>) {
    pass_time(ms.unwrap_or(0));
    spin();
}

/// As [`futex_wait`].
pub fn futex_wait_for_end(alive: &AtomicU32, value: u32, ms: u32) {
    futex_wait(alive, value, Some(ms));
}

/// Some time goes by.
pub fn sleep_us(_: u32) {
    pass_time(1);
    spin();
}

/// Nobody sleeps.
pub fn futex_wake(_: &AtomicU32) {
    point();
}

/// Fails the model.
pub fn abort() -> ! {
    std::process::abort()
}

/// A token for the calling thread.
pub fn thread_token() -> u32 {
    shuttle::current::try_get_current_task().map_or(1, |task| usize::from(task) as u32 + 2)
}

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

/// [`fork`] is the only way to another process.
pub fn in_borrowed_process() -> bool {
    false
}

/// There are no signals, and the mask would be that of all threads.
pub fn block_signals() -> SignalMask {
    0
}

/// See [`block_signals`].
pub fn restore_signals(_: SignalMask) {}

/// As the real one: see `bare`.
pub fn spawn_bare(work: extern "C" fn(), alive: &'static AtomicU32) -> u32 {
    if is_child() {
        return 0; // There are no further threads in the child of a fork.
    }
    alive.store(1, Ordering::Relaxed);
    counted(Kind::Clone, || 0);
    thread::spawn(move || {
        work();
        alive.store(0, Ordering::Release);
    });
    1
}

/// As in `hooks`; there is one.
pub type Key = u32;

type Exit = unsafe extern "C" fn(*mut c_void);
static EXIT: Mutex<Option<Exit>> = Mutex::new(None);

struct Value(Cell<*mut c_void>);
impl Drop for Value {
    fn drop(&mut self) {
        let exit = *EXIT.lock().expect("a function or none");
        if let Some(exit) = exit
            && !self.0.get().is_null()
            && !std::thread::panicking()
        {
            // SAFETY: as it was registered.
            unsafe { exit(self.0.get()) };
        }
    }
}
shuttle::thread_local! { static VALUE: Value = Value(Cell::new(core::ptr::null_mut())); }

/// As in `hooks`.
pub fn make_exit_key(f: Exit) -> Option<Key> {
    *EXIT.lock().expect("a function or none") = Some(f);
    Some(0)
}

/// As in `hooks`.
pub fn set_exit_value(_: Key, value: *const c_void) {
    VALUE.with(|mine| mine.0.set(value.cast_mut()));
}

/// As in `hooks`.
pub fn drop_exit_key(_: Key) {
    *EXIT.lock().expect("a function or none") = None;
}

static AT_FORK: Mutex<Option<[extern "C" fn(); 3]>> = Mutex::new(None);

/// As in `hooks`.
pub fn at_fork(before: extern "C" fn(), after: extern "C" fn(), after_in_child: extern "C" fn()) {
    *AT_FORK.lock().expect("a registration") = Some([before, after, after_in_child]);
}

/// Forks, and runs `child` in the child, which then ends. True if `child` returned true.
pub fn fork(child: impl FnOnce() -> bool + 'static) -> bool {
    let [before, after, after_in_child] = AT_FORK.lock().expect("a registration").expect("handlers");
    let child = Box::new(child);
    before();
    // SAFETY: the process has one thread for all that the child goes on to do.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        FORKED.store(true, Ordering::Relaxed);
        after_in_child();
        let status = i32::from(!child());
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(status) };
    }
    after();
    let mut status = -1;
    // SAFETY: waits for the child made above.
    unsafe { pid > 0 && libc::waitpid(pid, &mut status, 0) == pid && status == 0 }
}
