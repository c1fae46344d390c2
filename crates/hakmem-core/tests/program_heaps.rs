//! Heaps that the program makes: what they give, limits, what a reset and the end give back, scopes, threads and fork.
#![cfg(not(any(loom, shuttle)))]

use crate::oracle;

use hakmem_core::heaps::AllocError;
use hakmem_core::stats::{self, Snapshot};
use hakmem_core::{Heap, c};
use oracle::{Block, C, FrontEnd, Oracle, Random, Ranges, Rust, alone, elsewhere, in_child, share};
use std::alloc::Layout;
use std::panic::{AssertUnwindSafe, catch_unwind};
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

/// Bytes of the heap's memory are all accounted for: none without blocks, but one page for each class.
fn assert_empty(heap: &Heap) {
    let now = heap.stats();
    assert_eq!((now.live_bytes, now.blocks()), (0, 0), "{now:?}");
    assert!(now.held_bytes <= 51 * 8 * SLOT as u64, "{now:?}");
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
        assert_eq!((now.live_bytes, now.held_bytes, now.blocks()), (0, 0, 0));
        assert!(now.peak_live_bytes >= before.live_bytes && now.frees == before.allocations);
    }
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
        heap.deallocate(last, one);
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

/// The ordinary calls of a thread come from the heap while it is in a scope, and from the inner one of two.
#[test]
fn a_scope_routes_the_calls_of_its_thread() {
    let (outer, inner) = (Heap::named("outer"), Heap::named("inner"));
    let before = boxed(0);
    let mut kept = Vec::new();
    outer.scope(|| {
        free(before);
        kept.push(boxed(1));
        inner.scope(|| kept.push(boxed(2)));
        assert_eq!(inner.stats().blocks(), 1);
        kept.push(boxed(3));
        elsewhere(|| free(boxed(4)));
        outer.scope(|| kept.push(boxed(5)));
    });
    kept.push(boxed(6));
    assert_eq!((outer.stats().blocks(), inner.stats().blocks()), (3, 1));
    for (p, is) in kept.iter().zip([1, 2, 3, 5, 6]) {
        // SAFETY: the block is live.
        assert_eq!(unsafe { p.read() }, is);
    }
    let addresses: Vec<usize> = kept.iter().map(|p| p.expose_provenance()).collect();
    elsewhere(|| {
        addresses
            .iter()
            .for_each(|&at| free(std::ptr::with_exposed_provenance_mut(at)))
    });
    assert_empty(&outer);
    assert_empty(&inner);
}

#[test]
fn a_panic_ends_the_scope() {
    let heap = Heap::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| heap.scope(|| panic!("on purpose"))));
    assert!(panicked.is_err());
    let p = boxed(1);
    assert_eq!(heap.stats().blocks(), 0, "the thread is outside");
    free(p);
}

/// Both front ends in scopes, against the oracle: also sizes without a class, alignments, and reallocs within and without.
#[test]
fn calls_in_a_scope_keep_what_callers_rely_on() {
    fn of<D: FrontEnd>(front_end: D) {
        let (heap, ranges) = (Heap::named("routed"), Ranges::default());
        let (mut oracle, mut random) = (Oracle::new(front_end, &ranges, 1), Random(11));
        let mut blocks: Vec<Block> = Vec::new();
        let mut some = |oracle: &mut Oracle<'_, D>, blocks: &mut Vec<Block>| {
            for _ in 0..share(1000) {
                match random.below(8) {
                    0..3 => blocks.push(oracle.alloc(layout_by(&mut random))),
                    3 => blocks.push(oracle.alloc_zeroed(layout_by(&mut random))),
                    choice if !blocks.is_empty() => {
                        let block = blocks.swap_remove(random.below(blocks.len()));
                        if choice == 4 {
                            blocks.push(oracle.realloc(block, layout_by(&mut random).size()));
                        } else {
                            oracle.dealloc(block);
                        }
                    }
                    _ => {}
                }
            }
        };
        for _ in 0..4 {
            heap.scope(|| some(&mut oracle, &mut blocks));
            some(&mut oracle, &mut blocks);
        }
        blocks.into_iter().for_each(|block| oracle.dealloc(block));
        ranges.assert_empty();
        assert_empty(&heap);
    }
    of(Rust);
    of(C);
}

