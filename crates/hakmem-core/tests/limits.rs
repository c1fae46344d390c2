//! The soft and the hard limit, the callback, and the gauges.
//!
//! Each runs in a process of its own, as the options and the figures are the process's.
#![cfg(not(any(loom, shuttle, miri)))]

use crate::oracle;

use hakmem_core::stats::{self, Gauges};
use hakmem_core::{Heap, c, options, set_limit_callback};
use oracle::alone;
use std::alloc::Layout;
use std::io::Error;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const MIB: usize = 1 << 20;

fn set(name: &str, value: &str) {
    options::set(name, value).unwrap();
}

/// A block whose first and last byte are written. None: there is no memory, and errno says so.
fn take(size: usize) -> Option<*mut u8> {
    // SAFETY: any size may be asked for, and the block holds the bytes.
    unsafe {
        *libc::__errno_location() = 0;
        let p = c::malloc(size);
        if p.is_null() {
            assert_eq!(Error::last_os_error().raw_os_error(), Some(libc::ENOMEM));
            return None;
        }
        p.write(1);
        p.add(size - 1).write(2);
        Some(p)
    }
}

fn free(p: *mut u8) {
    // SAFETY: the tests free what they took, once.
    unsafe { c::free(p) }
}

/// Blocks of `size` until there is no memory, or `most` bytes.
fn fill(size: usize, most: usize) -> Vec<*mut u8> {
    let mut blocks = Vec::with_capacity(most / size);
    while blocks.len() < most / size {
        let Some(p) = take(size) else { break };
        blocks.push(p);
    }
    blocks
}

fn held(gauges: &Gauges) -> usize {
    (gauges.resident - gauges.metadata) as usize
}

/// Blocks of each kind end at the limit, and what was freed serves every other kind.
fn the_limit_holds() {
    const LIMIT: usize = 64;
    set("HARD_LIMIT_MIB", "64");
    for size in [1000, 3 * MIB, 16, 200_000, 30_000, 5 * MIB, 1000] {
        let mut blocks = fill(size, 1 << 30);
        let bytes = blocks.len() * size;
        let now = held(&stats::gauges());
        assert!(now <= LIMIT * MIB, "{now} bytes are held");
        assert!(
            bytes >= LIMIT * MIB / 4 * 3,
            "{bytes} bytes in blocks of {size}"
        );
        assert!(take(70 * MIB).is_none(), "no more than the limit at once");
        // What is live stays, and what is freed can be had again.
        let half = blocks.split_off(blocks.len() / 2);
        let count = half.len();
        half.into_iter().for_each(free);
        let again = fill(size, count * size);
        assert_eq!(again.len(), count, "blocks of {size}");
        blocks.into_iter().chain(again).for_each(free);
    }
    set("HARD_LIMIT_MIB", "0");
    free(take(200 * MIB).unwrap());
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures of blocks without tags, of which none waits after its free"
)]
fn a_hard_limit_ends_in_enomem() {
    alone("a_hard_limit_ends_in_enomem", the_limit_holds);
}

/// A report has the limit, what is held of it, and how many requests it refused.
#[cfg(feature = "reports")]
fn the_report_tells_of_the_limit() {
    use hakmem_core::report::{self, Format};
    let text = |format| {
        let mut text = String::with_capacity(1 << 20);
        report::write(&mut text, format).unwrap();
        text
    };
    let figure = |name: &str| -> usize {
        let json = text(Format::Json);
        let (_, rest) = json.split_once(&format!("\"{name}\":")).expect(name);
        rest.split_once(',').unwrap().0.parse().unwrap()
    };
    let block = take(5 * MIB).unwrap();
    assert!(!text(Format::Human).contains("hard limit"));
    assert_eq!((figure("hard_limit_bytes"), figure("refused")), (0, 0));
    assert!(figure("held_bytes") >= 5 * MIB);
    // No memory would do for this one: no limit refuses it.
    assert!(take(usize::MAX / 4).is_none());
    set("HARD_LIMIT_MIB", "64");
    assert!((0..3).all(|_| take(70 * MIB).is_none()));
    assert!(take(usize::MAX / 4).is_none());
    let small = fill(1000, 1 << 30);
    let human = text(Format::Human);
    let line = human
        .lines()
        .find(|line| line.contains("hard limit"))
        .expect(&human);
    assert!(line.starts_with("hakmem: held "), "{line}");
    assert!(
        line.ends_with(" of the hard limit 64.0 MiB; requests refused: 4"),
        "{line}"
    );
    assert_eq!(
        (figure("hard_limit_bytes"), figure("refused")),
        (64 * MIB, 4)
    );
    assert!((32 * MIB..=64 * MIB).contains(&figure("held_bytes")));
    small.into_iter().for_each(free);
    // The limit is gone, and what it refused is not forgotten.
    set("HARD_LIMIT_MIB", "0");
    assert!(text(Format::Human).contains(", no hard limit now; requests refused: 4\n"));
    free(block);
}

