//! What comes from outside: options in the environment, and pointers of other allocators.
//!
//! A case runs in a process of its own: this program again, with the case's name in the
//! environment.
#![cfg(not(any(loom, shuttle)))]

use crate::oracle::{self, plain::configure};
use hakmem_core::{c, stats};
use std::ffi::CStr;
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::ptr::null;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const NAME: &str = "TEST_HAKMEM_CASE";

#[inline(always)]
fn free(p: *mut u8) {
    // SAFETY: the tests free what they took, and pointers that are nobody's.
    unsafe { c::free(p) }
}
fn usable(p: *mut u8) -> usize {
    // SAFETY: `p` is a live block of the test.
    unsafe { c::usable_size(p) }
}
fn resize(p: *mut u8, n: usize) -> *mut u8 {
    // SAFETY: `p` is a live block of the test, which gives it up for the one that it becomes.
    unsafe { c::realloc(p, n) }
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap()
}

/// A pointer that may be another allocator's, below all arenas or above.
fn others(above: bool) -> *mut u8 {
    // Below all that the kernel maps of itself, or below the room that it leaves for the first
    // thread's stack. SAFETY: asks for a number.
    let stack = unsafe { libc::getauxval(libc::AT_RANDOM) } as usize;
    let at = if above { stack - (100 << 20) } else { 1 << 28 };
    std::ptr::with_exposed_provenance_mut(at & !15)
}

fn accepted() {
    configure(&[
        c"HAKMEM_CARVE_BYTES=16",
        c"HAKMEM_CARVE_BYTES=65536",
        c"HAKMEM_UNFULL_FRACTION=1",
        c"HAKMEM_PARK_BLOCKS=0",
        c"HAKMEM_PARK_BLOCKS=255",
        c"HAKMEM_FOREIGN=forward",
        c"HAKMEM_FOREIGN=leak",
        c"HAKMEM_TIMING=0",
        c"HAKMEM_TIMING=1",
        c"HAKMEM_STATS=json",
        c"HAKMEM_STATS_SIGNAL=10",
        c"OTHER_DECAY_MS=x",
        c"DECAY_MS=x",
    ]);
    // SAFETY: may be NULL.
    unsafe { c::configure(null()) }
}

fn refused() {
    configure(&[
        c"HAKMEM_NONSENSE=1",
        c"HAKMEM_TIMING=2",
        c"HAKMEM_CARVE_BYTES=15",
        c"HAKMEM_CARVE_BYTES=65537",
        c"HAKMEM_PARK_BLOCKS=256",
        c"HAKMEM_DECAY_MS=soon",
        c"HAKMEM_DECAY_MS", // As if it were not set.
        c"HAKMEM_THP=",
        c"HAKMEM_FOREIGN=maybe",
    ]);
}

const REFUSED: &[&str] = &[
    "unknown option HAKMEM_NONSENSE, ignored",
    "HAKMEM_TIMING=2 ignored: neither 0 nor 1",
    "HAKMEM_CARVE_BYTES=15 ignored: not numbers from 16 to 65536 as in 4096,64:8192",
    "HAKMEM_CARVE_BYTES=65537 ignored: not numbers from 16 to 65536 as in 4096,64:8192",
    "HAKMEM_PARK_BLOCKS=256 ignored: not a whole number from 0 to 255",
    "HAKMEM_DECAY_MS=soon ignored: not a whole number from 0 to 86400000, in ms",
    "HAKMEM_FOREIGN=maybe ignored: not one of forward, leak, abort",
];

/// A line is cut where its room ends, and ends there too.
fn long_name() {
    let name = format!("HAKMEM_{}\0", "X".repeat(400));
    configure(&[CStr::from_bytes_with_nul(name.as_bytes()).unwrap()]);
}

fn nanos() -> u64 {
    stats::process().syscalls().map(|s| s.nanos).sum()
}

/// Something that needs system calls.
fn make_calls() {
    // SAFETY: a block of this allocator, freed once.
    unsafe { c::free(c::malloc(100 << 20)) };
    c::trim();
}

fn timing() {
    make_calls();
    assert_eq!(nanos(), 0);
    configure(&[c"HAKMEM_TIMING=1"]);
    make_calls();
    let timed = nanos();
    assert!(timed > 0);
    configure(&[c"HAKMEM_TIMING=0"]);
    make_calls();
    assert_eq!(nanos(), timed);
}

fn nobodys() {
    free(std::ptr::null_mut());
    assert_eq!(stats::process().foreign_frees, 0);
    for above in [false, true] {
        let p = others(above);
        free(p);
        free(p.wrapping_add(8));
        assert_eq!(usable(p), 0);
        assert!(resize(p, 100).is_null());
        assert_eq!(errno(), libc::ENOMEM);
    }
    // Resizing frees, so it counts.
    assert_eq!(stats::process().foreign_frees, 6);
    assert_eq!(usable(std::ptr::null_mut()), 0);
}

