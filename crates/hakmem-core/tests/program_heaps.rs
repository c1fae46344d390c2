//! Heaps that the program makes: what they give, limits, what a reset and the end give back, and
//! what they reserve.
#![cfg(not(any(loom, shuttle)))]

#[path = "program_heaps/misuse.rs"]
mod misuse;
#[path = "program_heaps/scopes.rs"]
mod scopes;

use crate::oracle;

use hakmem_core::heaps::AllocError;
use hakmem_core::stats::{self, Snapshot};
use hakmem_core::{Heap, c};
use oracle::{Block, FrontEnd, Oracle, Random, Ranges, alone, share};
use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::thread;

const MIB: usize = 1 << 20;
const SLOT: usize = 64 << 10;
const HARDENED: bool = cfg!(feature = "hardened");

/// A heap as a front end.
#[derive(Clone, Copy)]
struct Of<'a>(&'a Heap);

fn address(block: Result<NonNull<[u8]>, AllocError>) -> *mut u8 {
    block.map_or(std::ptr::null_mut(), |block| block.as_ptr().cast())
}

impl FrontEnd for Of<'_> {
    const EMPTY: bool = false;
    const TELLS_USABLE: bool = false;

    fn alloc(&self, layout: Layout) -> *mut u8 {
        address(self.0.allocate(layout))
    }

    fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        address(self.0.allocate_zeroed(layout))
    }

    fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let new = Layout::from_size_align(size, layout.align()).unwrap();
        // SAFETY: the oracle passes a live block with its layout.
        address(unsafe { self.0.reallocate(NonNull::new(block).unwrap(), layout, new) })
    }

    fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the oracle passes a live block with its layout, and gives it up.
        unsafe { self.0.deallocate(NonNull::new(block).unwrap(), layout) }
    }
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

/// A size and an alignment, mostly small ones.
fn layout_by(random: &mut Random) -> Layout {
    let size = match random.below(300) {
        0 => 1 + random.below(5 << 20),
        1..8 => 1 + random.below(MIB),
        8..60 => 1 + random.below(SLOT),
        _ => 1 + random.below(600),
    };
    let align = match random.below(40) {
        0 => 1 << random.below(22),
        _ => 1 << random.below(5),
    };
    layout(size, align)
}

/// Bytes of the heap's memory are all accounted for: none without blocks, but one page for each of
/// 52 classes.
fn assert_empty(heap: &Heap) {
    let now = heap.stats();
    assert_eq!((now.live_bytes, now.blocks()), (0, 0), "{now:?}");
    assert!(now.held_bytes <= 52 * 8 * SLOT as u64, "{now:?}");
}

/// Random operations on some heaps by some threads, which hand blocks on.
#[test]
fn random_operations_on_several_heaps_by_several_threads() {
    let heaps: Vec<_> = (0..3).map(|i| Heap::named(&format!("heap {i}"))).collect();
    let ranges = Ranges::default();
    let left: Mutex<Vec<(usize, Block)>> = Mutex::new(Vec::new());
    let work = |number: usize| {
        let mut random = Random(number as u64 * 77 + 1);
        let mut oracles: Vec<_> = heaps
            .iter()
            .map(|heap| Oracle::new(Of(heap), &ranges, number as u64))
            .collect();
        for _ in 0..share(3000) {
            let of = random.below(heaps.len());
            match random.below(9) {
                0..4 => left
                    .lock()
                    .unwrap()
                    .push((of, oracles[of].alloc(layout_by(&mut random)))),
                4 => left
                    .lock()
                    .unwrap()
                    .push((of, oracles[of].alloc_zeroed(layout_by(&mut random)))),
                choice => {
                    let mut blocks = left.lock().unwrap();
                    if blocks.is_empty() {
                        continue;
                    }
                    let at = random.below(blocks.len());
                    let (of, block) = blocks.swap_remove(at);
                    drop(blocks);
                    match choice {
                        5..7 if block.size() < MIB => {
                            let block = oracles[of].realloc(block, layout_by(&mut random).size());
                            left.lock().unwrap().push((of, block));
                        }
                        _ => oracles[of].dealloc(block),
                    }
                }
            }
        }
    };
    thread::scope(|scope| (0..3).for_each(|number| drop(scope.spawn(move || work(number)))));
    let mut oracles: Vec<_> = heaps
        .iter()
        .map(|heap| Oracle::new(Of(heap), &ranges, 9))
        .collect();
    for (of, block) in left.into_inner().unwrap() {
        oracles[of].dealloc(block);
    }
    ranges.assert_empty();
    heaps.iter().for_each(assert_empty);
}