/// A request beyond the limit fails in a scope as without memory, for all sizes.
#[test]
fn a_scope_has_the_limit_of_its_heap() {
    let heap = Heap::builder().limit(64 * 1024).build();
    let taken = heap.scope(|| {
        // SAFETY: any size may be asked for.
        let taken: Vec<_> =
            std::iter::from_fn(|| Some(unsafe { c::malloc(200) }).filter(|p| !p.is_null()))
                .collect();
        // SAFETY: the same.
        for n in [250, 5000, 100_000, 2 * MIB] {
            // SAFETY: the same.
            assert!(unsafe { c::malloc(n) }.is_null(), "{n}");
        }
        taken
    });
    let most = 64 * 1024 / 224;
    assert!((most - 1..=most).contains(&taken.len()), "{}", taken.len());
    assert!(heap.stats().refused >= 4);
    taken.into_iter().for_each(free);
    assert_empty(&heap);
}

/// Blocks of a scope live on after their heap. Its memory goes when the last one is freed.
#[test]
fn blocks_of_a_scope_outlive_their_heap() {
    let named = || {
        Snapshot::take()
            .program_heaps()
            .find(|heap| heap.name() == "to be dropped")
    };
    let mut heap = Heap::named("to be dropped");
    heap.allocate(layout(100, 8)).unwrap();
    let blocks = heap.scope(|| [boxed(1), boxed(2)]);
    heap.reset();
    assert_eq!(heap.stats().blocks(), 2);
    drop(heap);
    let left = named().expect("it has blocks");
    assert!(left.dropped && left.blocks() == 2);
    for (p, is) in blocks.iter().zip([1, 2]) {
        // SAFETY: the block is live.
        assert_eq!(unsafe { p.read() }, is);
        free(*p);
    }
    assert!(named().is_none());
}

/// A thread that ends in a scope leaves it.
#[test]
fn a_thread_may_end_in_a_scope() {
    let heap: &'static Heap = Box::leak(Box::new(Heap::named("of a thread that ended")));
    let p = thread::spawn(move || {
        extern "C" fn run(heap: *mut libc::c_void) -> *mut libc::c_void {
            // SAFETY: the heap that was passed.
            let heap = unsafe { &*heap.cast::<Heap>() };
            // SAFETY: a handle of a live heap.
            unsafe { c::heaps::enter(c::heaps::handle_of(heap)) };
            boxed(7).cast()
        }
        // SAFETY: the thread runs `run`, which returns a block.
        unsafe {
            let (mut thread, mut got) = (std::mem::zeroed(), std::ptr::null_mut());
            let arg = std::ptr::from_ref(heap).cast_mut().cast();
            assert_eq!(
                libc::pthread_create(&mut thread, std::ptr::null(), run, arg),
                0
            );
            assert_eq!(libc::pthread_join(thread, &mut got), 0);
            got.expose_provenance()
        }
    });
    let p = p.join().unwrap();
    assert_eq!(
        heap.stats().blocks(),
        1,
        "what was in the lists of the scope is back"
    );
    free(std::ptr::with_exposed_provenance_mut(p));
    assert_empty(heap);
}

/// The child of a fork has the heaps, in a scope and outside. One that another thread was using is no more.
#[test]
fn the_child_of_a_fork_has_the_heaps() {
    let mut heap = Heap::named("forked");
    heap.allocate(layout(100, 8)).unwrap();
    heap.scope(|| {
        let before = boxed(3);
        in_child(|| {
            free(before);
            free(boxed(4));
            assert!(heap.allocate(layout(100, 8)).is_ok());
        });
        free(before);
    });
    assert_eq!(heap.stats().blocks(), 1);
    heap.reset();
    assert_empty(&heap);
}

fn calls() -> u64 {
    stats::process()
        .syscalls
        .iter()
        .map(|call| call.calls)
        .sum()
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
#[cfg(not(miri))]
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

/// The line on standard error by which the process of `f` ends.
fn last_words(f: impl FnOnce()) -> String {
    let mut pipe = [0; 2];
    // SAFETY: the array has room for two descriptors.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    // SAFETY: the child has one thread. It ends by the misuse, or by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: both descriptors are open.
        unsafe { libc::dup2(pipe[1], 2) };
        f();
        // SAFETY: `_exit` has no preconditions.
        unsafe { libc::_exit(0) };
    }
    let (mut text, mut status) = (vec![0; 1000], 0);
    // SAFETY: the vector has as many bytes; `status` is writable.
    let len = unsafe {
        libc::close(pipe[1]);
        let len = libc::read(pipe[0], text.as_mut_ptr().cast(), text.len());
        libc::close(pipe[0]);
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        len
    };
    assert!(
        libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT,
        "{status}"
    );
    String::from_utf8(text[..len as usize].to_vec()).unwrap()
}

