//! Parking for a thread that sleeps: see `reclaim::sleeping`, and `proto::take_away` for the steps.

use super::{GIVEN_UP, LOCK, Locked, OWNER};
use crate::backend::owner::Owner;
use crate::backend::page::{Meta, PageState, ParkedList};
use crate::base::size_class::CLASSES;
use crate::base::sync::Ordering::Relaxed;
use crate::os;
use crate::proto::take_away;
use core::cell::Cell;

/// Parks those of `pages`, one for each class, of which `is_unused` still says so when no free by
/// their owner can be under way, and of which `is_as_it_was` says that the list did not change
/// since. `unlink` takes a page out of its queue before it is parked. O(classes), and two heavy
/// barriers.
///
/// # Safety
/// The calling thread keeps the heap paused that owns the pages (`sleeping` rule 1).
pub unsafe fn park_unused(
    heap: *mut Owner,
    barrier: &dyn Fn() -> bool,
    pages: &[Cell<Option<&'static Meta>>; CLASSES],
    is_unused: impl Fn(usize, &Meta) -> bool,
    is_as_it_was: impl Fn(usize) -> bool,
    unlink: impl Fn(usize, &Meta),
) {
    let each =
        || pages.iter().enumerate().filter_map(|(class, cell)| Some((class, cell, cell.get()?)));
    let lock = LOCK.try_lock().map(Locked::new);
    let Some(parked) = lock.filter(|_| !GIVEN_UP.load(Relaxed)) else {
        return;
    };
    // Each that goes back leaves `each`, which looks at the cells again.
    take_away::take_away(
        each(),
        barrier,
        |(_, _, page)| page.set_owner(OWNER.as_word()),
        |(class, _, page)| is_unused(class, page),
        |(class, ..)| is_as_it_was(class),
        |(_, cell, page)| {
            page.set_owner(heap);
            cell.set(None);
        },
    );
    for (class, _, page) in each() {
        unlink(class, page);
        let used = page.list.until_slow.get() + i32::from(page.park_at.get());
        page.count_down(used, 0);
        page.stamp.store(os::now_ms(), Relaxed);
        page.state.set(PageState::Parked);
        parked.link(page, ParkedList::Unpurged);
    }
}
