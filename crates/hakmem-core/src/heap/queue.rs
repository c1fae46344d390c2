//! The queue of a class: pages that blocks are taken from, the current one first.

use super::Heap;
use crate::backend::page::{Meta, PageState};
use core::ptr::null_mut;

impl Heap {
    pub(super) fn unlink(&self, class: usize, page: &Meta) {
        debug_assert!(page.state.get() == PageState::Retired || page.owner() == self.owner());
        let (prev, next) = (page.prev.get(), page.next.get());
        // SAFETY: neighbours in the queue are this heap's pages.
        unsafe {
            match prev.as_ref() {
                Some(prev) => prev.next.set(next),
                None => self.queue[class].set(next),
            }
            if let Some(next) = next.as_ref() {
                next.prev.set(prev);
            }
        }
    }

    pub(super) fn push_front(&self, class: usize, page: &Meta) {
        let first = self.queue[class].replace(page.raw());
        page.prev.set(null_mut());
        page.next.set(first);
        // SAFETY: as in `unlink`.
        if let Some(first) = unsafe { first.as_ref() } {
            first.prev.set(page.raw());
        }
    }

    /// Puts a page behind the current one, which keeps its place.
    pub(super) fn push_second(&self, class: usize, page: &Meta) {
        // SAFETY: as in `unlink`.
        let Some(first) = (unsafe { self.queue[class].get().as_ref() }) else {
            return self.push_front(class, page);
        };
        let next = first.next.replace(page.raw());
        page.prev.set(first.raw());
        page.next.set(next);
        // SAFETY: as in `unlink`.
        if let Some(next) = unsafe { next.as_ref() } {
            next.prev.set(page.raw());
        }
    }
}
