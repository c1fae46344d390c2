//! Errors that unsafe code of a Rust program can commit. Each is the 1st and the 200th of the
//! program's allocations of its size, at three sizes, in a child of its own. For each child a line
//! says what became of it: `ERROR SIZE EVENT OUTCOME`.
//!
//! `missed`: nobody noticed. `harmless`: the program could not see or use what it should not.
//! `report`: a line names the error. `fault`: the system ended the child.

use hakmem_core::Hakmem;
use std::alloc::{Layout, alloc, dealloc, realloc};
use std::hint::black_box;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd};

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

const SIZES: [usize; 3] = [40, 3000, 200_000];
const EVENTS: [usize; 2] = [1, 200];
const SECRET: u8 = 0x5a;
const HARMLESS: i32 = 42;
static mut VARIABLE: [u64; 8] = [0; 8];

/// What an error is committed with.
#[derive(Clone, Copy)]
struct Of(usize);

impl Of {
    fn layout(self) -> Layout {
        Layout::from_size_align(self.0, 8).expect("a layout")
    }

    /// A block full of the secret.
    fn block(self) -> *mut u8 {
        // SAFETY: the size is not 0, and the block has as many bytes.
        unsafe {
            let p = black_box(alloc(self.layout()));
            p.write_bytes(SECRET, self.0);
            black_box(p)
        }
    }

    /// # Safety
    /// None is kept: that is what the program is for.
    unsafe fn free(self, p: *mut u8) {
        // SAFETY: none: the program makes errors on purpose.
        unsafe { dealloc(black_box(p), self.layout()) }
    }

    /// # Safety
    /// None is kept: that is what the program is for.
    unsafe fn free_as(self, p: *mut u8, size: usize, align: usize) {
        // SAFETY: none: the program makes errors on purpose.
        unsafe {
            dealloc(
                black_box(p),
                Layout::from_size_align(size, align).expect("a layout"),
            )
        }
    }

    /// How many of its bytes still are the secret.
    ///
    /// # Safety
    /// None is kept: that is what the program is for.
    unsafe fn still(self, p: *mut u8) -> usize {
        // SAFETY: none: the program makes errors on purpose.
        let is_secret = |i: &usize| unsafe { black_box(p).add(*i).read_volatile() } == SECRET;
        (0..self.0).filter(is_secret).count()
    }
}

fn harmless() -> ! {
    // SAFETY: no preconditions.
    unsafe { libc::_exit(HARMLESS) }
}

/// Changes each of these bytes: a tag has any value by chance.
unsafe fn overwrite(p: *mut u8, bytes: usize) {
    for i in 0..bytes {
        // SAFETY: none: the error.
        unsafe { p.add(i).write_volatile(p.add(i).read_volatile() ^ 0x41) };
    }
}

/// Writes behind a block.
unsafe fn over(of: Of, bytes: usize) {
    // SAFETY: none: the error.
    unsafe {
        let p = of.block();
        overwrite(p.add(of.0), bytes);
        of.free(p);
    }
}

/// Writes in front of one.
unsafe fn under(of: Of, bytes: usize) {
    // SAFETY: none: the error.
    unsafe {
        let p = of.block();
        overwrite(p.sub(bytes), bytes);
        of.free(p);
    }
}

/// Frees a pointer into one.
unsafe fn inside(of: Of, offset: usize) {
    // SAFETY: none: the error.
    unsafe { of.free(of.block().add(offset)) }
}

/// Writes to a freed one.
unsafe fn write_freed(of: Of, offset: usize) {
    // SAFETY: none: the error.
    unsafe {
        let p = of.block();
        of.free(p);
        let at = black_box(p).add(offset);
        at.write_volatile(if at.read_volatile() == 0x41 {
            0x42
        } else {
            0x41
        });
    }
}

unsafe fn twice_later(of: Of) {
    // SAFETY: none: the error.
    unsafe {
        let p = of.block();
        of.free(p);
        let others: Vec<_> = (0..20).map(|_| Of(of.0 * 3).block()).collect();
        others
            .into_iter()
            .for_each(|other| Of(of.0 * 3).free(other));
        of.free(p);
    }
}

unsafe fn twice_by_another(of: Of) {
    let p = of.block().expose_provenance();
    // SAFETY: none: the error.
    let free = move || unsafe { of.free(std::ptr::with_exposed_provenance_mut(p)) };
    std::thread::spawn(free).join().expect("the thread ends");
    free();
}

/// `Vec::set_len` over memory that nobody wrote to shows what other code had there.
#[allow(clippy::uninit_vec, reason = "the error")]
unsafe fn read_reused(of: Of) {
    // SAFETY: none: the error.
    unsafe {
        (0..100).for_each(|_| of.free(of.block()));
        for _ in 0..200 {
            let mut read = Vec::<u8>::with_capacity(of.0);
            read.set_len(of.0);
            if of.still(read.as_mut_ptr()) >= of.0 / 8 {
                return;
            }
            std::mem::forget(read);
        }
        harmless();
    }
}

