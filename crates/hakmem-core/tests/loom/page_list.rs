use crate::block::{Node, Ptr};
use crate::check;
use crate::proto::inbox::{Inbox, Link};
use crate::proto::page_list::PageRemoteList;
use loom::sync::Arc;
use loom::thread;

/// The page list of a page, and the node by which it is in the inbox. No thread reads that node's
/// data.
struct Page {
    remote_list: PageRemoteList<Node>,
    itself: Ptr,
    inbox: Inbox<Node>,
}

/// Two producers add blocks, and the first of them sends the page list. The owner takes the list
/// and empties it. Every block arrives once, with the bytes that its freer wrote. One thread at a
/// time uses the link of the page list.
#[test]
fn page_list_delivers_every_block_once_and_is_sent_by_one() {
    check(
        || {
            let page = Arc::new(Page {
                remote_list: PageRemoteList::new(),
                itself: Ptr(Node::leak(0)),
                inbox: Inbox::new(),
            });
            let producers: Vec<_> = (1..=2)
                .map(|i| {
                    let page = page.clone();
                    let block = Ptr(Node::leak(0));
                    thread::spawn(move || unsafe {
                        let block = block.get();
                        (*block).data.with_mut(|d| *d = i);
                        if page.remote_list.add(block) {
                            let itself = page.itself.get();
                            Node::enter_list(itself);
                            page.inbox.push_chain(itself, itself, 0);
                        }
                    })
                })
                .collect();
            let mut seen = Vec::new();
            let mut receive = || {
                let mut sent = page.inbox.take();
                while !sent.is_null() {
                    Node::leave_list(sent);
                    let (next, mut block) = page.remote_list.open(|| unsafe { Node::next(sent) });
                    while !block.is_null() {
                        seen.push(unsafe { (*block).data.with(|d| *d) });
                        block = unsafe { Node::next(block) };
                    }
                    sent = next;
                }
            };
            receive();
            for p in producers {
                p.join().unwrap();
            }
            receive();
            seen.sort_unstable();
            assert_eq!(seen, [1, 2]);
        },
        &[
            "PageListAddsRelaxed",
            "PageListOpensRelaxed",
            "PageListReadsLinkLate",
        ],
    );
}
