//! The functions of C that the soak calls, with their results checked.

use super::pattern::Block;
use hakmem_bench::rng::Rng;
use std::ptr::NonNull;

/// Ends the process with the reason: the parent shows it.
pub fn fail(what: &str) -> ! {
    eprintln!("soak: {what}");
    std::process::abort()
}

/// A block got by `malloc`, `calloc` or one of the aligned ones, chosen at random, and written.
pub fn allocate(rng: &mut Rng, size: usize) -> Block {
    let mark = rng.bits();
    let start = match rng.below(16) {
        0..2 => zeroed(size),
        2 => aligned(size, 16 << rng.below(9)),
        3 => aligned_whole(size, 16 << rng.below(4)),
        // SAFETY: takes a number.
        _ => unsafe { libc::malloc(size) },
    };
    Block::new(checked(start, size, 16), size, mark)
}

fn zeroed(size: usize) -> *mut libc::c_void {
    // SAFETY: takes numbers.
    let start = unsafe { libc::calloc(1, size) };
    if !start.is_null() {
        // SAFETY: calloc gave so many bytes, and initialised them.
        let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), size) };
        // A byte of each cache line, and both ends, of a large one.
        let step = if size > 4096 { 61 } else { 1 };
        if bytes
            .iter()
            .step_by(step)
            .chain(bytes.last())
            .any(|b| *b != 0)
        {
            fail(&format!("calloc({size}) gave memory that is not zero"));
        }
    }
    start
}

fn aligned(size: usize, alignment: usize) -> *mut libc::c_void {
    let mut start = std::ptr::null_mut();
    // SAFETY: the pointer is alive; the alignment is a power of two and at least that of a pointer.
    let code = unsafe { libc::posix_memalign(&raw mut start, alignment, size) };
    if code != 0 {
        fail(&format!(
            "posix_memalign({alignment}, {size}) failed with {code}"
        ));
    }
    checked(start, size, alignment).as_ptr().cast()
}

fn aligned_whole(size: usize, alignment: usize) -> *mut libc::c_void {
    // SAFETY: takes numbers.
    let start = unsafe { libc::aligned_alloc(alignment, size.next_multiple_of(alignment)) };
    checked(start, size, alignment).as_ptr().cast()
}

fn checked(start: *mut libc::c_void, size: usize, alignment: usize) -> NonNull<u8> {
    let Some(start) = NonNull::new(start.cast::<u8>()) else {
        fail(&format!("no memory for {size} bytes"));
    };
    if start.addr().get() % alignment != 0 {
        fail(&format!("{start:p} is not aligned to {alignment}"));
    }
    // SAFETY: a live block.
    let usable = unsafe { libc::malloc_usable_size(start.as_ptr().cast()) };
    if usable < size {
        fail(&format!("{usable} bytes of {size} are usable"));
    }
    start
}

/// Checks a block and frees it.
pub fn free(block: Block) {
    verify(&block);
    // SAFETY: the block is owned by the argument, so it is live and freed once.
    unsafe { libc::free(block.start.as_ptr().cast()) };
}

/// Ends the process if the block is damaged.
pub fn verify(block: &Block) {
    if let Err(damage) = block.check() {
        fail(&damage);
    }
}

/// Changes the size of a block.
pub fn resize(block: Block, size: usize) -> Block {
    verify(&block);
    // SAFETY: the block is owned by the argument.
    let start = unsafe { libc::realloc(block.start.as_ptr().cast(), size) };
    block
        .moved(checked(start, size, 16), size)
        .unwrap_or_else(|damage| fail(&damage))
}

/// Sizes as programs ask for: mostly small, now and then some kilobytes, seldom more.
pub fn any_size(rng: &mut Rng) -> usize {
    match rng.below(1000) {
        0 => rng.between(64 << 10, 1 << 20),
        1..20 => rng.between(4 << 10, 64 << 10),
        20..200 => rng.between(257, 4096),
        _ => rng.between(1, 256),
    }
}
