//! The pool: heaps that no thread holds, with their pages. A new thread adopts one of them. When it
//! ends, it puts the heap back.
//!
//! Each node of memory has a stack of the pool (`backend::nodes`). A thread looks into that of its
//! own node first.
//!
//! Rules
//! 1. `proto::heap_state` says who holds a heap. An idle heap is in the pool, or its last holder is
//!    about to put it there. A heap that is being tidied stays in the pool until a thread pops it.
//! 2. If no destructor runs at the end of a thread, its heap carries the number of the thread.
//!    Another thread takes the heap over when the kernel says that no thread has this number: see
//!    `reap`.

use super::Heap;
use super::all::{all_heaps, heap_by_id, heaps_made, id_of, make};
use super::reclaim::sleeping::{self, Pauses};
use super::reclaim::{parked, whole};
use super::shared::SharedHeap;
use crate::backend::nodes;
use crate::base::sync::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
    fence, plain,
};
use crate::os;
use crate::proto::heap_state::{Adopted, Tidied, With};
use crate::proto::id_stack::IdStack;
use crate::proto::lock::{Guard, Lock};
use crossbeam_utils::CachePadded;

/// The stack of node 0.
#[unsafe(link_section = ".data.hakmem")]
static POOL: IdStack = IdStack::new();
/// The stacks of the other nodes.
static FURTHER: [CachePadded<IdStack>; nodes::MOST - 1] =
    [const { CachePadded::new(IdStack::new()) }; nodes::MOST - 1];

/// The stack of a node.
#[inline(always)]
fn stack(node: usize) -> &'static IdStack {
    FURTHER.get(node.wrapping_sub(1)).map_or(&POOL, |further| &**further)
}
/// True if a heap has ever got numbers (rule 2).
#[unsafe(link_section = ".data.hakmem")]
pub static NUMBERED: AtomicBool = AtomicBool::new(false);

/// A thread has it while it takes over heaps of threads that ended.
#[unsafe(link_section = ".data.hakmem")]
pub static REAPING: Lock = Lock::new();
/// How often a thread has reaped. A hint for those that wait.
static REAPED: plain::AtomicU32 = plain::AtomicU32::new(0);

/// Takes an idle heap from the pool, or makes a heap. None: there is no memory for one.
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn adopt() -> Option<&'static Heap> {
    let me = os::thread_token();
    if heaps_made() == 0 {
        let heap = make(me)?;
        // A program of one thread need not know its node. If two threads begin at once, the one
        // whose heap is counted last finds both here.
        let node = (heaps_made() > 1).then(nodes::here);
        // SAFETY: `make` has just made the calling thread, whose token is `me`, the holder.
        return Some(settled(unsafe { heap.holder() }, node));
    }
    let node = nodes::here();
    if let Some(heap) = pop(me, node) {
        return Some(heap);
    }
    if NUMBERED.load(Relaxed) {
        reap_or_wait(me);
        if let Some(heap) = pop(me, node) {
            return Some(heap);
        }
    }
    // SAFETY: `make` has just made the calling thread, whose token is `me`, the holder.
    Some(settled(unsafe { make(me)?.holder() }, Some(node)))
}

/// Takes a heap from the pool, from the stack of `node` if that has one. A heap that another thread
/// tidies stays with the tidier, which puts it back.
#[inline]
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn pop(me: u32, node: usize) -> Option<&'static Heap> {
    let count = nodes::count();
    for further in 0..count {
        let stack = stack((node + further) % count);
        // SAFETY: only `id_of` made the numbers in the pool.
        while let Some(id) = stack.pop(|id| unsafe { heap_by_id(id) }.link()) {
            // SAFETY: `id` came out of the pool, where only `id_of` made the numbers.
            let heap = unsafe { heap_by_id(id) };
            if heap.state().adopt(me) == Adopted::Yes {
                // SAFETY: `adopt` has just made the calling thread, whose token is `me`, the
                // holder.
                return Some(settled(unsafe { heap.holder() }, Some(node)));
            }
        }
    }
    None
}

/// Puts a heap onto the stack of its node. The caller gives it up.
fn push(heap: &SharedHeap) {
    stack(heap.node()).push(id_of(heap), heap.link());
}

/// A heap that the calling thread, which is on `node`, has just adopted or made. No node: the
/// thread has not asked, and has made the heap. An adopter enters a slow path here, before it uses
/// the heap: it waits for a purge that paused the heap for its last holder.
#[unsafe(link_section = ".text.hot.hakmem")]
fn settled(heap: &Heap, node: Option<usize>) -> &Heap {
    heap.shared().note_number();
    if let Some(node) = node {
        heap.settle(node);
    }
    heap
}

/// [`reap`], unless another thread does that: then waits for it, some milliseconds at most. Else
/// each thread that comes meanwhile would make a heap. It does nothing if the calling thread reaps
/// in a lower frame.
#[cold]
#[inline(never)]
fn reap_or_wait(me: u32) {
    const MOST_MS: u32 = 20;
    let before = REAPED.load(Relaxed);
    let held = REAPING.try_lock_as(me).or_else(|| {
        let goes_on = || !REAPING.is_held_by(me) && REAPED.load(Relaxed) == before;
        REAPING.lock_for(me, MOST_MS, goes_on)
    });
    // What another one has reaped meanwhile, all that waited share.
    if let Some(held) = held
        && REAPED.load(Relaxed) == before
    {
        reap(&held, me);
    }
}

