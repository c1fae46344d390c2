//! What only a signal handler or a fork sees of a heap, and what is not to be seen from outside.

extern crate std;
use super::*;
use crate::backend::arena::SLOT;
use crate::base::size_class::of16;
use crate::testing::in_child;
use crate::thread;

const ROOM: u64 = 112;

fn take(heap: &'static ProgramHeap) -> Made {
    heap.alloc(Way::Own, 100, 16, Some(of16(100)))
}

fn free(heap: &'static ProgramHeap, p: NonNull<u8>) -> bool {
    let (of, head) = of(p.as_ptr()).expect("a block of a program heap");
    assert!(core::ptr::eq(of, heap));
    // SAFETY: the tests free what they took, once.
    unsafe { heap.free(p.as_ptr(), head) }
}

/// A handler that interrupts its own thread under the lock does not wait (rule 4).
#[test]
fn a_handler_that_interrupts_the_heap_waits_for_nobody() {
    let heap = registry::make("interrupted", None).expect("memory");
    let [p, q] = [(); 2].map(|()| take(heap).expect("memory").0);
    let interrupted = heap.lock().expect("free");
    assert_eq!(take(heap).map(|_| ()), Err(Refusal::Busy));
    assert!(!free(heap, p) && !free(heap, q));
    assert!(heap.enter(core::ptr::null()).is_err());
    assert_eq!(heap.figures.live.get(), 2 * ROOM, "the blocks wait");
    drop(interrupted);
    let r = take(heap).expect("memory").0;
    assert_eq!((heap.figures.live.get(), heap.figures.frees.get()), (ROOM, 2));
    free(heap, r);
    // SAFETY: nobody uses the heap any more.
    assert!(unsafe { heap.delete() });
}

/// They may lie in different segments.
#[test]
fn what_a_handler_freed_may_lie_anywhere() {
    let heap = registry::make("anywhere", None).expect("memory");
    let huge = [(); 3].map(|()| heap.alloc(Way::Own, 3 << 20, 16, None).expect("memory").0);
    let interrupted = heap.lock().expect("free");
    huge.into_iter().for_each(|p| assert!(!free(heap, p)));
    drop(interrupted);
    free(heap, take(heap).expect("memory").0);
    assert_eq!((heap.figures.live.get(), heap.figures.frees.get()), (0, 4));
    // SAFETY: nobody uses the heap any more.
    assert!(unsafe { heap.delete() });
}

/// What is refused for want of memory was never live.
#[test]
fn a_request_that_fails_is_no_part_of_the_peak() {
    in_child(|| {
        let heap = registry::make("refused", None).expect("memory");
        let p = heap.alloc(Way::Own, 2 << 20, 16, None).expect("memory").0;
        let (_, head) = of(p.as_ptr()).expect("a block of a program heap");
        crate::policy::HARD_LIMIT_MIB.set(64);
        // SAFETY: the block is live, and nobody else uses it.
        assert!(unsafe { heap.resize(head, 1 << 30, 16) }.is_none());
        assert!(heap.alloc(Way::Own, 1 << 30, 16, None).is_err());
        assert_eq!(heap.read().peak_live_bytes, 2 << 20);
        // Pages are refused, too.
        while take(heap).is_ok() {}
        let now = heap.read();
        assert_eq!(now.peak_live_bytes, now.live_bytes);
    });
}

/// Rule 6.
#[test]
fn a_heap_in_use_by_another_thread_at_a_fork_is_lost_to_the_child() {
    let heap = registry::make("in use", None).expect("memory");
    let p = take(heap).expect("memory").0;
    in_child(|| {
        let other = os::thread_token() ^ 1;
        core::mem::forget(heap.lock.lock_as(other));
        heap.after_fork(os::thread_token(), 0);
        assert_eq!(take(heap).map(|_| ()), Err(Refusal::Busy));
        assert!(!free(heap, p));
        // SAFETY: the handle is of a heap that nobody deleted, and nobody uses it.
        unsafe {
            let found = registry::by_handle(registry::handle(heap));
            assert!(found.is_some_and(|found| core::ptr::eq(found, heap)));
            assert!(heap.reset().is_err() && heap.delete(), "nothing can be given back");
        }
    });
    in_child(|| {
        heap.after_fork(os::thread_token(), 0);
        assert!(take(heap).is_ok());
    });
    free(heap, p);
    // SAFETY: nobody uses the heap any more.
    assert!(unsafe { heap.delete() });
}

/// The child of a fork has the scopes of its own thread alone.
#[test]
fn scopes_of_other_threads_do_not_keep_a_heap_of_the_child() {
    let heap = registry::make("entered", None).expect("memory");
    let entered = || thread::scope::enter(heap).expect("memory");
    let left = || assert!(thread::scope::leave(heap));
    let end = || {
        // SAFETY: nobody uses the heap but the scopes that this thread may be in.
        unsafe { heap.delete() }
    };
    let (send, wait) = std::sync::mpsc::channel();
    let (go, may_go) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            entered();
            send.send(()).expect("the test waits");
            may_go.recv().expect("the test lets go");
            left();
        });
        wait.recv().expect("a thread is in a scope");
        in_child(|| assert!(end()));
        entered();
        entered();
        in_child(|| {
            left();
            assert!(!end(), "this thread is in a scope");
            left();
            assert!(end());
        });
        left();
        left();
        assert!(!end(), "the other thread is in a scope");
        go.send(()).expect("the thread waits");
    });
    assert!(end());
}

