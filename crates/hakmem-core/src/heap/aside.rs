//! Pages of which few blocks are out: on their way to `sparse`.

use super::{COOLING, Heap};
use crate::backend::page::{Meta, Place};
use crate::heap::sparse;
use core::ptr::null_mut;

impl Heap {
    /// Few blocks of the page are out: it is set aside once some other pages have come to that.
    pub(super) fn cool(&self, class: usize, page: &Meta) {
        if self.queue[class].get() == page.raw() {
            return; // The current page.
        }
        page.place.set(Place::Cooling);
        let i = self.oldest.get() as usize % COOLING;
        self.oldest.set(i as u32 + 1);
        let oldest = self.cooling[i].replace(page.raw());
        // SAFETY: the heap's own pages (see `stop_cooling`).
        if let Some(oldest) = unsafe { oldest.as_ref() } {
            self.set_aside(oldest);
        }
    }

    pub(super) fn set_aside(&self, page: &Meta) {
        let class = usize::from(page.class.get());
        page.place.set(Place::Queue);
        if self.queue[class].get() == page.raw() {
            return; // The current page by now.
        }
        self.unlink(class, page);
        if sparse::set_aside(page) {
            self.pages.set(self.pages.get() - 1);
            self.counts.set_aside.add(1);
            self.released.set(true);
        } else {
            self.push_second(class, page);
        }
    }

    /// The page is not to be set aside any more.
    pub(super) fn stop_cooling(&self, page: &Meta) {
        if page.place.get() == Place::Cooling {
            page.place.set(Place::Queue);
            for cooling in self.cooling.iter().filter(|c| c.get() == page.raw()) {
                cooling.set(null_mut());
            }
        }
    }
}
