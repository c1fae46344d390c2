//! Models of the protocols between threads, driven through every interleaving.
//!
//! Run with `ci/loom`. Each model fails when the rule it guards is broken; what was broken to see that is said beside
//! it.
#![cfg(loom)]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "loom's cells check at run time what a comment would claim"
)]

use hakmem_core::proto::inbox::{Inbox, Link};
use hakmem_core::proto::lock::Lock;
use hakmem_core::proto::pool::Pool;
use hakmem_core::proto::slots::{Slots, run};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use loom::thread;
use std::ptr::null_mut;

/// A block whose every access loom checks for a race.
struct Node {
    next: UnsafeCell<*mut Node>,
    /// As an anchor: the rest of its parcel, here one block.
    newest: UnsafeCell<*mut Node>,
    /// What the program left in it; read by the owner after the block came back.
    data: UnsafeCell<usize>,
    /// On how many lists it is: must never be 2.
    lists: AtomicUsize,
}

impl Node {
    fn leak(data: usize) -> *mut Node {
        Box::into_raw(Box::new(Node {
            next: UnsafeCell::new(null_mut()),
            newest: UnsafeCell::new(null_mut()),
            data: UnsafeCell::new(data),
            lists: AtomicUsize::new(0),
        }))
    }
}

unsafe impl Link for Node {
    unsafe fn next(this: *mut Self) -> *mut Self {
        unsafe { (*this).next.with(|p| *p) }
    }
    unsafe fn set_next(this: *mut Self, next: *mut Self) {
        unsafe { (*this).next.with_mut(|p| *p = next) }
    }
}

/// A pointer that may be sent.
#[derive(Clone, Copy)]
struct Ptr(*mut Node);
unsafe impl Send for Ptr {}
impl Ptr {
    fn get(self) -> *mut Node {
        self.0
    }
}

/// Two producers publish chains of parcels, the owner takes meanwhile and at the end: every block arrives once, with
/// what its freer wrote, those that are in no chain but behind an anchor too. Broken on purpose: `push_chain` with a relaxed swing, or `take` with a relaxed swap: loom reports a
/// race on the node.
#[test]
fn inbox_delivers_every_block_once() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::<Node>::new());
        let producers: Vec<_> = (0..2)
            .map(|i| {
                let inbox = inbox.clone();
                let blocks = [0; 3].map(|_| Ptr(Node::leak(0)));
                thread::spawn(move || unsafe {
                    let [a, b, c] = blocks.map(Ptr::get);
                    for (k, node) in [a, b, c].into_iter().enumerate() {
                        (*node).data.with_mut(|d| *d = 10 * (i + 1) + k);
                    }
                    (*b).newest.with_mut(|p| *p = c);
                    Node::set_next(a, b);
                    inbox.push_chain(a, b);
                })
            })
            .collect();
        let mut seen = Vec::new();
        let mut drain = |mut node: *mut Node| {
            while !node.is_null() {
                let (next, newest) = unsafe { (Node::next(node), (*node).newest.with(|p| *p)) };
                for block in [node, newest] {
                    if !block.is_null() {
                        seen.push(unsafe { (*block).data.with(|d| *d) });
                        drop(unsafe { Box::from_raw(block) });
                    }
                }
                node = next;
            }
        };
        drain(inbox.take());
        for p in producers {
            p.join().unwrap();
        }
        drain(inbox.take());
        seen.sort_unstable();
        assert_eq!(seen, [10, 11, 12, 20, 21, 22]);
    });
}

/// Two threads claim slots of a segment that has two, one of them twice: nobody gets what another has, and what the
/// former owner wrote is seen by the next. Broken on purpose: `swing` with a relaxed success: loom reports a race on
/// the slot's memory.
#[test]
fn slots_have_one_owner() {
    loom::model(|| {
        let slots = Arc::new(Slots::new());
        let memory = Arc::new([UnsafeCell::new(0usize), UnsafeCell::new(0)]);
        slots.claim(32).unwrap();
        unsafe { slots.release(0b11, false) };
        let visit = |slots: &Slots, memory: &[UnsafeCell<usize>; 2]| match slots.claim(1) {
            Some(claim) => {
                memory[claim.first as usize].with_mut(|m| unsafe { *m += 1 });
                unsafe { slots.release(run(claim.first, 1), true) };
                1
            }
            None => 0,
        };
        let other = {
            let (slots, memory) = (slots.clone(), memory.clone());
            thread::spawn(move || visit(&slots, &memory) + visit(&slots, &memory))
        };
        let claimed = visit(&slots, &memory) + other.join().unwrap();
        let written: usize = memory.iter().map(|m| m.with(|m| unsafe { *m })).sum();
        assert_eq!(claimed, written);
        assert_eq!(claimed, 3, "two slots are enough for two threads");
    });
}

