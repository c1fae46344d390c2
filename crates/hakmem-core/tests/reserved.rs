//! How much address space is reserved, as `docs/decisions.md` has it: eight times the physical
//! memory, or an eighth of a limit; and how much of it is charged to the process.
//!
//! Each runs in a process of its own, as the reservation is the process's.
#![cfg(not(any(loom, shuttle)))]

use crate::oracle;

use hakmem_core::{c, stats};
use oracle::{alone, limit_address_space};

const MIB: usize = 1 << 20;
const SLOT: usize = stats::SLOT_BYTES;
const SEGMENT: usize = stats::SEGMENT_BYTES;
/// Bytes of metadata for a segment.
const META: usize = 4096;

fn take(n: usize) -> *mut u8 {
    // SAFETY: any size may be asked for.
    unsafe { c::malloc(n) }
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

/// What the first heaps take.
const HEAPS: usize = 4 * SLOT + (8 << 10);

/// Asserts that so much was reserved as an arena of `bytes` takes: with its metadata, a bitmap of
/// 64 bytes for each 64 segments and some words above these, three guards, and what is lost by
/// alignment: little of it where there is a limit.
fn assert_reserved(reserved: usize, bytes: usize, is_limited: bool) {
    let segments = bytes.div_ceil(SEGMENT);
    let words = 10 * segments.div_ceil(64 * 64) * 8;
    let least = segments * (SEGMENT + META) + segments.div_ceil(64) * 64 + words + 3 * SLOT;
    let most = least + 2 * SLOT + if is_limited { 0 } else { SEGMENT + 128 };
    assert!(
        (least..=most).contains(&reserved),
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
    let bytes = (8 * physical_memory()).clamp(1 << 30, 1 << 44);
    assert_reserved(reserved() - HEAPS, bytes, false);
}

/// The first arena is an eighth of the limit, and so are the next ones.
fn an_eighth() {
    limit_address_space(1024 * MIB);
    assert!(!take(1).is_null());
    let first = reserved();
    assert_reserved(first - HEAPS, 128 * MIB, true);
    // One that does not fit gets an arena that is large enough.
    assert!(!take(200 * MIB).is_null());
    assert_reserved(reserved() - first, 200 * MIB + SEGMENT, true);
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
    assert_reserved(reserved() - HEAPS, bytes.unwrap(), true);
}

/// Maps of the test's own.
struct Maps(Vec<*mut libc::c_void>);

impl Maps {
    /// As many as the kernel allows. None: it has room for any number of maps.
    fn fill() -> Option<Self> {
        let mut maps = Vec::with_capacity(1 << 20);
        loop {
            // Every other one has other rights, so that none are joined.
            let rights = [libc::PROT_READ, libc::PROT_NONE][maps.len() % 2];
            let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            // SAFETY: a map of its own.
            let next = unsafe { libc::mmap(std::ptr::null_mut(), 4096, rights, private, -1, 0) };
            if next == libc::MAP_FAILED {
                return Some(Self(maps));
            }
            maps.push(next);
            if maps.len() == maps.capacity() {
                println!("this kernel has room for any number of maps");
                return None;
            }
        }
    }

    /// Unmaps one of them.
    fn give(&mut self) {
        // SAFETY: a map of 4096 bytes that this test made, and nothing refers to it.
        unsafe { assert_eq!(libc::munmap(self.0.pop().unwrap(), 4096), 0) };
    }
}

/// There are so many maps that the kernel makes one more, but does not divide it: then no
/// reservation can be used, and all of it goes back.
fn no_more_maps() {
    let Some(mut maps) = Maps::fill() else { return };
    maps.give();
    let before = size();
    for _ in 0..3 {
        assert!(take(1).is_null() && take(3 * MIB).is_null());
        assert_eq!((reserved(), size()), (0, before));
    }
    while !maps.0.is_empty() {
        maps.give();
    }
    assert!(!take(1).is_null() && !take(3 * MIB).is_null());
}

/// Memory that joins what is in use needs no further map, in another group of segments neither.
fn grows_without_a_map() {
    const COUNT: usize = 3000;
    let mut blocks = Vec::with_capacity(COUNT);
    (0..300).for_each(|_| blocks.push(take(100_000)));
    let Some(_maps) = Maps::fill() else { return };
    while blocks.len() < COUNT {
        blocks.push(take(100_000));
        assert!(!blocks.last().unwrap().is_null(), "{} blocks", blocks.len());
    }
}

/// What was never used goes, but for an eighth of the limit that is to come.
fn tails() {
    let p = take(100 * MIB);
    assert!(!p.is_null());
    c::fit_address_limit(512 * MIB, || ());
    let used = reserved();
    // The block, and the heaps' region, rounded up to groups in their metadata.
    assert!((102 * MIB..106 * MIB).contains(&used), "{used}");
    // SAFETY: live, and gone from here on.
    unsafe { c::free(p) };
    c::fit_address_limit(512 * MIB, || ());
    let eighth = reserved();
    assert!((64 * MIB..68 * MIB).contains(&eighth), "{eighth}");
    c::fit_address_limit(0, || ());
    let least = reserved();
    assert!(least < 6 * MIB, "{least}");
    assert!(!take(100).is_null() && !take(3 * MIB).is_null());
}

/// Page faults of the process so far that needed no reading.
fn faults() -> i64 {
    // SAFETY: all zero bytes are a rusage, and getrusage fills it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &raw mut usage), 0);
        usage.ru_minflt
    }
}

/// What is written for each segment of it, or for each 64, shows as page faults.
fn terabytes() {
    let all = 4 << 40;
    for size in [8 * MIB, all, all / 2, all] {
        let before = faults();
        let p = take(size);
        if p.is_null() {
            return println!("this system has no {size} bytes of address space");
        }
        // SAFETY: live, and freed once.
        unsafe { c::free(p) };
        let faults = faults() - before;
        assert!(faults < 100, "{faults} page faults for {size} bytes");
    }
}

/// Bytes of private maps that can be written: what a strict system charges, and RLIMIT_DATA limits.
fn writable() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let lines = maps.lines().filter(|l| l.contains(" rw-p "));
    let length = |line: &str| {
        let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        number(to) - number(from)
    };
    lines.map(length).sum()
}

