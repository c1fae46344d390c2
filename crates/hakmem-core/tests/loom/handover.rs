use crate::block::{Node, Ptr};
use crate::proto::inbox::{Inbox, Link};
use crate::proto::lock::Lock;
use crate::{check, mistakes};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;

/// A page in miniature, which a thread parks and takes back while blocks of it are in flight. The
/// owners each have an inbox. `owner` says which of them owns the free list.
struct Wanderer {
    owner: AtomicUsize,
    inboxes: [Inbox<Node>; 3],
    /// A thread takes it to act as the owner `PARKED`, and to change the owner.
    lock: Lock,
    /// The free list, as the number of its blocks. Only the owner touches it: loom reports others.
    free: UnsafeCell<usize>,
}
unsafe impl Sync for Wanderer {}
unsafe impl Send for Wanderer {}
const HEAP: usize = 0;
const PARKED: usize = 1;
/// The owner while the purge has the page, without the lock.
const PURGER: usize = 2;

impl Wanderer {
    fn new(owner: usize) -> Arc<Self> {
        Arc::new(Self {
            owner: AtomicUsize::new(owner),
            inboxes: [Inbox::new(), Inbox::new(), Inbox::new()],
            lock: Lock::new(),
            free: UnsafeCell::new(0),
        })
    }

    fn free_remote(&self, node: *mut Node) {
        unsafe { self.inboxes[self.owner.load(Relaxed)].push_chain(node, node, 0) };
    }

    /// As `merge_remote_frees` of a heap, or under the lock as that of `parked`. If `me` no longer
    /// owns the page, it sends the blocks to the owner.
    fn merge(&self, me: usize) {
        self.merge_of(me, me);
    }

    /// Merges the inbox of `of`, for which `me` acts.
    fn merge_of(&self, me: usize, of: usize) {
        let mut node = self.inboxes[of].take();
        while !node.is_null() {
            let next = unsafe { Node::next(node) };
            let owner = self.owner.load(Relaxed);
            if owner == me || mistakes::is("HeapKeepsOthersBatches") {
                self.free.with_mut(|n| unsafe { *n += 1 });
            } else {
                unsafe { self.inboxes[owner].push_chain(node, node, 0) };
            }
            node = next;
        }
    }

    fn touch(&self) {
        self.free.with_mut(|n| unsafe { *n += 0 });
    }
}

/// Two threads change the owner of a page by `purge` and `heap`, while a third frees a block of it.
/// The block arrives once, and only the page's owner touches the free list.
fn a_block_follows(owner: usize, purge: fn(&Wanderer), heap: fn(&Wanderer)) {
    let page = Wanderer::new(owner);
    let node = Ptr(Node::leak(1));
    let freer = {
        let page = page.clone();
        thread::spawn(move || page.free_remote(node.get()))
    };
    let purger = {
        let page = page.clone();
        thread::spawn(move || purge(&page))
    };
    heap(&page);
    freer.join().unwrap();
    purger.join().unwrap();
    let owner = page.owner.load(Relaxed);
    for other in (0..3).filter(|&other| other != owner) {
        page.merge_of(owner, other);
    }
    page.merge(owner);
    page.free.with(|n| assert_eq!(unsafe { *n }, 1));
}

/// The heap parks the page and takes it back, while the purge merges what came to the parked page.
#[test]
fn blocks_follow_a_page_that_changes_hands() {
    fn purge(page: &Wanderer) {
        if let Some(_held) = page.lock.try_lock_as(2) {
            page.merge(PARKED);
            if page.owner.load(Relaxed) == PARKED {
                page.touch();
            }
        }
    }
    fn heap(page: &Wanderer) {
        page.merge(HEAP);
        if let Some(_held) = page.lock.try_lock_as(1) {
            page.owner.store(PARKED, Relaxed);
        }
        if let Some(_held) = page.lock.try_lock_as(1) {
            page.owner.store(HEAP, Relaxed);
        }
        if page.owner.load(Relaxed) == HEAP {
            page.touch();
        }
    }
    check(
        || a_block_follows(HEAP, purge, heap),
        &["HeapKeepsOthersBatches"],
    );
}

/// The purge takes a parked page out and purges it without the lock, while a heap merges what came
/// and takes the page.
#[test]
fn blocks_follow_a_page_that_the_purge_has_out() {
    fn purge(page: &Wanderer) {
        {
            let _held = page.lock.lock_as(2);
            if page.owner.load(Relaxed) != PARKED {
                return;
            }
            if !mistakes::is("PurgeKeepsTheOwner") {
                page.owner.store(PURGER, Relaxed);
            }
        }
        page.touch();
        let _held = page.lock.lock_as(2);
        page.owner.store(PARKED, Relaxed);
        page.merge(PARKED);
        page.merge_of(PARKED, PURGER);
    }
    fn heap(page: &Wanderer) {
        if let Some(_held) = page.lock.try_lock_as(1) {
            page.merge(PARKED);
            if page.owner.load(Relaxed) == PARKED {
                page.owner.store(HEAP, Relaxed);
                page.touch();
            }
        }
    }
    check(
        || a_block_follows(PARKED, purge, heap),
        &["HeapKeepsOthersBatches", "PurgeKeepsTheOwner"],
    );
}