#[test]
fn a_reset_gives_everything_back_and_the_heap_goes_on() {
    let mut heap = Heap::named("request");
    let mut random = Random(5);
    for round in 0..20 {
        for _ in 0..300 {
            assert!(heap.allocate(layout_by(&mut random)).is_ok());
        }
        let before = heap.stats();
        assert!(before.live_bytes > 0 && before.held_bytes >= before.live_bytes);
        assert_eq!(before.blocks(), 300, "round {round}");
        heap.reset();
        let now = heap.stats();
        assert_eq!((now.live_bytes, now.blocks()), (0, 0));
        assert!(now.peak_live_bytes >= before.live_bytes && now.frees == before.allocations);
        // A page of each class up to 8 KiB stays, but not in the hardened build.
        if cfg!(feature = "hardened") {
            assert_eq!(now.held_bytes, 0);
            continue;
        }
        let most = 36 * SLOT as u64;
        assert!(
            (1..=most).contains(&now.held_bytes),
            "round {round}: {}",
            now.held_bytes
        );
    }
    hakmem_core::purge_all();
    assert_eq!(heap.stats().held_bytes, 0);
}

/// Beyond the limit a request fails and changes nothing; what is freed can be had again.
#[test]
fn the_limit_is_for_live_bytes() {
    let heap = Heap::builder().name("plugin").limit(100 * 1024).build();
    let one = layout(1000, 8);
    let blocks: Vec<_> = std::iter::from_fn(|| heap.allocate(one).ok()).collect();
    assert_eq!(blocks.len(), 100, "blocks of 1000 bytes have 1024");
    let full = heap.stats();
    assert_eq!(
        (full.live_bytes, full.refused, full.limit_bytes),
        (102_400, 1, Some(102_400))
    );
    for size in [
        1,
        SLOT - 100,
        100 * 1024,
        3 * MIB,
        isize::MAX as usize - 4096,
    ] {
        assert_eq!(heap.allocate(layout(size, 8)), Err(AllocError), "{size}");
    }
    // SAFETY: the heap returned them for this layout, and each is freed once.
    unsafe {
        let last = blocks[99].cast();
        assert!(heap.reallocate(last, one, layout(2000, 8)).is_err());
        let stays = heap.reallocate(last, one, layout(10, 8)).unwrap();
        assert_eq!(
            stays.cast(),
            last,
            "a block can shrink without a smaller one"
        );
        heap.deallocate(last, layout(10, 8));
        assert!(heap.allocate(one).is_ok());
    }
    heap.set_limit(None);
    assert!(heap.allocate(layout(3 * MIB, 8)).is_ok());
    heap.set_limit(Some(0));
    assert!(heap.allocate(layout(1, 1)).is_err(), "what is live stays");
    assert!(heap.stats().live_bytes > 3 * MIB as u64);
}

/// A huge block grows where it is or moves, and never beyond the limit.
#[test]
fn huge_blocks_grow_within_the_limit() {
    let heap = Heap::builder().limit(16 * MIB).build();
    let (ranges, mut size) = (Ranges::default(), 2 * MIB);
    let mut oracle = Oracle::new(Of(&heap), &ranges, 3);
    let mut block = oracle.alloc(layout(size, 16));
    while size < 12 * MIB {
        size += MIB;
        block = oracle.realloc(block, size);
    }
    let block = oracle
        .try_realloc(block, 17 * MIB)
        .expect_err("beyond the limit");
    oracle.check(&block);
    let block = oracle.realloc(block, 3 * MIB);
    oracle.dealloc(block);
    assert_empty(&heap);
}

#[test]
fn huge_blocks_stay_aligned_when_they_grow() {
    oracle::aligned_huge_blocks_grow(Of(&Heap::new()));
}

fn boxed(n: u8) -> *mut u8 {
    // SAFETY: any size may be asked for, and the block has its first byte.
    unsafe {
        let p = c::malloc(40);
        p.write(n);
        p
    }
}

fn free(p: *mut u8) {
    // SAFETY: the tests free what they took, once.
    unsafe { c::free(p) }
}

