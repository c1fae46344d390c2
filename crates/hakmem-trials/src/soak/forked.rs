//! Children made by fork amid all the other threads: they check what they inherited, allocate,
//! start a thread, and end.

use super::heap::{allocate, any_size, fail, free, verify};
use super::pattern::Block;
use super::stage::Stage;
use hakmem_bench::rng::Rng;
use hakmem_bench::storage::Table;
use std::thread;
use std::time::Duration;

/// Blocks that the forking thread keeps, and that each child checks.
const BLOCKS: usize = 2000;
/// Between two children: copying page tables is most of their cost.
const PAUSE: Duration = Duration::from_millis(100);
/// Seconds that a child may take before an alarm ends it, which is a failure.
const PATIENCE: u32 = 60;

/// Makes one child after the other.
pub fn play(stage: &Stage, role: usize, number: usize) {
    let mut rng = stage.numbers(role, number);
    let mut blocks = Table::new(BLOCKS);
    for _ in 0..BLOCKS {
        let size = any_size(&mut rng);
        let block = allocate(&mut rng, size);
        blocks.push(block);
    }
    while stage.goes_on(role) {
        let seed = rng.bits();
        let held = stage.hold();
        // SAFETY: the child calls the allocator, which is what is tested, starts a thread, and
        // leaves by `_exit`. The one lock of ours that it could meet is held by this very thread.
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop(held);
            in_child(stage, &mut blocks, &mut Rng::new(seed));
        }
        drop(held);
        if child < 0 {
            fail(&format!("fork: {}", std::io::Error::last_os_error()));
        }
        let mut status = 0;
        // SAFETY: the number is alive; the child is ours.
        while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {}
        if status != 0 {
            fail(&format!(
                "a forked child ended with wait status {status:#x}"
            ));
        }
        // Half of what it keeps is replaced, so that children inherit other pages each time.
        for _ in 0..BLOCKS / 2 {
            let (at, last) = (rng.below(BLOCKS), BLOCKS - 1);
            blocks.swap(at, last);
            if let Some(old) = blocks.pop() {
                free(old);
            }
            let size = any_size(&mut rng);
            let block = allocate(&mut rng, size);
            blocks.push(block);
        }
        thread::sleep(PAUSE);
    }
    while let Some(block) = blocks.pop() {
        free(block);
    }
}

fn in_child(stage: &Stage, blocks: &mut Table<Block>, rng: &mut Rng) -> ! {
    // SAFETY: takes a number.
    unsafe { libc::alarm(PATIENCE) };
    blocks.iter().for_each(verify);
    // Blocks that other threads of the parent made, freed by what is the only thread now.
    for _ in 0..500 {
        if let Some(block) = stage.take() {
            free(block);
        }
    }
    // Not by the standard library: a lock of its own may be held by a thread that is not here any
    // more. glibc sees to its locks in fork.
    let mut other: libc::pthread_t = 0;
    // SAFETY: the number is alive; the function has the type that is asked for and takes no
    // argument.
    let code = unsafe {
        libc::pthread_create(
            &raw mut other,
            std::ptr::null(),
            second_thread,
            std::ptr::null_mut(),
        )
    };
    if code != 0 {
        fail(&format!("pthread_create in a forked child: error {code}"));
    }
    churn(rng);
    // SAFETY: the thread was made above, and is joined once.
    unsafe { libc::pthread_join(other, std::ptr::null_mut()) };
    while let Some(block) = blocks.pop() {
        free(block);
    }
    // SAFETY: ends this process. Handlers of the parent are none of its business.
    unsafe { libc::_exit(0) }
}

extern "C" fn second_thread(nothing: *mut libc::c_void) -> *mut libc::c_void {
    churn(&mut Rng::new(2));
    nothing
}

fn churn(rng: &mut Rng) {
    let mut blocks = Table::new(300);
    for _ in 0..3000 {
        if blocks.len() == 300 {
            let (at, last) = (rng.below(300), 299);
            blocks.swap(at, last);
            if let Some(old) = blocks.pop() {
                free(old);
            }
        }
        let size = any_size(rng);
        let block = allocate(rng, size);
        blocks.push(block);
    }
    while let Some(block) = blocks.pop() {
        free(block);
    }
}
