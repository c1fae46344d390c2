use crate::base::mutant::Mutant;
use crate::block::{Node, Ptr};
use crate::check;
use crate::proto::inbox::{Inbox, Link};
use crate::proto::post::Post;
use loom::sync::Arc;
use loom::thread;

/// The post of a page, and what links it in an inbox: a node whose data nobody asks for.
struct Page {
    post: Post<Node>,
    itself: Ptr,
    inbox: Inbox<Node>,
}

/// Two producers put blocks in, and the first of them sends the post; the owner opens it when it comes. Every block
/// arrives once, with what its freer wrote, and the post is linked by one thread at a time.
#[test]
fn post_delivers_every_block_once_and_is_sent_by_one() {
    check(
        || {
            let page = Arc::new(Page {
                post: Post::new(),
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
                        if page.post.add(block) {
                            let itself = page.itself.get();
                            Node::enter_list(itself);
                            page.inbox.push_chain(itself, itself);
                        }
                    })
                })
                .collect();
            let mut seen = Vec::new();
            let mut receive = || {
                let mut sent = page.inbox.take();
                while !sent.is_null() {
                    Node::leave_list(sent);
                    let (next, mut block) = page.post.open(|| unsafe { Node::next(sent) });
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
            Mutant::PostAddsRelaxed,
            Mutant::PostOpensRelaxed,
            Mutant::PostReadsLinkLate,
        ],
    );
}