/// Takes blocks and writes to each end of them, and looks at what was in the second half.
fn take_written(n: usize, size: usize) -> Vec<*mut u8> {
    let take = |i| {
        let p = take(size);
        // SAFETY: it holds `size` bytes.
        unsafe {
            p.write(i as u8);
            p.add(size - 1).write(i as u8);
        }
        p
    };
    (0..n).map(take).collect()
}

fn free_all(blocks: &[*mut u8]) {
    // SAFETY: live, each freed once.
    blocks.iter().for_each(|&p| unsafe { c::free(p) });
}

fn peaks() {
    let stays = take_written(3, 3 * MIB);
    c::trim();
    let before = writable();
    for (n, size) in [
        (60, 3 * MIB),
        (2000, 100_000),
        (1, 300 * MIB),
        (60, 3 * MIB),
    ] {
        let blocks = take_written(n, size);
        let peak = writable();
        assert!(
            peak > before + 150 * MIB,
            "{size}: {peak} and before {before}"
        );
        let committed = stats::process().committed_bytes;
        free_all(&blocks);
        c::trim();
        let after = writable();
        // Less than 16 MiB side by side is left as it is; and metadata.
        assert!(
            after < before + 20 * MIB,
            "{size}: {after} and before {before}"
        );
        let uncharged = committed - stats::process().committed_bytes;
        assert!(
            uncharged.abs_diff((peak - after) as u64) < 2 * MIB as u64,
            "{uncharged}"
        );
    }
    // SAFETY: live.
    stays
        .iter()
        .for_each(|&p| unsafe { assert_eq!(p.read(), p.add(3 * MIB - 1).read()) });
}