fn calls() -> u64 {
    stats::process().syscalls().map(|call| call.calls).sum()
}

/// As long as the reserve lasts, no call is made and no page is faulted in.
fn reserved() {
    let faults = || {
        // SAFETY: all zero bytes are a rusage, and the call fills it.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &raw mut usage), 0);
            usage.ru_minflt
        }
    };
    let heap = Heap::named("audio");
    heap.reserve(8 * MIB).unwrap();
    assert_eq!(heap.stats().reserved_bytes, 8 * MIB as u64);
    let sizes = [16, 100, 1000, 5000, 20_000, 100_000, MIB - 100];
    let mut blocks = Vec::with_capacity(1000);
    let mut round = || {
        for size in sizes {
            for _ in 0..(300_000 / size).clamp(1, 50) {
                let block = heap.allocate(layout(size, 16)).unwrap();
                // SAFETY: the block has `size` bytes.
                unsafe { block.cast::<u8>().write_bytes(0x5a, size) };
                blocks.push((block, size));
            }
        }
        for (block, size) in blocks.drain(..) {
            // SAFETY: the heap returned it for this layout.
            unsafe { heap.deallocate(block.cast(), layout(size, 16)) };
        }
    };
    // The code and the test's own memory.
    let other = Heap::new();
    other.allocate(layout(8, 8)).unwrap();
    let (calls_before, _) = (calls(), faults());
    let before = faults();
    round();
    let after = faults();
    (0..50).for_each(|_| round());
    assert_eq!(calls(), calls_before, "a call was made");
    assert!(
        after - before < 40,
        "{} pages were faulted in",
        after - before
    );
    assert_eq!(
        heap.stats().held_bytes,
        8 * MIB as u64,
        "all came from the reserve"
    );
}

#[test]
fn a_reserve_needs_no_call() {
    alone("a_reserve_needs_no_call", reserved);
}

/// True if the child goes through `f` although the kernel ends it at any system call but `exit`.
fn without_calls(f: impl FnOnce()) -> bool {
    // SAFETY: the child has one thread, and ends by the call below, or by the kernel.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: strict mode allows `read`, `write` and `exit` alone.
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) };
        f();
        // SAFETY: the end of the process.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
    let mut status = 0;
    // SAFETY: `status` is writable.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(
        libc::WIFEXITED(status) || libc::WTERMSIG(status) == libc::SIGKILL,
        "{status}"
    );
    libc::WIFEXITED(status)
}

/// The kernel is the witness: the process would end at the first system call.
#[test]
fn a_reserve_lasts_under_a_filter_that_allows_no_call() {
    let mut heap = Heap::named("strict");
    heap.reserve(4 * MIB).unwrap();
    let sizes = [16, 200, 3000, 30_000, 300_000];
    let within = |heap: &mut Heap| {
        for _ in 0..10 {
            for size in sizes {
                (0..3).for_each(|_| assert!(heap.allocate(layout(size, 16)).is_ok()));
            }
            heap.reset();
        }
    };
    assert!(without_calls(|| within(&mut heap)));
    let beyond = |heap: &Heap| assert!(heap.allocate(layout(512 * MIB, 16)).is_ok());
    assert!(
        !without_calls(|| beyond(&heap)),
        "a call was needed, so it would be seen"
    );
}

/// A request beyond the bound makes nothing resident.
#[test]
fn no_heap_reserves_more_than_512_mib() {
    alone("no_heap_reserves_more_than_512_mib", || {
        let heap = Heap::named("greedy");
        heap.reserve(2 * MIB).unwrap();
        for more in [usize::MAX, 511 * MIB] {
            assert!(heap.reserve(more).is_err());
            assert_eq!(heap.stats().reserved_bytes, 2 * MIB as u64);
        }
    });
}

/// What a heap reserved goes back with it, and the next one gets it.
#[test]
fn a_reserve_goes_back_with_its_heap() {
    alone("a_reserve_goes_back_with_its_heap", || {
        let committed = || stats::process().committed_bytes;
        Heap::new().reserve(8 * MIB).unwrap();
        let before = committed();
        for _ in 0..20 {
            let heap = Heap::new();
            heap.reserve(8 * MIB).unwrap();
            heap.allocate(layout(1000, 8)).unwrap();
        }
        assert!(
            committed() <= before + 2 * MIB as u64,
            "{} {before}",
            committed()
        );
    });
}

