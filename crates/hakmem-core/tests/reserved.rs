//! How much address space is reserved, as `docs/design.md` has it: eight times the physical memory, or an eighth of a limit.
//!
//! Each runs in a process of its own, as the reservation is the process's.
#![cfg(not(any(loom, shuttle)))]

mod oracle;

use hakmem_core::{c, stats};
use oracle::alone;

const MIB: usize = 1 << 20;
const SLOT: usize = stats::SLOT_BYTES;
const SEGMENT: usize = stats::SEGMENT_BYTES;
/// Bytes of metadata for a segment.
const META: usize = 4096;

fn take(n: usize) -> *mut u8 {
    // SAFETY: any size may be asked for.
    unsafe { c::malloc(n) }
}

fn limit_address_space(bytes: usize) {
    let limit = libc::rlimit {
        rlim_cur: bytes as u64,
        rlim_max: bytes as u64,
    };
    // SAFETY: reads the structure.
    let done = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    assert_eq!(done, 0);
}

fn physical_memory() -> usize {
    // SAFETY: all zero bytes are a sysinfo, and sysinfo fills it.
    let info = unsafe {
        let mut info: libc::sysinfo = std::mem::zeroed();
        assert_eq!(libc::sysinfo(&raw mut info), 0);
        info
    };
    info.totalram as usize * info.mem_unit as usize
}

/// Asserts that so much was reserved as an arena of `bytes` takes: with its metadata, a bitmap of 64 bytes for each 64
/// segments and some words above these, and what is lost by alignment.
fn assert_reserved(reserved: usize, bytes: usize) {
    let segments = bytes.div_ceil(SEGMENT);
    let least = segments * (SEGMENT + META) + segments.div_ceil(64) * 64 + SLOT + SEGMENT;
    let words = 6 * segments.div_ceil(64 * 64) * 8;
    assert!(
        (least + words..=least + words + 128).contains(&reserved),
        "{reserved} for {bytes}, {least} at least"
    );
}

fn reserved() -> usize {
    stats::process().reserved_bytes as usize
}

/// Bytes that the process has mapped.
fn size() -> usize {
    let maps = std::fs::read_to_string("/proc/self/statm").unwrap();
    maps.split(' ').next().unwrap().parse::<usize>().unwrap() * 4096
}

fn without_a_limit() {
    assert!(!take(1).is_null());
    assert_reserved(reserved(), (8 * physical_memory()).clamp(1 << 30, 1 << 44));
}

/// The first arena is an eighth of the limit, and so are the next ones.
fn an_eighth() {
    limit_address_space(1024 * MIB);
    assert!(!take(1).is_null());
    let first = reserved();
    assert_reserved(first, 128 * MIB);
    // One that does not fit gets an arena that is large enough.
    assert!(!take(200 * MIB).is_null());
    assert_reserved(reserved() - first, 200 * MIB + SEGMENT);
}

/// What is not to be had as a whole is had in part.
fn less_and_less() {
    limit_address_space(1024 * MIB);
    // SAFETY: a map of its own, which stays.
    let map = unsafe {
        let (none, private) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        libc::mmap(std::ptr::null_mut(), 900 * MIB, none, private, -1, 0)
    };
    assert_ne!(map, libc::MAP_FAILED);
    let left = 1024 * MIB - size();
    assert!(left < 128 * MIB && !take(1).is_null());
    // Halved until it fits.
    let bytes = [64, 32, 16, 8, 4]
        .map(|n| n * MIB)
        .into_iter()
        .find(|&n| n + 3 * MIB < left);
    assert_reserved(reserved(), bytes.unwrap());
}

/// There are so many maps that the kernel makes one more, but does not divide it: then the reservation cannot be used.
fn no_more_maps() {
    // SAFETY: maps of their own. Every other one has other rights, so that none are joined.
    let map = |readable| unsafe {
        let rights = if readable {
            libc::PROT_READ
        } else {
            libc::PROT_NONE
        };
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        libc::mmap(std::ptr::null_mut(), 4096, rights, private, -1, 0)
    };
    let mut maps = Vec::with_capacity(1 << 20);
    loop {
        let next = map(maps.len() % 2 == 0);
        if next == libc::MAP_FAILED {
            break;
        }
        maps.push(next);
        if maps.len() == maps.capacity() {
            return println!("this kernel has room for any number of maps");
        }
    }
    // SAFETY: the last one, which nobody uses.
    assert_eq!(unsafe { libc::munmap(maps.pop().unwrap(), 4096) }, 0);
    let before = size();
    for _ in 0..3 {
        assert!(take(1).is_null());
        assert_eq!((reserved(), size()), (0, before));
    }
    // SAFETY: as above.
    maps.into_iter()
        .for_each(|map| unsafe { assert_eq!(libc::munmap(map, 4096), 0) });
    assert!(!take(1).is_null());
}

/// What was never used goes, but for an eighth of the limit that is to come.
fn tails() {
    let p = take(100 * MIB);
    assert!(!p.is_null());
    c::fit_address_limit(512 * MIB);
    let used = reserved();
    // The block and a segment for the heap, rounded up to groups in their metadata.
    assert!((102 * MIB..106 * MIB).contains(&used), "{used}");
    // SAFETY: live, and gone from here on.
    unsafe { c::free(p) };
    c::fit_address_limit(512 * MIB);
    let eighth = reserved();
    assert!((64 * MIB..68 * MIB).contains(&eighth), "{eighth}");
    c::fit_address_limit(0);
    let least = reserved();
    assert!(least < 6 * MIB, "{least}");
    assert!(!take(100).is_null() && !take(3 * MIB).is_null());
}

#[test]
fn eight_times_the_memory() {
    alone("eight_times_the_memory", without_a_limit);
}

#[test]
fn an_eighth_of_the_limit() {
    alone("an_eighth_of_the_limit", an_eighth);
}

#[test]
fn what_is_left_is_taken() {
    alone("what_is_left_is_taken", less_and_less);
}

#[test]
fn a_reservation_that_cannot_be_used_is_given_up() {
    alone(
        "a_reservation_that_cannot_be_used_is_given_up",
        no_more_maps,
    );
}

#[test]
fn what_was_not_used_is_given_up() {
    alone("what_was_not_used_is_given_up", tails);
}
