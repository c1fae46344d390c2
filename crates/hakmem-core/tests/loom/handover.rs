use crate::block::{Node, Ptr};
use crate::proto::inbox::{Inbox, Link};
use crate::proto::lock::Lock;
use crate::{check, mistakes};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;

/// A page that is parked and unparked while blocks of it are on their way, in miniature: `HEAP` and `PARKED` each
/// have an inbox, and `owner` says whose the list is.
struct Wanderer {
    owner: AtomicUsize,
    inboxes: [Inbox<Node>; 2],
    /// Guards what is `PARKED`.
    lock: Lock,
    /// The owner's; loom reports anybody else.
    free: UnsafeCell<usize>,
}
unsafe impl Sync for Wanderer {}
unsafe impl Send for Wanderer {}
const HEAP: usize = 0;
const PARKED: usize = 1;

impl Wanderer {
    fn free_remote(&self, node: *mut Node) {
        unsafe { self.inboxes[self.owner.load(Relaxed)].push_chain(node, node) };
    }

    /// As `merge_remote_frees` of a heap, or under the lock that of `parked`: what is not for `me` any more is passed on.
    fn merge(&self, me: usize) {
        let mut node = self.inboxes[me].take();
        while !node.is_null() {
            let next = unsafe { Node::next(node) };
            let owner = self.owner.load(Relaxed);
            if owner == me || mistakes::is("HeapKeepsStrayBatches") {
                self.free.with_mut(|n| unsafe { *n += 1 });
            } else {
                unsafe { self.inboxes[owner].push_chain(node, node) };
            }
            node = next;
        }
    }

    fn touch(&self) {
        self.free.with_mut(|n| unsafe { *n += 0 });
    }
}

/// A block is freed while its page is parked, purged and unparked: it arrives once, and only the page's owner
/// touches its list.
#[test]
fn blocks_follow_a_page_that_changes_hands() {
    check(
        || {
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
                        page.merge(PARKED);
                        if page.owner.load(Relaxed) == PARKED {
                            page.touch();
                        }
                    }
                })
            };
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
            freer.join().unwrap();
            purger.join().unwrap();
            let owner = page.owner.load(Relaxed);
            page.merge(1 - owner);
            page.merge(owner);
            page.free.with(|n| assert_eq!(unsafe { *n }, 1));
        },
        &["HeapKeepsStrayBatches"],
    );
}
