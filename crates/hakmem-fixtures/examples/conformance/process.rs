//! A process's start and end, its children, and the libraries that it loads.

use crate::support::{Block, in_child, on_signal, use_every_size, wait_for};
use core::ffi::{CStr, c_void};
use core::mem::transmute;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::Relaxed};
use std::thread;

pub const ALL: &[crate::Behaviour] = crate::behaviours! {
    malloc_is_called_before_any_constructor
    exit_handlers_and_destructors_allocate
    library_that_carries_the_allocator_is_closed
    two_copies_live_in_one_process
    child_of_a_threaded_process_allocates_and_forks_again
    fork_beside_the_first_blocks_of_threads
    signal_handler_forks_inside_the_allocator
};

static EARLY: AtomicPtr<String> = AtomicPtr::new(core::ptr::null_mut());

extern "C" fn runs_first() {
    EARLY.store(Box::into_raw(Box::new("early".repeat(10))), Relaxed);
}

/// Runs ahead of the constructors of all libraries.
#[used]
#[unsafe(link_section = ".preinit_array")]
static FIRST: extern "C" fn() = runs_first;

fn malloc_is_called_before_any_constructor() {
    // SAFETY: the box that was stored, taken once.
    let mut early = unsafe { Box::from_raw(EARLY.swap(core::ptr::null_mut(), Relaxed)) };
    early.push_str(&"late".repeat(1000));
    assert!(early.starts_with("earlyearly") && early.ends_with("late"));
}

static AT_THE_END: AtomicPtr<Vec<u8>> = AtomicPtr::new(core::ptr::null_mut());

extern "C" fn in_atexit() {
    // SAFETY: stored before this was registered.
    let kept = unsafe { &mut *AT_THE_END.load(Relaxed) };
    kept.resize(50_000, 1);
    use_every_size();
}

extern "C" fn runs_last() {
    let kept = AT_THE_END.load(Relaxed);
    if !kept.is_null() {
        // SAFETY: the box that was stored; nothing else runs any more.
        drop(unsafe { Box::from_raw(kept) });
        use_every_size();
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static LAST: extern "C" fn() = runs_last;

fn exit_handlers_and_destructors_allocate() {
    AT_THE_END.store(Box::into_raw(Box::new(vec![1u8; 100])), Relaxed);
    // SAFETY: a function that lives as long as the process.
    assert_eq!(unsafe { libc::atexit(in_atexit) }, 0);
}

/// A library that carries a copy of hakmem of its own.
struct Library {
    handle: *mut c_void,
    allocate: extern "C" fn(usize) -> *mut u8,
    release: unsafe extern "C" fn(*mut u8),
    served: extern "C" fn() -> u64,
}
// SAFETY: its functions may be called by any thread.
unsafe impl Sync for Library {}

impl Library {
    fn open() -> Self {
        // SAFETY: the library's constructors are hakmem's; its functions have the types that they
        // are given here.
        unsafe {
            let handle = libc::dlopen(
                c"./embedding.so".as_ptr(),
                libc::RTLD_NOW | libc::RTLD_LOCAL,
            );
            assert!(!handle.is_null(), "{:?}", CStr::from_ptr(libc::dlerror()));
            let symbol = |name: &CStr| {
                let at = libc::dlsym(handle, name.as_ptr());
                assert!(!at.is_null());
                at
            };
            Self {
                handle,
                allocate: transmute::<*mut c_void, extern "C" fn(usize) -> *mut u8>(symbol(
                    c"library_allocate",
                )),
                release: transmute::<*mut c_void, unsafe extern "C" fn(*mut u8)>(symbol(
                    c"library_release",
                )),
                served: transmute::<*mut c_void, extern "C" fn() -> u64>(symbol(c"library_served")),
            }
        }
    }

    fn use_it(&self) {
        let mut size = 1;
        while size < 4 << 20 {
            let (theirs, ours) = ((self.allocate)(size), Block::filled(size, 2));
            assert!(!theirs.is_null() && theirs != ours.start);
            // SAFETY: a live block of that size, ours to write and to free.
            unsafe {
                theirs.write_bytes(1, size);
                assert!(ours.is_filled(size, 2) && theirs.add(size - 1).read() == 1);
                (self.release)(theirs);
            }
            size = size * 3 + 1;
        }
    }
}

fn two_copies_live_in_one_process() {
    let library = Library::open();
    let before = (library.served)();
    library.use_it();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| library.use_it());
        }
    });
    in_child(|| library.use_it());
    assert!((library.served)() - before >= 50);
}

fn library_that_carries_the_allocator_is_closed() {
    for _ in 0..10 {
        let library = Library::open();
        library.use_it();
        let (used, closed) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            // It ends after the library has gone: nothing of it may be called then.
            scope.spawn(|| {
                library.use_it();
                used.wait();
                closed.wait();
            });
            used.wait();
            // SAFETY: nobody calls its functions any more.
            assert_eq!(unsafe { libc::dlclose(library.handle) }, 0);
            closed.wait();
        });
        in_child(use_every_size);
    }
}

fn child_of_a_threaded_process_allocates_and_forks_again() {
    let stop = AtomicBool::new(false);
    let kept = Block::filled(1000, 5);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    use_every_size();
                    hakmem_core::c::trim();
                }
            });
        }
        for _ in 0..20 {
            in_child(|| {
                use_every_size();
                thread::spawn(use_every_size).join().expect("a thread");
                in_child(use_every_size);
                assert!(kept.is_filled(1000, 5));
            });
        }
        stop.store(true, Relaxed);
    });
}

fn fork_beside_the_first_blocks_of_threads() {
    for _ in 0..50 {
        let start = Barrier::new(3);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    start.wait();
                    drop(Block::filled(100, 1));
                });
            }
            start.wait();
            in_child(use_every_size);
        });
    }
}

static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn fork_here(_: i32) {
    let before = crate::support::errno();
    // SAFETY: POSIX lets a handler fork; the child ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: no preconditions.
        unsafe { libc::_exit(0) };
    }
    wait_for(child);
    FORKS.fetch_add(1, Relaxed);
    crate::support::set_errno(before);
}

fn signal_handler_forks_inside_the_allocator() {
    on_signal(libc::SIGVTALRM, fork_here, libc::SA_RESTART);
    let timer = |microseconds| {
        let every = libc::timeval {
            tv_sec: 0,
            tv_usec: microseconds,
        };
        let value = libc::itimerval {
            it_interval: every,
            it_value: every,
        };
        // SAFETY: the struct is valid; the old value is not asked for.
        let set = unsafe { libc::setitimer(libc::ITIMER_VIRTUAL, &value, core::ptr::null_mut()) };
        assert_eq!(set, 0);
    };
    timer(1000);
    while FORKS.load(Relaxed) < 50 {
        use_every_size();
        hakmem_core::c::trim();
    }
    timer(0);
    use_every_size();
}