/// A purger and a claimer of the same EMPTY slot: the memory is given back or handed out, never both at once; and a
/// slot that was purged is handed out as clean. Broken on purpose: a `claim_empty` that only reads the mask and leaves
/// the slots free: loom reports a race on the memory.
#[test]
fn purging_is_owning() {
    loom::model(|| {
        let slots = Arc::new(Slots::new());
        let memory = Arc::new(UnsafeCell::new(0usize));
        slots.claim(32).unwrap();
        memory.with_mut(|m| unsafe { *m = 7 });
        unsafe { slots.release(1, true) };
        let purger = {
            let (slots, memory) = (slots.clone(), memory.clone());
            thread::spawn(move || {
                let mask = slots.claim_empty();
                if mask != 0 {
                    memory.with_mut(|m| unsafe { *m = 0 });
                    unsafe { slots.release(mask, false) };
                }
            })
        };
        if let Some(claim) = slots.claim(1) {
            memory.with_mut(|m| unsafe {
                assert_eq!(claim.clean, *m == 0, "clean means zero");
                *m = 9;
            });
            unsafe { slots.release(1, true) };
        }
        purger.join().unwrap();
    });
}

/// Retiring a segment against claiming in it: one of the two has it. Broken on purpose: a `retire` that stores instead
/// of swinging: loom reports a race on the owner's memory.
#[test]
fn a_retired_segment_has_no_other_owner() {
    loom::model(|| {
        let slots = Arc::new(Slots::new());
        let memory = Arc::new(UnsafeCell::new(0));
        let other = {
            let (slots, memory) = (slots.clone(), memory.clone());
            thread::spawn(move || {
                if slots.claim(1).is_some() {
                    memory.with_mut(|m| unsafe { *m += 1 });
                    unsafe { slots.release(1, false) };
                }
            })
        };
        if slots.retire() {
            memory.with_mut(|m| unsafe { *m += 1 });
        }
        other.join().unwrap();
    });
}

/// Two threads adopt and give back two heaps: no heap has two threads, none is lost, and each adopter sees what the
/// last one left. Broken on purpose: `bump` without its tag: the model finds a heap that two threads have (ABA);
/// `push` with a relaxed swing, or `pop` with relaxed loads: it finds the race on the heap.
#[test]
fn a_heap_is_adopted_by_one_thread() {
    struct Heap {
        link: AtomicU64,
        inside: UnsafeCell<usize>,
    }
    // Numbers start at 1.
    fn link(heaps: &[Heap], id: u64) -> &AtomicU64 {
        &heaps[id as usize - 1].link
    }
    fn adopt(pool: &Pool, heaps: &[Heap]) -> Option<u64> {
        pool.pop(|id| link(heaps, id)).inspect(|&id| {
            heaps[id as usize - 1]
                .inside
                .with_mut(|n| unsafe { *n += 1 });
        })
    }
    loom::model(|| {
        let pool = Arc::new(Pool::new());
        let heap = || Heap {
            link: AtomicU64::new(0),
            inside: UnsafeCell::new(0),
        };
        let heaps: Arc<Vec<Heap>> = Arc::new((0..2).map(|_| heap()).collect());
        pool.push(1, link(&heaps, 1));
        pool.push(2, link(&heaps, 2));
        let other = {
            let (pool, heaps) = (pool.clone(), heaps.clone());
            thread::spawn(move || {
                // Takes both, gives the first back: what makes a stack without tags fail.
                let first = adopt(&pool, &heaps);
                let second = adopt(&pool, &heaps);
                if let Some(id) = first {
                    pool.push(id, link(&heaps, id));
                }
                second
            })
        };
        // Gives its first one back too, so that both threads pop what the other pushed.
        let first = adopt(&pool, &heaps);
        if let Some(id) = first {
            pool.push(id, link(&heaps, id));
        }
        let mine = adopt(&pool, &heaps);
        let theirs = other.join().unwrap();
        let left = std::iter::from_fn(|| pool.pop(|id| link(&heaps, id)));
        let mut all: Vec<_> = left.chain(mine).chain(theirs).collect();
        all.sort_unstable();
        assert_eq!(all, [1, 2], "every heap is somewhere, once");
    });
}

