//! A profile that a signal handler requests.
//!
//! A handler never waits. It may have interrupted a thread that holds a lock of the arena, and the
//! thread that has the books may wait for that lock. So a handler that finds the books taken leaves
//! its request. The thread that has the books then fulfils it, once it has let go of the books and
//! of all locks.

use super::Busy;
use super::kept;
use super::late::{self, FreeWhole, free_all};
use crate::base::sync::{
    AtomicPtr,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::os;
use core::mem::transmute;
use core::ptr::null_mut;

type Write = fn() -> Result<(), Busy>;

/// The function that writes the profile. Null: there is no request.
static ASKED: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// Calls `write`, which writes the profile by [`dump_at_once`](super::dump_at_once): at once, or,
/// if a thread is just changing the profile, after the next sample is taken or freed. For signal
/// handlers: it waits for nobody. Of several requests that wait, one is fulfilled.
///
/// # Safety
/// hakmem may call `write` later, in the middle of any allocation or free, on any thread. So it
/// must not unwind, and must use nothing that may be half changed at that moment: a container that
/// allocates, say.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::profile::{self, Busy, Event};
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// static BYTES: AtomicUsize = AtomicUsize::new(0);
///
/// fn write() -> Result<(), Busy> {
///     profile::dump_at_once(Event::Signal, |text| BYTES.store(text.len(), Ordering::Relaxed))?;
///     Ok(())
/// }
///
/// profile::start(profile::DEFAULT_INTERVAL);
/// // In a signal handler. SAFETY: `write` does nothing but store a number.
/// unsafe { profile::dump_soon(write) };
/// assert!(BYTES.load(Ordering::Relaxed) > 0);
/// ```
pub unsafe fn dump_soon(write: Write) {
    ASKED.store(write as *mut (), Release);
    fulfil();
}

/// Frees small samples that wait for the books, counts other frees that wait, and fulfils a
/// request, if there is one. The caller was in the books, and holds no lock.
#[inline]
pub(super) fn after_a_change() {
    late::free_small();
    kept::count_waiting();
    if !ASKED.load(Relaxed).is_null() {
        fulfil();
    }
}

/// Frees all samples that wait for the books, large and huge ones by `whole`, and fulfils a request
/// that came meanwhile. The caller holds no lock. The scavenger fulfils no request: the function
/// may be the program's, and call libc. A request then waits for the next change.
pub fn free_late(whole: FreeWhole) {
    if free_all(whole) && !ASKED.load(Relaxed).is_null() && !os::is_bare() {
        fulfil();
    }
}

#[cold]
fn fulfil() {
    // Who had the books may have let go of them, and looked for a request, before this thread put
    // its own back. So it tries once more.
    for _ in 0..2 {
        let write = ASKED.swap(null_mut(), AcqRel);
        if write.is_null() {
            return;
        }
        // SAFETY: not null, and only `dump_soon` and `fulfil` store to `ASKED`: a function of this
        // type.
        let result = unsafe { transmute::<*mut (), Write>(write) }();
        if result.is_ok() {
            return;
        }
        // If there is a newer request, it stays.
        let _ = ASKED.compare_exchange(null_mut(), write, Release, Acquire);
    }
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    use super::super::table;
    use super::*;
    use crate::base::sync::AtomicU32;
    use crate::testing::in_child;

    /// The function may be the program's, and uses libc, which does not know the scavenger.
    #[test]
    fn the_scavenger_fulfils_no_wish() {
        static ALIVE: AtomicU32 = AtomicU32::new(0);
        static WRITTEN: AtomicU32 = AtomicU32::new(0);
        static FREED: AtomicU32 = AtomicU32::new(0);
        fn write() -> Result<(), Busy> {
            table::with_books_at_once(|_| ())?;
            WRITTEN.fetch_add(1, Relaxed);
            Ok(())
        }
        unsafe fn whole(_: &crate::backend::page::Meta) {
            FREED.fetch_add(1, Relaxed);
        }
        extern "C" fn work() {
            free_late(whole);
        }
        in_child(|| {
            assert!(super::super::start(1));
            let sample = sample();
            // SAFETY: the block is live, and freed once.
            table::with_books(|_| unsafe { crate::api::c::free(sample) });
            // SAFETY: `write` counts, and does nothing else.
            table::with_books(|_| unsafe { dump_soon(write) });
            let mask = os::block_signals();
            assert!(os::spawn_bare(work, &ALIVE) != 0);
            os::restore_signals(mask);
            while let number @ 1.. = ALIVE.load(Acquire) {
                os::futex_wait_for_end(&ALIVE, number, 10);
            }
            assert_eq!((FREED.load(Relaxed), WRITTEN.load(Relaxed)), (1, 0));
            after_a_change();
            assert_eq!(WRITTEN.load(Relaxed), 1);
        });
    }

    /// A large block that is a sample.
    fn sample() -> *mut u8 {
        // SAFETY: `malloc` takes any size.
        unsafe { crate::api::c::malloc(100_000) }
    }

    #[test]
    fn a_wish_waits_for_the_books_and_is_fulfilled_once() {
        static WRITTEN: AtomicU32 = AtomicU32::new(0);
        fn write() -> Result<(), Busy> {
            table::with_books_at_once(|_| ())?;
            WRITTEN.fetch_add(1, Relaxed);
            Ok(())
        }
        in_child(|| {
            // SAFETY: `write` counts, and does nothing else.
            let dump_soon = |write| unsafe { dump_soon(write) };
            dump_soon(write);
            assert_eq!(WRITTEN.load(Relaxed), 1);
            table::with_books(|_| {
                dump_soon(write);
                dump_soon(write);
            });
            assert_eq!(WRITTEN.load(Relaxed), 1, "the books were taken");
            after_a_change();
            after_a_change();
            assert_eq!(WRITTEN.load(Relaxed), 2);
        });
    }
}