/// Takes over the heaps of threads that ended without a destructor (rule 2). If a new thread has
/// the number of the ended one, the heap stays until the new thread has ended too. The caller holds
/// `REAPING`: only `reap` takes a heap from a thread that has ended. O(heaps), and a system call
/// for each heap with a number.
#[cold]
#[inline(never)]
fn reap(_: &Guard<'static>, me: u32) {
    let process = os::numbers().0;
    for heap in all_heaps() {
        // A child made without the fork handlers has copies of heaps with its parent's numbers: its
        // threads have others, and may hold these heaps.
        let numbers = heap.thread().load(Acquire);
        if (numbers >> 32) as u32 != process {
            continue;
        }
        let With::Thread(who) = heap.state().with() else { continue };
        // A busy heap was left in the middle of a change. The token cannot show that a thread has
        // ended: a new thread may have the same token.
        if os::is_thread(numbers as u32) || heap.is_busy() {
            continue;
        }
        // Unless the thread gave the heap up just before it ended, and another one has it: that
        // changed the number. From here on the number stays, as nobody but `reap` could take it.
        if heap.thread().load(Acquire) != numbers {
            continue;
        }
        // The kernel took the number away after the last write of the thread, after barriers of its
        // own. Acquire: what follows reads nothing from before the kernel's answer.
        fence(Acquire);
        // SAFETY: the thread of that number has ended, so nobody else uses its heap, and this
        // thread sees its writes. `seize` makes the calling thread the holder while it runs the
        // closure.
        let seized =
            heap.state().seize(who, me, || collect_after_the_end(unsafe { heap.holder() }));
        put_back_if_popped(heap, seized);
    }
    REAPED.fetch_add(1, Relaxed);
}

/// Gives up what is free in a heap whose thread has ended or is ending.
pub fn collect_after_the_end(heap: &Heap) {
    heap.thread.store(0, Relaxed);
    heap.collect();
}

/// Puts a heap into the pool. From now on, the calling thread does not hold it.
///
/// # Safety
/// The calling thread holds the heap, and does not use it after the call.
pub unsafe fn put_back(heap: &SharedHeap) {
    heap.state().give_up();
    push(heap);
}

/// Ends a tidying: puts the heap back if another thread popped it meanwhile (`proto::heap_state`
/// rule 3).
pub fn put_back_if_popped(heap: &SharedHeap, tidied: Tidied) {
    if tidied == Tidied::Popped {
        push(heap);
    }
}

/// Stores the calling thread's numbers in its heap (rule 2).
#[cold]
pub fn number(heap: &SharedHeap) {
    let (process, thread) = os::numbers();
    heap.thread().store(u64::from(process) << 32 | u64::from(thread), Release);
    NUMBERED.store(true, Relaxed);
}

/// Tidies all idle heaps with remote frees, so that their empty pages go back to the segments.
/// Of heaps whose threads live but do not merge their remote frees, gives up the pages that are
/// wholly free (`reclaim::whole`), and what is unused in their heaps if these did nothing for
/// `decay` ms at `now` (`reclaim::sleeping`). Returns the bytes of the former. Stops when `goes_on`
/// says false. O(heaps + their remote frees).
pub fn tidy(now: u32, decay: u32, pauses: Pauses, goes_on: impl Fn() -> bool + Copy) -> usize {
    let me = os::thread_token();
    if NUMBERED.load(Relaxed)
        && let Some(held) = REAPING.try_lock_as(me)
    {
        reap(&held, me);
    }
    for heap in all_heaps() {
        if !goes_on() {
            return 0;
        }
        if heap.has_remote_frees() {
            // SAFETY: `tidy` makes the calling thread the holder while it runs the closure.
            put_back_if_popped(heap, heap.state().tidy(me, || unsafe { heap.holder() }.collect()));
        }
    }
    let live = || all_heaps().filter(|heap| is_live(heap));
    parked::merge();
    sleeping::give_up_all(live(), now, decay, pauses, goes_on);
    whole::give_up_all(live(), goes_on)
}

/// If the heap is idle, runs `f` with it for its holder, while the calling thread holds it.
/// A thread that begins meanwhile takes another heap, or makes one: so a caller holds one heap at a
/// time, and not for long. The caller interrupts no function of this module: it found, by
/// `thread::holds_a_lock`, that its thread held no lock before.
pub fn with_idle(heap: &'static SharedHeap, f: impl FnOnce(&Heap)) {
    // SAFETY: `tidy` makes the calling thread the holder while it runs the closure
    // (`proto::heap_state` rule 1).
    let read = || f(unsafe { heap.holder() });
    put_back_if_popped(heap, heap.state().tidy(os::thread_token(), read));
}

/// True if a thread has the heap.
pub fn is_live(heap: &SharedHeap) -> bool {
    matches!(heap.state().with(), With::Thread(_))
}
