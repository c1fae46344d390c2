use crate::block::{Node, Ptr};
use crate::proto::inbox::{Inbox, Link};
use crate::proto::lock::Lock;
use crate::{check, mistakes};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;

/// A page in miniature, which a thread parks and takes back while blocks of it are in flight. The
/// owners `HEAP` and `PARKED` each have an inbox. `owner` says which of them owns the free list.
struct Wanderer {
    owner: AtomicUsize,
    inboxes: [Inbox<Node>; 2],
    /// A thread takes it to act as the owner `PARKED`, and to change the owner.
    lock: Lock,
    /// The free list, as the number of its blocks. Only the owner touches it: loom reports others.
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

    /// As `merge_remote_frees` of a heap, or under the lock as that of `parked`. If `me` no longer
    /// owns the page, it sends the blocks to the owner.
    fn merge(&self, me: usize) {
        let mut node = self.inboxes[me].take();
        while !node.is_null() {
            let next = unsafe { Node::next(node) };
            let owner = self.owner.load(Relaxed);
            if owner == me || mistakes::is("HeapKeepsOthersBatches") {
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

/// One thread frees a block, while another parks the page and takes it back, and a third purges it.
/// The block arrives once, and only the page's owner touches the free list.
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
        &["HeapKeepsOthersBatches"],
    );
}
