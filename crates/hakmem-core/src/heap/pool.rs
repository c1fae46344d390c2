//! The pool: heaps that no thread has, with their pages. A thread adopts one of them, and puts it back when it ends.
//!
//! Rules
//! 1. Who has a heap: see `proto::heap_state`. A heap that is not LIVE, LOST or being tidied is in the pool.
//! 2. A heap whose thread cannot tell that it ends carries the number of its thread. It is taken over once the kernel says that there
//!    is no such thread: see `reap`.

use super::Heap;
use super::all::{all_heaps, heap_by_id, id_of, make};
use super::shared::SharedHeap;
use crate::base::sync::{AtomicU32, Ordering::Relaxed};
use crate::os;
use crate::proto::heap_state::{Adopted, Tidied, With};
use crate::proto::id_stack::IdStack;

#[unsafe(link_section = ".data.hakmem")]
static POOL: IdStack = IdStack::new();
/// The number of the process whose threads' numbers heaps carry (rule 2); 0: none does.
#[unsafe(link_section = ".data.hakmem")]
pub static NUMBERED: AtomicU32 = AtomicU32::new(0);

/// Takes an idle heap, or makes one.
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn adopt() -> Option<&'static Heap> {
    let me = os::thread_token();
    if let Some(heap) = pop(me) {
        return Some(heap);
    }
    if NUMBERED.load(Relaxed) != 0 {
        reap(me);
        if let Some(heap) = pop(me) {
            return Some(heap);
        }
    }
    adopted(make()?, me)
}

/// Takes a heap out of the pool. One that is being tidied is left to who does that.
#[inline]
pub fn pop(me: u32) -> Option<&'static Heap> {
    // SAFETY: the pool has numbers of heaps alone.
    while let Some(id) = POOL.pop(|id| unsafe { heap_by_id(id) }.link()) {
        // SAFETY: as above.
        if let Some(heap) = adopted(unsafe { heap_by_id(id) }, me) {
            return Some(heap);
        }
    }
    None
}

/// A heap that was just made, or taken out of the pool, for its new holder.
#[inline]
fn adopted(heap: &'static SharedHeap, me: u32) -> Option<&'static Heap> {
    // SAFETY: the calling thread, whose token is `me`, has just become the holder.
    (heap.state().adopt(me) == Adopted::Yes).then(|| unsafe { heap.holder() })
}

/// Takes over the heaps of threads that ended without telling (rule 2). A number that another thread has by now keeps its heap
/// from being taken over until that thread has ended, too. O(heaps), and a system call for each that carries a number.
#[cold]
#[inline(never)]
fn reap(me: u32) {
    if os::numbers().0 != NUMBERED.load(Relaxed) {
        return; // A child that was made without fork's handlers: its threads have other numbers.
    }
    for heap in all_heaps() {
        let number = heap.thread().load(Relaxed);
        let With::Thread(who) = heap.state().with() else { continue };
        // A busy one was left in the middle of a change. Tokens do not tell: a new thread may have that of one that is gone.
        if number == 0 || os::is_thread(number) || heap.is_busy() {
            continue;
        }
        // SAFETY: `seize` makes the calling thread the holder while it runs the closure.
        let seized = heap.state().seize(who, me, || collect_after_the_end(unsafe { heap.holder() }));
        put_back_if_popped(heap, seized);
    }
}

/// Gives up what is free in a heap whose thread has ended.
pub fn collect_after_the_end(heap: &Heap) {
    heap.thread.store(0, Relaxed);
    heap.collect();
}

/// Puts a heap into the pool that the calling thread holds, and no longer from now on.
pub fn put_back(heap: &SharedHeap) {
    heap.state().give_up();
    POOL.push(id_of(heap), heap.link());
}

/// Ends a tidying (`proto::heap_state` rule 3).
pub fn put_back_if_popped(heap: &SharedHeap, tidied: Tidied) {
    if tidied == Tidied::Popped {
        POOL.push(id_of(heap), heap.link());
    }
}

/// Notes the calling thread's number in its heap (rule 2).
#[cold]
pub fn number(heap: &SharedHeap) {
    let (process, thread) = os::numbers();
    heap.thread().store(thread, Relaxed);
    NUMBERED.store(process, Relaxed);
}

/// Merges what was freed into idle heaps, so that their empty pages become anybody's, while `goes_on`. O(heaps + their remote frees).
pub fn tidy_idle(goes_on: impl Fn() -> bool) {
    let me = os::thread_token();
    if NUMBERED.load(Relaxed) != 0 {
        reap(me);
    }
    for heap in all_heaps() {
        if !goes_on() {
            return;
        }
        if heap.has_remote_frees() {
            // SAFETY: `tidy` makes the calling thread the holder while it runs the closure.
            put_back_if_popped(heap, heap.state().tidy(me, || unsafe { heap.holder() }.collect()));
        }
    }
}

/// Runs `f` while nobody can take an idle heap: it may look into those that are [`held`]. Under `purge::LOCK`. O(heaps).
pub fn with_idle_held<R>(f: impl FnOnce() -> R) -> R {
    let me = os::thread_token();
    for heap in all_heaps() {
        heap.state().hold(me);
    }
    let result = f();
    for heap in all_heaps() {
        put_back_if_popped(heap, heap.state().let_go(me));
    }
    result
}

/// The heap for its holder, if the calling thread's `with_idle_held` holds it.
pub fn held(heap: &SharedHeap) -> Option<&Heap> {
    let is_held = heap.state().with() == With::Tidier(os::thread_token());
    // SAFETY: only the calling thread ends its own tidying, at the end of `with_idle_held`.
    is_held.then(|| unsafe { heap.holder() })
}

/// True if a thread has the heap.
pub fn is_live(heap: &SharedHeap) -> bool {
    matches!(heap.state().with(), With::Thread(_))
}