#[test]
#[cfg(feature = "reports")]
fn a_report_tells_of_the_hard_limit() {
    alone(
        "a_report_tells_of_the_hard_limit",
        the_report_tells_of_the_limit,
    );
}

/// Blocks that cannot grow stay as they are.
fn growth_ends() {
    set("HARD_LIMIT_MIB", "64");
    // SAFETY: live blocks, of which the last address is used; bytes inside them.
    unsafe {
        for start in [200_000, 3 * MIB] {
            let (mut p, mut size) = (take(start).unwrap(), start);
            loop {
                let larger = c::realloc(p, size + size / 2);
                if larger.is_null() {
                    break;
                }
                (p, size) = (larger, size + size / 2);
                p.add(size - 1).write(7);
            }
            assert!((10 * MIB..64 * MIB).contains(&size), "{size}");
            assert_eq!((p.read(), p.add(size - 1).read()), (1, 7));
            assert!(held(&stats::gauges()) <= 64 * MIB);
            let p = c::realloc(p, 2 * MIB);
            assert!(!p.is_null());
            free(p);
        }
    }
}

#[test]
#[cfg_attr(feature = "hardened", ignore = "blocks of other sizes")]
fn a_hard_limit_ends_growth() {
    alone("a_hard_limit_ends_growth", growth_ends);
}