/// The lock excludes, and no waiter is left behind. Broken on purpose: `release` with a relaxed swap: loom reports the
/// race.
#[test]
fn the_lock_excludes() {
    loom::model(|| {
        let lock = Arc::new(Lock::new());
        let inside = Arc::new(UnsafeCell::new(0));
        let other = {
            let (lock, inside) = (lock.clone(), inside.clone());
            thread::spawn(move || {
                let _held = lock.lock_as(2);
                assert!(lock.is_held_by(2));
                inside.with_mut(|n| unsafe { *n += 1 });
            })
        };
        {
            let _held = lock.lock_as(1);
            assert!(!lock.is_held_by(2));
            inside.with_mut(|n| unsafe { *n += 1 });
        }
        other.join().unwrap();
        assert_eq!(inside.with(|n| unsafe { *n }), 2);
    });
}

/// Who only tries the lock gets it or leaves it alone. Broken on purpose: a guard made before it is known whether the
/// lock was got, which unlocks it for whoever has it: loom reports the race.
#[test]
fn trying_the_lock_leaves_its_holder_alone() {
    loom::model(|| {
        let lock = Arc::new(Lock::new());
        let inside = Arc::new(UnsafeCell::new(0));
        let visit = |lock: &Lock, inside: &UnsafeCell<i32>, me| match lock.try_lock_as(me) {
            Some(_held) => inside.with_mut(|n| unsafe { *n += 1 }),
            None => {}
        };
        let others: Vec<_> = (2..4)
            .map(|me| {
                let (lock, inside) = (lock.clone(), inside.clone());
                thread::spawn(move || visit(&lock, &inside, me))
            })
            .collect();
        visit(&lock, &inside, 1);
        for other in others {
            other.join().unwrap();
        }
        let visits = inside.with(|n| unsafe { *n });
        assert!((1..=3).contains(&visits) && lock.try_lock_as(1).is_some());
    });
}

/// A page in miniature: the owner's list and the inbox, as the rules of `page` and `heap` have them.
struct Page {
    /// The owner's; loom reports anybody else.
    free: UnsafeCell<*mut Node>,
    inbox: Inbox<Node>,
}
unsafe impl Sync for Page {}
unsafe impl Send for Page {}

impl Page {
    fn push_local(&self, node: *mut Node) {
        enter_list(node);
        let head = self.free.with(|f| unsafe { *f });
        unsafe { Node::set_next(node, head) };
        self.free.with_mut(|f| unsafe { *f = node });
    }

    fn merge(&self) {
        let mut node = self.inbox.take();
        while !node.is_null() {
            let next = unsafe { Node::next(node) };
            leave_list(node);
            self.push_local(node);
            node = next;
        }
    }

    /// The owner's slow path: merge first, then hand out (`page` rule 4).
    fn pop(&self) -> *mut Node {
        self.merge();
        let node = self.free.with(|f| unsafe { *f });
        if !node.is_null() {
            let next = unsafe { Node::next(node) };
            self.free.with_mut(|f| unsafe { *f = next });
            leave_list(node);
        }
        node
    }

    fn push_remote(&self, node: *mut Node) {
        enter_list(node);
        unsafe { self.inbox.push_chain(node, node) };
    }
}

fn enter_list(node: *mut Node) {
    let lists = unsafe { &(*node).lists };
    assert_eq!(
        lists.fetch_add(1, AcqRel),
        0,
        "a block is on a free list and in an inbox at once"
    );
}
fn leave_list(node: *mut Node) {
    let lists = unsafe { &(*node).lists };
    assert_eq!(lists.fetch_sub(1, AcqRel), 1);
}

/// The owner allocates and frees while another thread frees what it was handed: no block is ever on a free list and in
/// the inbox at once. Broken on purpose: a `push_remote` that puts the block on the page's own list after it was sent
/// (the freeing thread keeping it for itself) is found at once, and so is a `merge` that does not empty the inbox.
#[test]
fn a_block_is_on_one_list_only() {
    loom::model(|| {
        let page = Arc::new(Page {
            free: UnsafeCell::new(null_mut()),
            inbox: Inbox::new(),
        });
        page.push_local(Node::leak(1));
        page.push_local(Node::leak(2));
        let handed = Ptr(page.pop());
        let other = {
            let page = page.clone();
            thread::spawn(move || page.push_remote(handed.get()))
        };
        let mine = page.pop();
        assert!(!mine.is_null(), "one block never left");
        page.push_local(mine);
        let (first, second) = (page.pop(), page.pop());
        assert!(!first.is_null() && first != second);
        other.join().unwrap();
        for node in [first, second, page.pop()] {
            if !node.is_null() {
                drop(unsafe { Box::from_raw(node) });
            }
        }
    });
}

