//! The system for shuttle's models: sleep, clock, threads and fork go through shuttle's scheduler.
//! Memory is the system's.
//!
//! All threads of a model are coroutines of one real thread. So [`fork`] makes a real fork. The
//! child has a copy of the process. In the child only the coroutine that forked ever runs.

use super::count::{Kind, counted};
use super::linux::SignalMask;
use crate::base::sync::{AtomicU32, FORKED, Ordering, is_child, point, spin};
use core::ffi::c_void;
use shuttle::thread;
use std::boxed::Box;
use std::cell::Cell;
use std::sync::Mutex;

// An atomic of `core`, so that its steps are no points of the schedule.
static CLOCK: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(1);

/// Moves the clock on.
pub fn pass_time(ms: u32) {
    CLOCK.fetch_add(ms, Ordering::Relaxed);
}

/// The clock in milliseconds, which wrap. Only [`pass_time`] moves it.
pub fn now_ms() -> u32 {
    CLOCK.load(Ordering::Relaxed)
}

/// Lets another thread run, and returns. The real call may return early too. If there is a time
/// limit, it moves the clock on by that.
pub fn futex_wait(_: &AtomicU32, _: u32, ms: Option<u32>) {
    pass_time(ms.unwrap_or(0));
    spin();
}

/// [`futex_wait`] with a time limit.
pub fn futex_wait_for_end(alive: &AtomicU32, value: u32, ms: u32) {
    futex_wait(alive, value, Some(ms));
}

/// Moves the clock on by a millisecond, and lets another thread run.
pub fn sleep_us(_: u32) {
    pass_time(1);
    spin();
}

/// Wakes no thread, as none sleeps. It is a point of the schedule.
pub fn futex_wake(_: &AtomicU32) {
    point();
}

/// Fails the model.
pub fn abort() -> ! {
    std::process::abort()
}

/// The token of the calling thread: at least 2, or 1 outside a model.
pub fn thread_token() -> u32 {
    shuttle::current::try_get_current_task().map_or(1, |task| usize::from(task) as u32 + 2)
}

/// Does nothing. Models have no signals, and all threads would share the mask.
pub fn block_signals() -> SignalMask {
    0
}

/// Does nothing: see [`block_signals`].
pub fn restore_signals(_: SignalMask) {}

/// Starts a thread of the model that runs `work`. `alive` is 1 until the thread has run it. Returns
/// 1, or 0 in the child of a fork, which gets no further threads.
pub fn spawn_bare(work: extern "C" fn(), alive: &'static AtomicU32) -> u32 {
    if is_child() {
        return 0;
    }
    alive.store(1, Ordering::Relaxed);
    counted(Kind::Clone, || 0);
    thread::spawn(move || {
        work();
        alive.store(0, Ordering::Release);
    });
    1
}

/// As `hooks::Key`. There is one key.
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
            // SAFETY: the function was registered for this value, by `make_exit_key`. The thread
            // ends now, and its value is not null.
            unsafe { exit(self.0.get()) };
        }
    }
}
shuttle::thread_local! { static VALUE: Value = Value(Cell::new(core::ptr::null_mut())); }

/// As `hooks::make_exit_key`.
pub fn make_exit_key(f: Exit) -> Option<Key> {
    *EXIT.lock().expect("a function or none") = Some(f);
    Some(0)
}

/// As `hooks::set_exit_value`.
pub fn set_exit_value(_: Key, value: *const c_void) {
    VALUE.with(|mine| mine.0.set(value.cast_mut()));
}

/// As `hooks::drop_exit_key`.
pub fn drop_exit_key(_: Key) {
    *EXIT.lock().expect("a function or none") = None;
}

static AT_FORK: Mutex<Option<[extern "C" fn(); 3]>> = Mutex::new(None);

/// As `hooks::at_fork`. [`fork`] calls the functions.
pub fn at_fork(before: extern "C" fn(), after: extern "C" fn(), after_in_child: extern "C" fn()) {
    *AT_FORK.lock().expect("a registration") = Some([before, after, after_in_child]);
}

/// Forks, and runs `child` in the child, which then exits. Returns true if `child` returned true.
pub fn fork(child: impl FnOnce() -> bool + 'static) -> bool {
    let [before, after, after_in_child] =
        AT_FORK.lock().expect("a registration").expect("handlers");
    let child = Box::new(child);
    before();
    // SAFETY: the threads of a model are coroutines of one real thread, which calls this. So no
    // other thread holds a lock of libc that the child would wait for.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        FORKED.store(true, Ordering::Relaxed);
        after_in_child();
        let status = i32::from(!child());
        // SAFETY: `_exit` has no preconditions. It runs no handlers of the parent.
        unsafe { libc::_exit(status) };
    }
    after();
    let mut status = -1;
    // SAFETY: `status` is writable for the time of the call.
    unsafe { pid > 0 && libc::waitpid(pid, &mut status, 0) == pid && status == 0 }
}

/// All steps of a model are in one order, so there is nothing to do.
pub struct HeavyBarriers;

impl HeavyBarriers {
    /// There always are.
    pub fn get() -> Option<Self> {
        Some(Self)
    }

    /// Does nothing.
    #[must_use]
    pub fn pass(&self, _: u32) -> bool {
        true
    }
}
