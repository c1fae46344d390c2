use crate::block::{Node, Ptr};
use crate::check;
use crate::proto::inbox::{Inbox, Link};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use std::ptr::null_mut;

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
        Node::enter_list(node);
        let head = self.free.with(|f| unsafe { *f });
        unsafe { Node::set_next(node, head) };
        self.free.with_mut(|f| unsafe { *f = node });
    }

    fn merge(&self) {
        let mut node = self.inbox.take();
        while !node.is_null() {
            let next = unsafe { Node::next(node) };
            Node::leave_list(node);
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
            Node::leave_list(node);
        }
        node
    }

    fn push_remote(&self, node: *mut Node) {
        Node::enter_list(node);
        unsafe { self.inbox.push_chain(node, node) };
    }
}

/// The owner allocates and frees while another thread frees what it was handed: no block is ever on a free list and in
/// the inbox at once.
fn model(freer: fn(&Page, *mut Node)) {
    let page = Arc::new(Page {
        free: UnsafeCell::new(null_mut()),
        inbox: Inbox::new(),
    });
    page.push_local(Node::leak(1));
    page.push_local(Node::leak(2));
    let handed = Ptr(page.pop());
    let other = {
        let page = page.clone();
        thread::spawn(move || freer(&page, handed.get()))
    };
    let mine = page.pop();
    assert!(!mine.is_null(), "one block never left");
    page.push_local(mine);
    let (first, second) = (page.pop(), page.pop());
    assert!(!first.is_null() && first != second);
    other.join().unwrap();
    page.pop();
}

#[test]
fn a_block_is_on_one_list_only() {
    check(|| model(Page::push_remote), &["InboxKeepsWhatItGives"]);
}

/// What the model is there to find: a freeing thread that keeps the block for its own list too.
#[test]
#[should_panic]
fn a_block_that_is_sent_and_kept_is_found() {
    loom::model(|| {
        model(|page, node| {
            page.push_remote(node);
            page.push_local(node);
        });
    });
}