/// Threads take all that there is, at once, and free it.
fn threads_at_the_limit() {
    set("HARD_LIMIT_MIB", "96");
    set("DECAY_MS", "20");
    let (live, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let start = |salt: u64| {
            let (live, most) = (&live, &most);
            scope.spawn(move || {
                let mut random = oracle::Random(salt + 1);
                for _ in 0..oracle::share(12) {
                    let size = [100, 3000, 40_000, 300_000, 4 * MIB][random.below(5)];
                    let blocks = fill(size, 64 * MIB);
                    let bytes = blocks.len() * size;
                    most.fetch_max(live.fetch_add(bytes, Relaxed) + bytes, Relaxed);
                    live.fetch_sub(bytes, Relaxed);
                    blocks.into_iter().for_each(free);
                }
            })
        };
        // The scope does not wait for what a thread does when it ends; a join does.
        let threads: Vec<_> = (0..4).map(start).collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
    let most = most.into_inner();
    assert!((32 * MIB..=96 * MIB).contains(&most), "{most}");
    hakmem_core::purge_all();
    set("HARD_LIMIT_MIB", "0");
    let left = stats::gauges();
    assert!(held(&left) <= 4 * MIB, "{left:?}");
}

#[test]
#[cfg_attr(feature = "hardened", ignore = "freed blocks wait")]
fn threads_share_a_hard_limit() {
    alone("threads_share_a_hard_limit", threads_at_the_limit);
}

static ASKED: AtomicUsize = AtomicUsize::new(0);
static SPARE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

extern "C" fn free_the_spare(size: usize) -> bool {
    assert_eq!(size, 30 * MIB);
    ASKED.fetch_add(1, Relaxed);
    // It may allocate, and a request that cannot be met fails without a further call.
    let own = take(100).unwrap();
    assert!(take(70 * MIB).is_none());
    free(own);
    let spare: Vec<_> = SPARE.lock().unwrap().drain(..).collect();
    spare.iter().for_each(|&p| free(p as *mut u8));
    !spare.is_empty()
}

extern "C" fn refuse(_: usize) -> bool {
    ASKED.fetch_add(1, Relaxed);
    false
}

fn who_is_asked_makes_room() {
    set("HARD_LIMIT_MIB", "64");
    // SAFETY: here and below: the spare is behind a lock, and counters are atomic.
    unsafe { set_limit_callback(Some(free_the_spare)) };
    for size in [1000, 50_000, 40 * MIB] {
        ASKED.store(0, Relaxed);
        let spare = fill(size, 40 * MIB);
        SPARE.lock().unwrap().extend(spare.iter().map(|p| p.addr()));
        spare.iter().for_each(|p| _ = p.expose_provenance());
        let block = take(30 * MIB).expect("there was something to free");
        assert_eq!(ASKED.load(Relaxed), 1);
        let further = take(30 * MIB).expect("it is below the limit");
        assert!(take(30 * MIB).is_none(), "there is nothing more to free");
        assert_eq!(ASKED.load(Relaxed), 2);
        free(block);
        free(further);
    }
    // Of small blocks as well; and one that frees nothing is asked once for each request.
    ASKED.store(0, Relaxed);
    // SAFETY: as above.
    unsafe { set_limit_callback(Some(refuse)) };
    let blocks = fill(1000, 1 << 30);
    assert_eq!(ASKED.load(Relaxed), 1);
    assert!(take(1000).is_none());
    assert_eq!(ASKED.load(Relaxed), 2);
    // Nobody is asked for what no machine has, in a scope of a heap neither.
    let (heap, most) = (Heap::new(), 1 << 62);
    assert!(take(most).is_none() && heap.scope(|| take(most)).is_none());
    assert!(
        heap.allocate(Layout::from_size_align(most, 8).unwrap())
            .is_err()
    );
    assert_eq!(ASKED.load(Relaxed), 2);
    // SAFETY: there is no function.
    unsafe { set_limit_callback(None) };
    assert!(take(1000).is_none());
    assert_eq!(ASKED.load(Relaxed), 2);
    blocks.into_iter().for_each(free);
}

#[test]
#[cfg_attr(feature = "hardened", ignore = "blocks of other sizes")]
fn the_callback_is_asked_before_a_request_fails() {
    alone(
        "the_callback_is_asked_before_a_request_fails",
        who_is_asked_makes_room,
    );
}

/// A field of /proc/self/status in bytes.
fn status(field: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.unwrap().trim_start_matches(':').trim();
    kib.strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
}

/// Takes 60 MiB in blocks of one size, writes all of it, and frees it; then of another size, for
/// which the free memory is of no use. Returns how much the memory grew.
fn come_and_go() -> usize {
    set("DECAY_MS", "60000");
    set("SCAVENGER", "0");
    set("HUGE_CACHE_MIB", "100");
    set("THP", "never");
    let before = status("VmRSS");
    for size in [6 * MIB, 1000, 10 * MIB, 100_000] {
        let blocks = fill(size, 60 * MIB);
        for &p in &blocks {
            // SAFETY: the block has `size` bytes.
            unsafe { p.write_bytes(3, size) };
        }
        blocks.into_iter().for_each(free);
    }
    status("VmHWM") - before
}

fn far_above() {
    let grown = come_and_go();
    assert!(grown > 110 * MIB, "{grown}: else the test shows nothing");
}

fn kept_below() {
    set("SOFT_LIMIT_MIB", "70");
    let grown = come_and_go();
    assert!(grown < 76 * MIB, "{grown}");
}

/// What was freed elsewhere goes back when program heaps take memory, by each of their ways.
fn heaps_stay_below() {
    set("SOFT_LIMIT_MIB", "70");
    set("DECAY_MS", "60000");
    set("SCAVENGER", "0");
    set("HUGE_CACHE_MIB", "100");
    set("THP", "never");
    let before = status("VmRSS");
    let come_and_go = |size: usize| fill(size, 60 * MIB).into_iter().for_each(free);
    let written = |p: *mut u8, size: usize| {
        // SAFETY: the block has `size` bytes.
        unsafe { p.write_bytes(3, size) };
    };
    let mut heap = Heap::new();
    for size in [2 * MIB, 300_000, 1000] {
        // Slots, or whole segments: what the heap has no use for.
        come_and_go(if size == 1000 { 6 * MIB } else { 100_000 });
        for _ in 0..60 * MIB / size {
            let block = heap.allocate(Layout::from_size_align(size, 16).unwrap());
            written(block.unwrap().as_ptr().cast(), size);
        }
        heap.reset();
    }
    drop(heap);
    let heap = Heap::new();
    come_and_go(6 * MIB);
    let blocks = heap.scope(|| fill(1000, 60 * MIB));
    blocks.iter().for_each(|&p| written(p, 1000));
    blocks.into_iter().for_each(free);
    drop(heap);
    come_and_go(100_000);
    let heap = Heap::new();
    heap.reserve(60 * MIB).unwrap();
    drop(heap);
    let grown = status("VmHWM") - before;
    assert!(grown < 76 * MIB, "{grown}");
}

#[test]
#[cfg_attr(feature = "hardened", ignore = "freed blocks wait")]
fn program_heaps_stay_below_a_soft_limit() {
    alone("program_heaps_stay_below_a_soft_limit", heaps_stay_below);
}

/// The cache and the copy would not fit beside the block, but the larger block alone does.
fn grows_to_the_limit() {
    set("HARD_LIMIT_MIB", "100");
    let (p, freed) = (take(60 * MIB).unwrap(), take(30 * MIB).unwrap());
    free(freed);
    // SAFETY: the block is live.
    let grown = unsafe { c::realloc(p, 72 * MIB) };
    assert!(!grown.is_null(), "{:?}", stats::gauges());
    // SAFETY: it has the bytes of the first block.
    let ends = unsafe { (grown.read(), grown.add(60 * MIB - 1).read()) };
    assert_eq!(ends, (1, 2));
    // SAFETY: as above.
    unsafe {
        assert!(
            c::realloc(grown, 102 * MIB).is_null(),
            "no more than the limit"
        );
        assert_eq!(grown.read(), 1);
    }
    free(grown);
}

#[test]
#[cfg_attr(feature = "hardened", ignore = "freed blocks wait")]
fn a_block_grows_as_far_as_the_hard_limit_allows() {
    alone(
        "a_block_grows_as_far_as_the_hard_limit_allows",
        grows_to_the_limit,
    );
}

#[test]
fn memory_grows_without_a_soft_limit() {
    alone("memory_grows_without_a_soft_limit", far_above);
}

#[test]
#[cfg_attr(feature = "hardened", ignore = "freed blocks wait")]
fn memory_stays_below_a_soft_limit() {
    alone("memory_stays_below_a_soft_limit", kept_below);
}

/// Threads that sleep with cached blocks lose them, though their decay is far away.
fn sleepers_give_up() {
    const THREADS: usize = 8;
    set("DECAY_MS", "60000");
    let barrier = std::sync::Barrier::new(THREADS + 1);
    let mut is_given = false;
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                // As much as a heap caches.
                fill(MIB / 4, MIB).into_iter().for_each(free);
                barrier.wait();
                barrier.wait();
            });
        }
        barrier.wait();
        let before = held(&stats::gauges());
        set("SOFT_LIMIT_MIB", "4");
        let mut live = fill(1000, 4 * MIB);
        let mut more = 0;
        for round in 1..10_000 {
            is_given |= held(&stats::gauges()) < before - MIB + more;
            if is_given {
                break;
            }
            // A thread may have been on its way to sleep, so that the pass passed it by. A further
            // step of memory makes a further pass.
            if round % 100 == 0 {
                live.extend(fill(1000, 2 * MIB));
                more += 2 * MIB;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        live.into_iter().for_each(free);
        // Not before: the threads would wait for ever.
        barrier.wait();
    });
    assert!(is_given, "sleeping threads keep theirs");
}