/// A page that is set aside and taken back while blocks of it are on their way, in miniature: `HEAP` and `ASIDE` each have
/// an inbox, and `owner` says whose the list is.
struct Wanderer {
    owner: AtomicUsize,
    inboxes: [Inbox<Node>; 2],
    /// Guards what is `ASIDE`.
    lock: Lock,
    /// The owner's; loom reports anybody else.
    free: UnsafeCell<usize>,
}
unsafe impl Sync for Wanderer {}
unsafe impl Send for Wanderer {}
const HEAP: usize = 0;
const ASIDE: usize = 1;

impl Wanderer {
    fn free_remote(&self, node: *mut Node) {
        unsafe { self.inboxes[self.owner.load(Relaxed)].push_chain(node, node) };
    }

    /// As `merge_mail` of a heap, or under the lock that of `sparse`: what is not for `me` any more is passed on.
    fn merge(&self, me: usize) {
        let mut node = self.inboxes[me].take();
        while !node.is_null() {
            let next = unsafe { Node::next(node) };
            let owner = self.owner.load(Relaxed);
            if owner == me {
                self.free.with_mut(|n| unsafe { *n += 1 });
                drop(unsafe { Box::from_raw(node) });
            } else {
                unsafe { self.inboxes[owner].push_chain(node, node) };
            }
            node = next;
        }
    }
}

/// A block is freed while its page is set aside, purged and taken back: it arrives once, and only the page's owner touches
/// its list. Broken on purpose: a `merge` that takes every block for its own, as heaps could before pages changed hands:
/// loom reports the race on the list.
#[test]
fn blocks_follow_a_page_that_changes_hands() {
    loom::model(|| {
        let page = Arc::new(Wanderer {
            owner: AtomicUsize::new(HEAP),
            inboxes: [Inbox::new(), Inbox::new()],
            lock: Lock::new(),
            free: UnsafeCell::new(0),
        });
        let node = Ptr(Node::leak(1));
        let freer = {
            let page = page.clone();
            thread::spawn(move || page.free_remote(node.get()))
        };
        let purger = {
            let page = page.clone();
            thread::spawn(move || {
                if let Some(_held) = page.lock.try_lock_as(2) {
                    page.merge(ASIDE);
                    if page.owner.load(Relaxed) == ASIDE {
                        page.free.with_mut(|n| unsafe { *n += 0 });
                    }
                }
            })
        };
        page.merge(HEAP);
        if let Some(_held) = page.lock.try_lock_as(1) {
            page.owner.store(ASIDE, Relaxed);
        }
        if let Some(_held) = page.lock.try_lock_as(1) {
            page.owner.store(HEAP, Relaxed);
        }
        if page.owner.load(Relaxed) == HEAP {
            page.free.with_mut(|n| unsafe { *n += 0 });
        }
        freer.join().unwrap();
        purger.join().unwrap();
        let owner = page.owner.load(Relaxed);
        page.merge(1 - owner);
        page.merge(owner);
        page.free.with(|n| assert_eq!(unsafe { *n }, 1));
    });
}

/// A segment is listed once everybody who changed its slots is through (`segment` rule 2), in miniature: one bit for
/// "listed", a count of free slots, and two threads that change it. Broken on purpose: `relist` without its second
/// look leaves a segment with free slots unlisted.
#[test]
fn a_segment_with_room_ends_up_listed() {
    struct Segment {
        free: AtomicUsize,
        level: AtomicUsize,
        listed: AtomicBool,
    }
    impl Segment {
        fn relist(&self) {
            loop {
                let wanted = self.free.load(SeqCst).min(1);
                let old = self.level.swap(wanted, SeqCst);
                if old != wanted && old == 1 {
                    self.listed.fetch_and(false, SeqCst);
                }
                if wanted == 1 {
                    self.listed.fetch_or(true, SeqCst);
                }
                if self.free.load(SeqCst).min(1) == wanted {
                    return;
                }
            }
        }
    }
    loom::model(|| {
        let segment = Arc::new(Segment {
            free: AtomicUsize::new(1),
            level: AtomicUsize::new(1),
            listed: AtomicBool::new(true),
        });
        let other = {
            let segment = segment.clone();
            thread::spawn(move || {
                segment.free.fetch_sub(1, AcqRel);
                segment.relist();
            })
        };
        segment.free.fetch_add(1, AcqRel);
        segment.relist();
        other.join().unwrap();
        assert!(
            segment.listed.load(SeqCst),
            "a slot is free and nobody would find it"
        );
    });
}