/// A write through a dangling pointer must not choose what an allocation returns.
unsafe fn poison(of: Of) {
    static mut TARGET: [u64; 512] = [0; 512];
    let address = (&raw mut TARGET).addr() + 64;
    // SAFETY: none: the error.
    unsafe {
        let [p, q] = [of.block(), of.block()];
        of.free(p);
        of.free(q);
        for p in [q, p] {
            black_box(p).cast::<usize>().write_volatile(address);
        }
        if (0..3000).all(|_| black_box(alloc(of.layout())).addr() != address) {
            harmless();
        }
    }
}

type Error = unsafe fn(Of);

/// All errors.
fn all() -> Vec<(&'static str, Error)> {
    macro_rules! errors {
        ($($name:ident: |$of:ident| $error:expr),* $(,)?) => {
            vec![$((
                stringify!($name),
                // SAFETY: none: the error.
                (|$of: Of| unsafe { $error; }) as Error,
            )),*]
        };
    }
    errors![
        over_1: |of| over(of, 1),
        over_32: |of| over(of, 32),
        over_1m: |of| over(of, 1 << 20),
        over_1_lost: |of| overwrite(of.block().add(of.0), 1),
        over_after_realloc: |of| {
            let p = black_box(realloc(of.block(), of.layout(), of.0 * 2));
            overwrite(p.add(of.0 * 2), 1);
            Of(of.0 * 2).free(p)
        },
        under_1: |of| under(of, 1),
        under_32: |of| under(of, 32),
        twice: |of| {
            let p = of.block();
            of.free(p);
            of.free(p)
        },
        twice_later: |of| twice_later(of),
        twice_between: |of| {
            let [p, q] = [of.block(), of.block()];
            of.free(p);
            of.free(q);
            of.free(p)
        },
        twice_by_another: |of| twice_by_another(of),
        realloc_freed: |of| {
            let p = of.block();
            of.free(p);
            black_box(realloc(black_box(p), of.layout(), of.0 * 2))
        },
        inside_8: |of| inside(of, 8),
        inside_16: |of| inside(of, 16),
        inside_half: |of| inside(of, of.0 / 2 / 16 * 16),
        unaligned: |of| inside(of, 1),
        realloc_inside: |of| black_box(realloc(of.block().add(16), of.layout(), of.0 * 2)),
        on_stack: |of| {
            let mut there = [0_u128; 4];
            of.free(black_box(&raw mut there).cast())
        },
        variable: |of| of.free(black_box(&raw mut VARIABLE).cast()),
        block_of_c: |of| of.free(libc::malloc(of.0).cast()),
        write_freed_start: |of| write_freed(of, 0),
        write_freed_middle: |of| write_freed(of, of.0 / 2),
        write_freed_end: |of| write_freed(of, of.0 - 1),
        read_freed: |of| {
            let p = of.block();
            of.free(p);
            if of.still(p) < of.0 / 8 {
                harmless()
            }
        },
        read_reused: |of| read_reused(of),
        poison: |of| poison(of),
        free_smaller: |of| of.free_as(of.block(), of.0 / 2, 8),
        free_larger: |of| of.free_as(of.block(), of.0 * 2, 8),
        free_near: |of| of.free_as(of.block(), of.0 - 1, 8),
        free_aligned: |of| of.free_as(of.block(), of.0, 1),
    ]
}

/// Commits an error among correct events, and goes on as the program did.
///
/// # Safety
/// None is kept.
unsafe fn commit(error: Error, of: Of, event: usize) {
    // SAFETY: blocks are freed once, but for the error.
    unsafe {
        (1..event).for_each(|_| of.free(of.block()));
        let mut others: Vec<_> = (0..32).map(|_| of.block()).collect();
        error(of);
        others.extend((0..32).map(|_| of.block()));
        (0..300).for_each(|_| of.free(of.block()));
        others.into_iter().for_each(|p| of.free(p));
        let more: Vec<_> = (0..200).map(|_| of.block()).collect();
        more.into_iter().for_each(|p| of.free(p));
    }
}

/// Runs `f` in a child. What became of it?
fn outcome(f: impl FnOnce()) -> &'static str {
    let mut ends = [0; 2];
    // SAFETY: room for two numbers. They are then this function's alone.
    let [mut from, into] = unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        ends.map(|end| std::fs::File::from_raw_fd(end))
    };
    // SAFETY: this process has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: plain calls; `exit` runs what checks blocks at the end.
        unsafe {
            libc::alarm(60);
            libc::dup2(into.as_raw_fd(), 2);
            f();
            libc::exit(0);
        }
    }
    drop(into);
    let (mut said, mut status) = (Vec::new(), 0);
    from.read_to_end(&mut said).expect("the pipe is read");
    // SAFETY: the child is this process's.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    let ended_by = if libc::WIFSIGNALED(status) {
        libc::WTERMSIG(status)
    } else {
        0
    };
    match (ended_by, libc::WEXITSTATUS(status)) {
        (0, 0) => "missed",
        (0, HARMLESS) => "harmless",
        (libc::SIGABRT, _) if said.starts_with(b"hakmem: ") => "report",
        (libc::SIGSEGV | libc::SIGBUS, _) => "fault",
        _ => panic!("status {status}: {}", String::from_utf8_lossy(&said)),
    }
}

fn main() {
    for (name, error) in all() {
        for size in SIZES {
            for event in EVENTS {
                // SAFETY: none is kept.
                let became = outcome(|| unsafe { commit(error, Of(size), event) });
                println!("{name} {size} {event} {became}");
            }
        }
    }
}
