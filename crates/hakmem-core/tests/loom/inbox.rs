use crate::block::{Node, Ptr};
use crate::check;
use crate::proto::inbox::{Inbox, Link};
use loom::sync::Arc;
use loom::thread;

/// Two producers push chains of remote batches. The owner takes chains meanwhile and at the end.
/// Every block arrives once, with the bytes that its freer wrote. That holds too for the blocks of
/// a batch that only its first block leads to.
#[test]
fn inbox_delivers_every_block_once() {
    check(
        || {
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
                        inbox.push_chain(a, b, 1 << 10);
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
                        }
                    }
                    node = next;
                }
            };
            drain(inbox.take());
            for p in producers {
                p.join().unwrap();
            }
            assert!(inbox.is_empty() == (inbox.waiting_bytes() == 0));
            drain(inbox.take());
            assert_eq!(inbox.waiting_bytes(), 0);
            seen.sort_unstable();
            assert_eq!(seen, [10, 11, 12, 20, 21, 22]);
        },
        &[
            "InboxPublishesRelaxed",
            "InboxTakesRelaxed",
            "InboxKeepsWhatItGives",
        ],
    );
}