/// Two coroutines of a thread end their scopes in the order in which they began.
#[test]
fn a_scope_may_end_within_another_heaps() {
    let [a, b] = ["a", "b"].map(|name| registry::make(name, None).expect("memory"));
    let is_in = |heap| thread::scope::entered(heap) == 1;
    [a, b].iter().for_each(|heap| assert!(thread::scope::enter(heap).is_ok()));
    assert!(!thread::scope::leave(a), "it is not the innermost one");
    thread::scope::leave_any(a);
    assert!(!is_in(a) && is_in(b));
    // SAFETY: nobody uses the heap any more.
    assert!(unsafe { a.delete() }, "nobody is in a scope of it");
    thread::scope::leave_any(b);
    assert!(!is_in(b));
    thread::scope::leave_any(b);
    // SAFETY: nobody uses the heap any more.
    assert!(unsafe { b.delete() });
}

/// A scope gets some blocks at a time, no more than the limit allows, and leaves none behind.
#[test]
fn a_scope_takes_blocks_within_the_limit() {
    let heap = registry::make("routed", Some(5 * ROOM as usize)).expect("memory");
    let scope = heap.enter(core::ptr::null()).expect("memory");
    assert!(scope::is_scope_or_empty(&raw const scope.front));
    // SAFETY: a thread is in a scope, so nothing is done.
    assert!(!unsafe { heap.delete() });
    let class = of16(100);
    let blocks: std::vec::Vec<_> = (0..4).map(|_| scope.alloc(class).expect("memory").0).collect();
    assert_eq!(heap.figures.live.get(), 5 * ROOM);
    blocks.into_iter().for_each(|p| assert!(!free(heap, p.cast())));
    assert_eq!(heap.figures.live.get(), ROOM, "one is in the list");
    heap.leave(scope);
    assert_eq!(
        (heap.figures.live.get(), heap.figures.allocations.get(), heap.figures.frees.get()),
        (0, 4, 4)
    );
    let again = heap.enter(core::ptr::null()).expect("memory");
    assert!(core::ptr::eq(scope, again), "the spare one");
    assert!(
        [(); 5].into_iter().all(|()| again.alloc(class).is_ok())
            && again.alloc(class) == Err(Refusal::Limit)
    );
    heap.leave(again);
    // SAFETY: nobody uses the heap any more.
    assert!(unsafe { heap.delete() });
    assert!(heap.is_used(), "blocks of the scope are live");
}

/// The slots of a reserve serve again, and go back with the heap.
#[test]
fn a_reserve_is_used_up_and_used_again() {
    let heap = registry::make("reserved", None).expect("memory");
    heap.reserve(1).expect("memory");
    let slot =
        |heap: &'static ProgramHeap| heap.alloc(Way::Own, 2 * SLOT, 16, None).expect("memory").0;
    for _ in 0..3 {
        let blocks = [(); 16].map(|()| slot(heap));
        assert_eq!(heap.figures.held.get(), reserve::SEGMENT_BYTES);
        let beyond = slot(heap);
        assert_eq!(heap.figures.held.get(), reserve::SEGMENT_BYTES + 2 * SLOT as u64);
        free(heap, beyond);
        // SAFETY: nobody uses the blocks.
        unsafe { heap.reset() }.expect("not in use");
        let _ = blocks;
        assert_eq!(heap.figures.held.get(), reserve::SEGMENT_BYTES);
    }
    // SAFETY: nobody uses the heap any more.
    assert!(unsafe { heap.delete() });
    assert_eq!((heap.figures.held.get(), heap.figures.reserved.get()), (0, 0));
}

/// A reset keeps one page for each class that was used since the last one (`end` rule 4). So a
/// program that uses the heap alike again gets the same memory, and no segment is asked.
#[test]
#[cfg_attr(feature = "hardened", ignore = "there a reset keeps none")]
fn a_reset_keeps_a_page_of_each_class_in_use() {
    let heap = registry::make("kept", None).expect("memory");
    let held = || heap.figures.held.get() / SLOT as u64;
    let of_size = |size: usize| {
        let made = heap.alloc(Way::Own, size, 16, Some(of16(size)));
        made.expect("memory").0
    };
    // SAFETY: nobody uses the blocks.
    let reset = || unsafe { heap.reset() }.expect("not in use");
    let first = [100, 1000, 100].map(of_size);
    let many = SLOT / 1000;
    (0..2 * many).for_each(|_| {
        of_size(1000);
    });
    assert_eq!(held(), 4);
    reset();
    assert_eq!((held(), heap.figures.live.get(), heap.figures.in_pages.get()), (2, 0, 0));
    assert_eq!(of_size(100), first[0]);
    // Full, and so in another list.
    (0..SLOT / ROOM as usize - 1).for_each(|_| {
        of_size(100);
    });
    assert_eq!(held(), 2);
    reset();
    assert_eq!(held(), 1, "nobody used the other one");
    let (block, zero) = heap.alloc(Way::Own, 100, 16, Some(of16(100))).expect("memory");
    assert_eq!((block, zero), (first[0], false), "it is as dirty as it was left");
    // More than a slot.
    of_size(20_000);
    reset();
    assert_eq!(held(), 1);
    registry::give_up_unused(|| true);
    assert_eq!(held(), 0);
    of_size(100);
    heap.reserve(1).expect("memory");
    reset();
    assert_eq!(heap.figures.held.get(), reserve::SEGMENT_BYTES, "with a reserve none is kept");
    // SAFETY: nobody uses the heap any more.
    assert!(unsafe { heap.delete() });
    assert_eq!(held(), 0);
}

#[test]
fn names_are_what_every_report_can_hold() {
    let heap =
        registry::make("ä\"b<c>,d\n and more than there is any room for", None).expect("memory");
    let read = heap.read();
    assert_eq!(read.name(), "__b_c__d_ and more than there i");
    // SAFETY: nobody uses the heap any more.
    assert!(unsafe { heap.delete() });
}
