//! A kernel with larger system pages than the machine's, for tests. Only the feature
//! `fault-injection` compiles it.
//!
//! Kernels with system pages of 16 or 64 KiB refuse a range that begins inside a system page. They
//! round every length up to whole system pages. This module does both. So tests see what a call
//! changes beyond its range, and which calls such a kernel refuses. Page faults still bring in
//! system pages of the machine's size.

use super::linux::{machine_page, raw, succeeded};
use crate::base::sync::{AtomicUsize, Ordering::Relaxed};

const VARIABLE: &core::ffi::CStr = c"TEST_HAKMEM_PAGE_BYTES";
/// The environment has not been read yet.
const UNKNOWN: usize = 0;
/// System pages have the machine's size.
const NONE: usize = 1;
static PAGE: AtomicUsize = AtomicUsize::new(UNKNOWN);

/// Sets the size of a system page, a power of two. To be called before anything is mapped.
pub fn set_page_size(bytes: usize) {
    assert!(bytes.is_power_of_two() && bytes >= machine_page());
    PAGE.store(bytes, Relaxed);
}

/// The size of a system page: the one that was set, or the environment's, or the machine's.
pub fn page_size() -> usize {
    match PAGE.load(Relaxed) {
        UNKNOWN => {
            PAGE.store(from_environment().unwrap_or(NONE), Relaxed);
            page_size()
        }
        NONE => machine_page(),
        bytes => bytes,
    }
}

fn from_environment() -> Option<usize> {
    // SAFETY: the name is a C string, and the tests do not change the environment.
    let value = unsafe { libc::getenv(VARIABLE.as_ptr()).as_ref() }?;
    // SAFETY: getenv returned a C string, which stays: the tests do not change the environment.
    let value = unsafe { core::ffi::CStr::from_ptr(value) };
    let bytes = value.to_str().ok()?.parse::<usize>().ok()?;
    (bytes.is_power_of_two() && bytes > machine_page()).then_some(bytes)
}

/// Makes a system call as such a kernel would.
pub(super) fn call(number: libc::c_long, mut a: [usize; 6]) -> isize {
    const REFUSED: isize = -(libc::EINVAL as isize);
    let page = page_size();
    if page == machine_page() {
        return raw(number, a);
    }
    let whole = |n: usize| n.checked_next_multiple_of(page).unwrap_or(n);
    let is_inside_a_page = |at: usize| !at.is_multiple_of(page);
    let fixed = (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) as usize;
    match number {
        libc::SYS_mmap if a[3] & fixed == 0 => {
            a[1] = whole(a[1]);
            map(a, page)
        }
        libc::SYS_mmap | libc::SYS_munmap | libc::SYS_mprotect | libc::SYS_madvise
            if is_inside_a_page(a[0]) =>
        {
            REFUSED
        }
        libc::SYS_mmap | libc::SYS_munmap | libc::SYS_mprotect | libc::SYS_madvise => {
            a[1] = whole(a[1]);
            raw(number, a)
        }
        libc::SYS_pread64 if is_of_proc(a[0]) => read_pagemap(a, page),
        libc::SYS_mincore if is_inside_a_page(a[0]) => REFUSED,
        libc::SYS_mincore => ask_residence(a, page),
        libc::SYS_mremap => {
            a[1] = whole(a[1]);
            a[2] = whole(a[2]);
            let to_a_place = a[3] & libc::MREMAP_FIXED as usize != 0;
            if is_inside_a_page(a[0]) || to_a_place && is_inside_a_page(a[4]) {
                return REFUSED;
            }
            if to_a_place { raw(number, a) } else { move_somewhere(a, page) }
        }
        _ => raw(number, a),
    }
}

/// Maps a range at a place of the kernel's choice, at the beginning of a larger system page.
fn map(mut a: [usize; 6], page: usize) -> isize {
    let len = a[1];
    let Some(more) = len.checked_add(page) else { return -(libc::ENOMEM as isize) };
    a[1] = more;
    let got = raw(libc::SYS_mmap, a);
    if !succeeded(got) {
        return got;
    }
    let (from, to) = (got as usize, got as usize + more);
    let start = from.next_multiple_of(page);
    for (at, end) in [(from, start), (start + len, to)] {
        if at < end {
            raw(libc::SYS_munmap, [at, end - at, 0, 0, 0, 0]);
        }
    }
    start as isize
}

/// Moves a range to such a place. The first mremap goes to a place of the kernel's choice: that
/// call refuses a range of several maps, as the real one does.
fn move_somewhere(a: [usize; 6], page: usize) -> isize {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    let moved = raw(libc::SYS_mremap, a);
    if !succeeded(moved) || (moved as usize).is_multiple_of(page) {
        return moved;
    }
    let (half_way, len) = (moved as usize, a[2]);
    let place = map([0, len, libc::PROT_NONE as usize, flags, usize::MAX, 0], page);
    assert!(succeeded(place), "no room for a test");
    let to_place = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
    raw(libc::SYS_mremap, [half_way, len, len, to_place, place as usize, 0])
}

/// True for a file of `/proc`. `os` reads only one such file by `pread64`: `/proc/self/pagemap`.
fn is_of_proc(file: usize) -> bool {
    // SAFETY: all fields of statfs are integers, so all zero bytes are a valid one.
    let mut system: libc::statfs = unsafe { core::mem::zeroed() };
    let to = (&raw mut system).expose_provenance();
    succeeded(raw(libc::SYS_fstatfs, [file, to, 0, 0, 0, 0]))
        && system.f_type == libc::PROC_SUPER_MAGIC
}

/// The most parts of a larger system page.
const MOST: usize = 64;

/// mincore. A larger system page is resident if one of its parts is.
fn ask_residence([at, len, to, ..]: [usize; 6], page: usize) -> isize {
    let parts = page / machine_page();
    assert!(parts <= MOST);
    for i in 0..len.div_ceil(page) {
        let mut bytes = [0u8; MOST];
        let into = bytes.as_mut_ptr().expose_provenance();
        let done = raw(libc::SYS_mincore, [at + i * page, page, into, 0, 0, 0]);
        if done != 0 {
            return done;
        }
        let byte = bytes[..parts].iter().fold(0, |all, byte| all | byte);
        // SAFETY: the caller gave a writable byte at `to` for each larger page of the range.
        unsafe { super::at(to + i).write(byte) };
    }
    0
}

/// Reads `/proc/self/pagemap`. A larger system page is resident if one of its parts is.
fn read_pagemap([file, to, len, offset, ..]: [usize; 6], page: usize) -> isize {
    const WORD: usize = size_of::<u64>();
    let parts = page / machine_page();
    assert!(parts <= MOST);
    for i in 0..len / WORD {
        let mut words = [0u64; MOST];
        let into = words.as_mut_ptr().expose_provenance();
        let from = (offset + i * WORD) * parts;
        let done = raw(libc::SYS_pread64, [file, into, parts * WORD, from, 0, 0]);
        if done != (parts * WORD) as isize {
            return done;
        }
        let word = words[..parts].iter().fold(0, |all, word| all | word);
        // SAFETY: `i` is below `len / WORD`, and the caller gave `len` writable bytes at `to`.
        unsafe { super::at(to).cast::<u64>().wrapping_add(i).write(word) };
    }
    len as isize
}