/// Misuse of a heap ends the process with a line that names the pointer.
#[test]
fn misuse_of_a_heap_is_found() {
    let (heap, other) = (Heap::new(), Heap::new());
    let dealloc = |heap: &Heap, p: NonNull<u8>, size| {
        // SAFETY: none: that is what is tried.
        unsafe { heap.deallocate(p, layout(size, 8)) };
    };
    for size in [100, 20_000, 200_000, 2_000_000] {
        let p: NonNull<u8> = heap.allocate(layout(size, 8)).unwrap().cast();
        let mine = c_block();
        for foreign in [p, mine] {
            let said = last_words(|| dealloc(&other, foreign, size));
            let wrong = format!("invalid pointer {foreign:p}: no block of the program heap");
            assert!(said.contains(&wrong), "{size}: {said}");
        }
        let inner = p.map_addr(|at| at.checked_add(16).unwrap());
        let said = last_words(|| dealloc(&heap, inner, size));
        assert!(
            said.contains(&format!("{inner:p}")) || HARDENED,
            "{size}: {said}"
        );
        // By the front end of all blocks, which may free a heap's block once.
        let said = last_words(|| free(inner.as_ptr()));
        assert!(
            said.contains(&format!("{inner:p}")) || HARDENED,
            "{size}: {said}"
        );
        let said = last_words(|| {
            dealloc(&heap, p, size);
            free(p.as_ptr());
        });
        assert!(said.contains(&format!("{p:p}")), "{size}: {said}");
        free(mine.as_ptr());
    }
}

fn c_block() -> NonNull<u8> {
    NonNull::new(boxed(1)).unwrap()
}

/// A handle of C that is used after its heap was deleted, also if another heap has its place.
#[test]
fn a_handle_of_a_deleted_heap_is_found() {
    use c::heaps::{allocate, delete, figures, new, reset};
    for another in [false, true] {
        let said = last_words(|| {
            let heap = new("old", None);
            // SAFETY: none: that is what is tried.
            unsafe {
                assert!(!allocate(heap, 16, 100, true).is_null() && delete(heap));
                let next = if another {
                    new("new", None)
                } else {
                    std::ptr::null_mut()
                };
                assert_ne!(next, heap);
                allocate(heap, 16, 100, false);
            }
        });
        assert!(said.contains("use of the program heap 0x"), "{said}");
        assert!(said.contains("after it was deleted"), "{said}");
    }
    // SAFETY: NULL is a heap that could not be made.
    unsafe {
        let none = std::ptr::null_mut();
        assert!(allocate(none, 16, 1, false).is_null() && !reset(none) && delete(none));
        assert_eq!(figures(none).allocations, 0);
    }
}

/// Who frees a heap's block as any block gives it back to the heap; who resizes it so gets a block of the thread's heap.
#[test]
fn the_ordinary_calls_take_a_block_of_a_heap() {
    use c::heaps::{allocate, delete, figures, new, reallocate};
    let heap = new("of C", Some(10 * MIB));
    // SAFETY: the test frees each block once, and deletes the heap at the end.
    unsafe {
        for size in [0, 1, 100, 20_000, 200_000, 2_000_000] {
            let p = allocate(heap, 64, size, true);
            assert!(p.addr().is_multiple_of(64) && c::usable_size(p) >= size);
            assert!((0..size).all(|i| p.add(i).read() == 0));
            let p = reallocate(heap, p, size + 5000);
            assert_eq!(figures(heap).allocations - figures(heap).frees, 1);
            let p = c::realloc(p, 3 * (size + 5000));
            assert_eq!(figures(heap).allocations - figures(heap).frees, 0, "{size}");
            free(p);
            let p = allocate(heap, 16, size, false);
            free(p);
            assert_eq!(figures(heap).live_bytes, 0, "{size}");
        }
        assert!(delete(heap));
    }
}

/// A vector that borrows the heap.
#[cfg(feature = "allocator-api2")]
#[test]
fn collections_take_a_heap() {
    use allocator_api2::boxed::Box;
    use allocator_api2::vec::Vec;
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
