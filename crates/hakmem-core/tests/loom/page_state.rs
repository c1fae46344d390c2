use crate::check;
use crate::proto::page_state::{PageState, StateCell};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// A page in miniature: its place in the owner's queue, and its state.
struct Page {
    /// True while the page is in the queue. The owner writes it, and then whoever ends the page.
    queued: UnsafeCell<bool>,
    state: StateCell,
}
unsafe impl Sync for Page {}
unsafe impl Send for Page {}

/// The owner takes a full page out of its queue, while another thread has all blocks of the page.
/// That thread ends the page only when the owner has done with it.
#[test]
fn a_page_that_others_end_is_in_no_queue() {
    check(
        || {
            let page = Arc::new(Page {
                queued: UnsafeCell::new(true),
                state: StateCell::new(),
            });
            let other = {
                let page = page.clone();
                thread::spawn(move || {
                    if page.state.is_full_for_others() {
                        page.queued.with_mut(|queued| {
                            assert!(!unsafe { *queued }, "the owner still has it");
                            unsafe { *queued = true };
                        });
                    }
                })
            };
            page.queued.with_mut(|queued| unsafe { *queued = false });
            page.state.set(PageState::Full);
            other.join().unwrap();
        },
        &["PageStateFullRelaxed", "PageStateReadRelaxed"],
    );
}
