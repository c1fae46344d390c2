//! The functions of `src/os` that the protocols call. A thread that sleeps for some time lets
//! another one run, and then returns.

use crate::base::sync::{AtomicU32, Ordering, spin};
use std::cell::{Cell, RefCell};

thread_local! {
    /// The sleeps on words, the oldest first: the address of the word, and a number. Each test has
    /// its own: the threads of its model are coroutines of the test's thread.
    static SLEEPS: RefCell<Vec<(usize, u32)>> = const { RefCell::new(Vec::new()) };
    static NEXT: Cell<u32> = const { Cell::new(0) };
}

fn address(word: &AtomicU32) -> usize {
    core::ptr::from_ref(word).addr()
}

/// Forgets what a model that failed has left.
pub fn forget_sleeps() {
    SLEEPS.take();
}

/// Without a limit, sleeps until a thread wakes this one. A thread that nobody wakes yields until
/// loom has counted too many steps, and the model fails.
pub fn futex_wait(word: &AtomicU32, value: u32, limit: Option<u32>) {
    // The kernel reads the newest value. There is no step of the model from here to the push.
    if word.fetch_add(0, Ordering::SeqCst) != value {
        return;
    }
    let me = (address(word), NEXT.replace(NEXT.get() + 1));
    SLEEPS.with_borrow_mut(|sleeps| sleeps.push(me));
    while SLEEPS.with_borrow(|sleeps| sleeps.contains(&me)) {
        spin();
        if limit.is_some() {
            SLEEPS.with_borrow_mut(|sleeps| sleeps.retain(|&sleep| sleep != me));
        }
    }
    // The kernel's locks order the wake before the end of the sleep. So the thread sees the word as
    // the thread that woke it left it, or newer.
    word.fetch_add(0, Ordering::SeqCst);
}

/// Wakes the thread that has slept longest, as the kernel does.
pub fn futex_wake(word: &AtomicU32) {
    SLEEPS.with_borrow_mut(|sleeps| {
        if let Some(oldest) = sleeps.iter().position(|&(at, _)| at == address(word)) {
            sleeps.remove(oldest);
        }
    });
}

/// Models have no clock.
pub fn now_ms() -> u32 {
    0
}

pub fn age(now: u32, then: u32) -> u32 {
    now.wrapping_sub(then)
}

pub fn sleep_us(_: u32) {
    spin();
}

/// Never called: the models pass a token for each thread.
pub fn thread_token() -> u32 {
    unreachable!("the models name their threads")
}

/// A model that comes here fails.
pub fn fatal(what: std::fmt::Arguments<'_>) -> ! {
    panic!("{what}")
}