/// A map of the process that a dump may have: where it lies, and whether it is left out.
struct Map {
    from: usize,
    to: usize,
    is_writable: bool,
    is_left_out: bool,
}

/// The private maps of no file, whether they are accessible or not.
fn own_maps() -> Vec<Map> {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut maps = Vec::new();
    let mut range = None;
    for line in smaps.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        if words[0] == "VmFlags:" {
            if let Some((from, to, is_writable)) = range.take() {
                let is_left_out = words.contains(&"dd");
                maps.push(Map {
                    from,
                    to,
                    is_writable,
                    is_left_out,
                });
            }
        } else if let [place, rights, _, _, "0"] = words[..]
            && rights.ends_with('p')
        {
            let (from, to) = place.split_once('-').unwrap();
            let number = |text| usize::from_str_radix(text, 16).unwrap();
            range = Some((number(from), number(to), rights.starts_with("rw")));
        }
    }
    maps
}

/// Bytes of the maps that a debugger writes to a dump: it writes zeros for what is inaccessible.
fn dumped() -> usize {
    let maps = own_maps();
    let dumped = maps.iter().filter(|map| !map.is_left_out);
    dumped.map(|map| map.to - map.from).sum()
}

/// Of the reservation, dumps have the groups of 64 segments that were used.
fn dumps() {
    const GROUP: usize = 64 * SEGMENT;
    let is_dumped = |p: *mut u8| {
        let maps = own_maps();
        let map = maps
            .iter()
            .find(|map| (map.from..map.to).contains(&p.addr()));
        !map.unwrap().is_left_out
    };
    let live = [1, 3000, 100_000, 5 * MIB].map(|n| take_written(1, n)[0]);
    let before = dumped();
    assert!(before < 2 * GROUP, "{before}");
    for more in [300 * MIB, 3000 * MIB] {
        let large = take(more);
        // The first group was there before.
        assert!((more - GROUP..more + GROUP).contains(&(dumped() - before)));
        // SAFETY: it has so many bytes.
        assert!(is_dumped(large) && is_dumped(unsafe { large.add(more - 1) }));
        assert!(live.into_iter().all(is_dumped));
        // Metadata, too.
        let maps = own_maps();
        assert!(maps.iter().all(|map| !(map.is_writable && map.is_left_out)));
        // SAFETY: live, and gone from here on.
        unsafe { c::free(large) };
        c::trim();
    }
}

/// Threads take, write and free while everything free is made inaccessible.
fn beside_threads() {
    let done = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let done = &done;
            scope.spawn(move || {
                for round in 0..300 {
                    let blocks = take_written(4, (1 + (round * 7 + thread * 5) % 24) * MIB + 1);
                    free_all(&blocks);
                }
                done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            });
        }
        while done.load(std::sync::atomic::Ordering::Relaxed) < 3 {
            c::trim();
        }
    });
    c::trim();
    assert!(writable() < 100 * MIB, "{}", writable());
}

#[test]
fn a_block_of_terabytes_is_no_work_for_each_segment() {
    alone(
        "a_block_of_terabytes_is_no_work_for_each_segment",
        terabytes,
    );
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn a_peak_is_not_charged_for_ever() {
    alone("a_peak_is_not_charged_for_ever", peaks);
}

#[test]
fn what_nothing_uses_is_in_no_dump() {
    alone("what_nothing_uses_is_in_no_dump", dumps);
}

#[test]
fn what_is_not_charged_is_nobodys() {
    alone("what_is_not_charged_is_nobodys", beside_threads);
}

#[test]
fn eight_times_the_memory() {
    alone("eight_times_the_memory", without_a_limit);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
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
fn the_heap_grows_where_there_is_no_further_map() {
    alone(
        "the_heap_grows_where_there_is_no_further_map",
        grows_without_a_map,
    );
}

#[test]
fn what_was_not_used_is_given_up() {
    alone("what_was_not_used_is_given_up", tails);
}