/// The totals of the process contain what is in program heaps.
#[test]
fn the_process_counts_the_live_bytes() {
    alone("the_process_counts_the_live_bytes", || {
        let heap = Heap::new();
        for size in [100, 3000, 30_000, 300_000, 3_000_000] {
            let before = stats::process();
            for _ in 0..10 {
                heap.allocate(layout(size, 8)).unwrap();
            }
            let after = stats::process();
            assert!(
                after.live_bytes >= before.live_bytes + 10 * size as u64,
                "{size}"
            );
            assert!(after.live_bytes_upper_bound >= after.live_bytes, "{size}");
        }
        assert!(stats::process().live_bytes >= heap.stats().live_bytes);
        drop(heap);
        assert!(stats::process().live_bytes < MIB as u64);
    });
}

/// Heaps come and go: their memory serves the next ones.
#[test]
fn the_memory_of_a_heap_serves_the_next_one() {
    alone("the_memory_of_a_heap_serves_the_next_one", || {
        let mut committed = 0;
        for round in 0..2000 {
            let heap = Heap::named("short");
            heap.allocate(layout(100, 8)).unwrap();
            heap.scope(|| free(boxed(1)));
            if round == 10 {
                committed = stats::process().committed_bytes;
            }
        }
        assert_eq!(stats::process().committed_bytes, committed);
        assert_eq!(Snapshot::take().program_heaps().count(), 0);
    });
}

/// Bytes that the process has resident.
fn resident() -> usize {
    let maps = std::fs::read_to_string("/proc/self/statm").unwrap();
    maps.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// A heap without a reserve never touches the table of the reserve, which is half of its memory.
#[test]
fn the_end_of_heaps_makes_no_memory_resident() {
    alone("the_end_of_heaps_makes_no_memory_resident", || {
        let heaps: Vec<_> = (0..4000).map(|_| Heap::new()).collect();
        let before = resident();
        drop(heaps);
        let after = resident();
        assert!(after < before + 4 * MIB, "{before} bytes, then {after}");
    });
}

/// A request that found no memory was never live.
#[test]
fn a_request_without_memory_makes_no_peak() {
    alone("a_request_without_memory_makes_no_peak", || {
        hakmem_core::options::set("HARD_LIMIT_MIB", "64").unwrap();
        let heap = Heap::new();
        let block = heap.allocate(Layout::from_size_align(100 * MIB, 16).unwrap());
        assert!(block.is_err());
        assert_eq!(
            (heap.stats().live_bytes, heap.stats().peak_live_bytes),
            (0, 0)
        );
    });
}

/// A vector that borrows the heap.
#[cfg(feature = "allocator-api2")]
#[test]
fn collections_take_a_heap() {
    use allocator_api2::boxed::Box;
    use allocator_api2::vec::Vec;
    use oracle::elsewhere;
    let mut heap = Heap::named("collections");
    let mut numbers = Vec::new_in(&heap);
    numbers.extend(0..100_000_u32);
    let other = Box::new_in([7_u8; 100], &heap);
    let numbers = elsewhere(move || {
        assert!(numbers.iter().copied().eq(0..100_000));
        numbers.shrink_to(10);
        numbers.truncate(50_000);
        numbers.shrink_to_fit();
        numbers
    });
    assert_eq!((numbers.len(), other[99]), (50_000, 7));
    assert_eq!(heap.stats().blocks(), 2);
    drop((numbers, other));
    assert_eq!(heap.stats().blocks(), 0);
    heap.set_limit(Some(1000));
    assert!(Vec::<u8, _>::new_in(&heap).try_reserve(2000).is_err());
    std::mem::forget(Vec::<u8, _>::with_capacity_in(500, &heap));
    heap.reset();
    assert_empty(&heap);
}

/// The same with the standard library's collections.
#[cfg(feature = "nightly")]
#[test]
fn collections_of_the_standard_library_take_a_heap() {
    let heap = Heap::builder().limit(1 << 20).build();
    let mut numbers = Vec::new_in(&heap);
    numbers.extend(0..10_000_u32);
    assert!(numbers.try_reserve(1 << 20).is_err());
    let boxed = Box::new_in(7, &heap);
    assert_eq!((heap.stats().blocks(), *boxed), (2, 7));
    drop((numbers, boxed));
    assert_empty(&heap);
}
