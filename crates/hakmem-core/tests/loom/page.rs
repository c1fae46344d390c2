use crate::block::{Node, Ptr};
use crate::check;
use crate::proto::inbox::{Inbox, Link};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use std::ptr::null_mut;

/// A page in miniature: the owner's free list and the inbox, by the rules of `page` and `heap`.
struct Page {
    /// The free list. Only the owner touches it: loom reports others.
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

    /// The owner's slow path: it merges first, and then allocates (`page` rule 4).
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
        unsafe { self.inbox.push_chain(node, node, 0) };
    }
}

/// The owner allocates and frees, while another thread frees a block that it got from the owner. No
/// block is on a free list and in the inbox at once.
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

/// The model finds a freeing thread that sends a block and puts it on its own list too.
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