static SEARCHES: AtomicUsize = AtomicUsize::new(0);
static FREED: AtomicUsize = AtomicUsize::new(0);
static RESIZED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn next_free(p: *mut u8) {
    FREED.fetch_add(p.addr(), Relaxed);
}
unsafe extern "C" fn next_realloc(p: *mut u8, n: usize) -> *mut u8 {
    RESIZED.fetch_add(n, Relaxed);
    p.wrapping_add(16)
}
unsafe extern "C" fn next_usable_size(p: *mut u8) -> usize {
    p.addr() % 1000
}

fn find() -> Option<c::Next> {
    SEARCHES.fetch_add(1, Relaxed);
    // As dlsym may: what is freed in the search is left alone.
    free(others(true));
    Some(c::Next {
        free: next_free,
        realloc: next_realloc,
        usable_size: next_usable_size,
        has_memory: || true,
    })
}

fn passed_on() {
    c::on_foreign(find);
    let p = others(false);
    free(p);
    assert_eq!(FREED.load(Relaxed), p.addr());
    assert_eq!(resize(p, 77), p.wrapping_add(16));
    assert_eq!(RESIZED.load(Relaxed), 77);
    assert_eq!(usable(p), p.addr() % 1000);
    assert_eq!(SEARCHES.load(Relaxed), 1);
    configure(&[c"HAKMEM_FOREIGN=leak"]);
    free(p);
    assert_eq!((FREED.load(Relaxed), usable(p)), (p.addr(), 0));
}

fn sites() {
    let p = others(false);
    // Not unrolled: a call for each.
    for _ in 0..black_box(3) {
        free(p);
    }
    for _ in 0..black_box(2) {
        free(p);
    }
    let snapshot = stats::Snapshot::take();
    let mut sites: Vec<_> = snapshot.foreign_sites().collect();
    sites.sort_by_key(|site| site.frees);
    let frees: Vec<_> = sites.iter().map(|site| site.frees).collect();
    assert_eq!(frees, [2, 3]);
    // Both calls are in this function. Without optimisation it has 10 KB of code, as `free` and
    // all that it inlines are in it twice.
    let distance = sites[0].address.abs_diff(sites[1].address);
    assert!((1..1 << 16).contains(&distance), "{distance}");
}

fn reported() {
    configure(&[c"HAKMEM_FOREIGN_REPORT=3"]);
    for i in 1..=5 {
        eprintln!("hakmem: free {i}");
        free(others(false));
    }
}

const REPORTED: &[&str] = &[
    "free 1",
    "free 2",
    "free 3",
    "3 pointers from another allocator were freed here, the last, {p}, by the code at {p}",
    "free 4",
    "free 5",
];

fn fatal() {
    configure(&[c"HAKMEM_FOREIGN=abort"]);
    free(others(true));
}

/// Its name, what it does, the lines on standard error, with `{p}` for every pointer, and whether
/// it ends by SIGABRT.
type Case = (&'static str, fn(), &'static [&'static str], bool);

const CASES: [Case; 9] = [
    ("accepted options", accepted, &[], false),
    ("refused options", refused, REFUSED, false),
    (
        "a long name",
        long_name,
        &["unknown option HAKMEM_X…"],
        false,
    ),
    ("timing", timing, &[], false),
    ("nobody's pointers", nobodys, &[], false),
    ("the next allocator's pointers", passed_on, &[], false),
    ("call sites", sites, &[], false),
    ("the third is reported", reported, REPORTED, false),
    (
        "they end the process",
        fatal,
        &["free of {p}, which is not from this allocator, by the code at {p}"],
        true,
    ),
];

/// The line without its pointers, and as long as lines may be.
fn plain(line: &str) -> String {
    if line.contains("XXX") {
        assert_eq!(line.len(), 255);
        return line.trim_end_matches('X').to_owned() + "X…";
    }
    let word = |word: &str| {
        let bare = word.trim_end_matches(',');
        if bare.starts_with("0x") {
            word.replace(bare, "{p}")
        } else {
            word.to_owned()
        }
    };
    line.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn options_and_foreign_pointers_are_dealt_with() {
    if let Ok(name) = std::env::var(NAME) {
        let (_, case, ..) = CASES
            .iter()
            .find(|c| c.0 == name)
            .expect("a case of that name");
        return case();
    }
    let mut wrong = Vec::new();
    for (name, _, expected, aborts) in CASES {
        let mut command = oracle::this_program();
        command.args([
            "--exact",
            "outside::options_and_foreign_pointers_are_dealt_with",
            "--nocapture",
            "--test-threads=1",
        ]);
        let output = command.env(NAME, name).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let mut lines: Vec<_> = stderr.lines().map(plain).collect();
        if aborts {
            lines.truncate(1); // The stack is behind it.
        }
        let expected: Vec<_> = expected
            .iter()
            .map(|line| format!("hakmem: {line}"))
            .collect();
        let ended = if aborts {
            output.status.signal() == Some(libc::SIGABRT)
        } else {
            output.status.success()
        };
        if !ended || lines != expected {
            wrong.push(format!("{name}: {} {lines:#?}", output.status));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
