//! Threads, and what runs at their ends.

use crate::support::{Block, on_signal, use_every_size};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

pub const ALL: &[crate::Behaviour] = crate::behaviours! {
    threads_with_stacks_of_64_kib_allocate
    thread_local_destructors_free_and_allocate
    thread_destructors_free_and_allocate_after_our_hook
    ended_threads_leave_their_memory_to_others
    handler_on_an_alternate_stack_allocates
};

fn with_small_stacks(times: usize, work: impl Fn() + Copy + Send + 'static) {
    for _ in 0..times {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let builder = thread::Builder::new().stack_size(64 << 10);
                builder.spawn(work).expect("a thread")
            })
            .collect();
        for thread in threads {
            thread.join().expect("the thread ends well");
        }
    }
}

fn threads_with_stacks_of_64_kib_allocate() {
    with_small_stacks(20, || {
        use_every_size();
        hakmem_core::c::trim();
    });
}

struct Late(Vec<u8>);

impl Drop for Late {
    fn drop(&mut self) {
        assert!(self.0.iter().all(|&byte| byte == 9));
        drop(core::mem::take(&mut self.0));
        use_every_size();
    }
}

thread_local! {
    static LATE: RefCell<Late> = const { RefCell::new(Late(Vec::new())) };
}

fn thread_local_destructors_free_and_allocate() {
    let fill = || LATE.with_borrow_mut(|late| late.0 = vec![9; 1000]);
    with_small_stacks(20, fill);
    fill(); // And the main thread's, at exit.
}

static LATE_RUNS: AtomicU32 = AtomicU32::new(0);

/// Keys made after the allocator's own: theirs run behind it.
extern "C" fn late(block: *mut libc::c_void) {
    // SAFETY: the block that was stored, once.
    drop(unsafe { Box::from_raw(block.cast::<[u8; 100]>()) });
    if LATE_RUNS.fetch_add(1, Relaxed).is_multiple_of(8) {
        use_every_size();
    }
}

fn thread_destructors_free_and_allocate_after_our_hook() {
    for _ in 0..20 {
        let mut key = 0;
        // SAFETY: a place for the key, and a function that lives as long as the process.
        assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(late)) }, 0);
        with_small_stacks(5, move || {
            let block = Box::into_raw(Box::new([1u8; 100]));
            // SAFETY: a valid key.
            assert_eq!(unsafe { libc::pthread_setspecific(key, block.cast()) }, 0);
        });
    }
    assert_eq!(LATE_RUNS.load(Relaxed), 20 * 5 * 4);
}

fn ended_threads_leave_their_memory_to_others() {
    with_small_stacks(500, || {
        drop((0..300).map(|_| Block::filled(1000, 1)).collect::<Vec<_>>())
    });
    // SAFETY: zeroes are a valid struct, and it is valid for the write.
    let usage = unsafe {
        let mut usage: libc::rusage = core::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &mut usage), 0);
        usage
    };
    assert!(
        usage.ru_maxrss < 60 << 10,
        "{} KiB resident",
        usage.ru_maxrss
    );
}

static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_small_stack(_: i32) {
    use_every_size();
    HANDLED.fetch_add(1, Relaxed);
}

fn handler_on_an_alternate_stack_allocates() {
    let memory = Block::filled(16 << 10, 0);
    let stack = libc::stack_t {
        ss_sp: memory.start.cast(),
        ss_flags: 0,
        ss_size: 16 << 10,
    };
    on_signal(libc::SIGUSR1, on_small_stack, libc::SA_ONSTACK);
    // SAFETY: the memory is a live block until the stack is disabled; the signal comes where
    // nothing is interrupted.
    unsafe {
        let mut old: libc::stack_t = core::mem::zeroed();
        assert_eq!(libc::sigaltstack(&stack, &mut old), 0);
        for _ in 0..20 {
            let block = Block::filled(100, 1);
            assert_eq!(libc::raise(libc::SIGUSR1), 0);
            drop(block);
        }
        assert_eq!(libc::sigaltstack(&old, core::ptr::null_mut()), 0);
    }
    assert_eq!(HANDLED.load(Relaxed), 20);
}