#[test]
#[cfg_attr(feature = "hardened", ignore = "freed blocks wait")]
fn a_soft_limit_reaches_sleeping_threads() {
    alone("a_soft_limit_reaches_sleeping_threads", sleepers_give_up);
}

fn assert_in_order(gauges: &Gauges) {
    let Gauges {
        allocated,
        active,
        resident,
        mapped,
        ..
    } = *gauges;
    assert!(
        allocated <= active && active <= resident && resident <= mapped,
        "{gauges:?}"
    );
    assert!(gauges.metadata <= resident, "{gauges:?}");
}

/// The gauges count what is taken, and nothing of it is left at the end.
fn gauges_count() {
    set("SCAVENGER", "0");
    set("SURPLUS_MIB", "1000");
    // A huge page of the system is resident as a whole.
    set("THP", "never");
    set("DECAY_MS", "60000");
    let begin = stats::gauges();
    assert_in_order(&begin);
    for size in [16, 1000, 30_000, 200_000, 3 * MIB] {
        let before = stats::gauges();
        let blocks = fill(size, 32 * MIB);
        let now = stats::gauges();
        assert_in_order(&now);
        let bytes = (blocks.len() * size) as u64;
        assert!(
            now.allocated - before.allocated >= bytes,
            "{size}: {before:?} {now:?}"
        );
        assert!(now.active - before.active >= bytes, "{before:?} {now:?}");
        assert!(now.active <= now.allocated + now.allocated / 2 + 4 * MIB as u64);
        // What is resident of the arenas is no more than the bound.
        let resident = stats::resident_bytes();
        assert!(resident <= now.resident, "{resident} of {now:?}");
        blocks.into_iter().for_each(free);
        let after = stats::gauges();
        assert_in_order(&after);
        assert_eq!(after.allocated, before.allocated, "{size}");
        assert!(after.resident >= before.resident, "{before:?}, {after:?}");
    }
    c::trim();
    let end = stats::gauges();
    assert_in_order(&end);
    assert!(
        held(&end) <= held(&begin) + 2 * MIB,
        "{begin:?}, at the end {end:?}"
    );
    assert!(end.retained > 0 && end.metadata > 0);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn gauges_are_in_order() {
    alone("gauges_are_in_order", gauges_count);
}
