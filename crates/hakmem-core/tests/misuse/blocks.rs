//! Blocks as a misuse takes and frees them, by whichever thread, and what brings it to light.

use hakmem_core::{Hakmem, c};
use std::alloc::{GlobalAlloc, Layout};

pub const SLOT: usize = 64 << 10;

pub fn take(n: usize) -> *mut u8 {
    // SAFETY: any size may be asked for.
    unsafe { c::malloc(n) }
}

pub fn free(p: *mut u8) {
    // SAFETY: none: that is what is tried.
    unsafe { c::free(p) }
}

pub fn free_elsewhere(blocks: &[*mut u8]) {
    let addresses: Vec<usize> = blocks.iter().map(|p| p.expose_provenance()).collect();
    let freer = move || {
        addresses
            .into_iter()
            .for_each(|a| free(std::ptr::with_exposed_provenance_mut(a)))
    };
    std::thread::spawn(freer).join().unwrap();
}

/// Makes the pages of `size` change hands: what is wrong with a list shows when it does.
pub fn go_on(size: usize) {
    for _ in 0..200 {
        let blocks: Vec<_> = (0..SLOT / size).map(|_| take(size)).collect();
        blocks.into_iter().for_each(free);
    }
}

/// Has a thread that shares do something with a block of 64 bytes of a shared page.
pub fn shared(misuse: fn(*mut u8)) {
    hakmem_core::options::set("SHARED_FROM_HEAPS", "1").unwrap();
    // So that the page does not become empty.
    let _other = take(64);
    let thread = std::thread::spawn(move || {
        let _first = take(64);
        misuse(take(64));
    });
    thread.join().unwrap();
}

/// Of a size that only the front end for Rust has.
pub fn take_odd(words: usize) -> *mut u8 {
    // SAFETY: the size is not 0.
    unsafe { Hakmem.alloc(Layout::array::<u64>(words).unwrap()) }
}

pub fn free_odd(p: *mut u8, words: usize) {
    // SAFETY: none: that is what is tried.
    unsafe { Hakmem.dealloc(p, Layout::array::<u64>(words).unwrap()) }
}

/// Another thread frees them.
pub fn free_odd_elsewhere(blocks: &[*mut u8], words: usize) {
    let addresses: Vec<usize> = blocks.iter().map(|p| p.expose_provenance()).collect();
    let freer = move || {
        for address in addresses {
            free_odd(std::ptr::with_exposed_provenance_mut(address), words);
        }
    };
    std::thread::spawn(freer).join().unwrap();
}

/// What is on the lists is handed out, and what others freed is merged.
pub fn go_on_odd(words: usize) {
    for _ in 0..4 {
        let blocks: Vec<_> = (0..SLOT / words / 8).map(|_| take_odd(words)).collect();
        blocks.into_iter().for_each(|p| free_odd(p, words));
    }
}
