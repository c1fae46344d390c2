//! Lists of pages: the queue of a class in a heap, and the lists of parked pages.
//!
//! The links are in the first line of the pages' metadata. So a list belongs to the owner of its
//! pages.
//!
//! Rules
//! 1. A page is in one list at most. The owner of the list is the owner of its pages, or they have
//!    none.
//! 2. Metadata is accessible for ever (`arena` rule 4), and all its fields may be shared. So a link
//!    that is not null always leads to metadata.

use super::Meta;
use core::cell::Cell;
use core::ptr::null_mut;

/// A list of pages, with links in both directions. All zero bytes are an empty one.
#[repr(transparent)]
pub struct PageQueue {
    first: Cell<*mut Meta>,
}

impl PageQueue {
    pub const fn new() -> Self {
        Self { first: Cell::new(null_mut()) }
    }

    /// The first page.
    #[inline(always)]
    pub fn first(&self) -> Option<&'static Meta> {
        // SAFETY: the link is null or leads to metadata, which is accessible for ever (rule 2).
        unsafe { self.first.get().as_ref() }
    }

    /// The page behind `page` in its list.
    #[inline(always)]
    pub fn after(page: &Meta) -> Option<&'static Meta> {
        // SAFETY: the link is null or leads to metadata, which is accessible for ever (rule 2).
        unsafe { page.next.get().as_ref() }
    }

    /// True if the list begins with `page`.
    #[inline]
    pub fn begins_with(&self, page: &Meta) -> bool {
        self.first.get() == page.raw()
    }

    /// True if `page` is the only one of the list.
    #[inline]
    pub fn is_only(&self, page: &Meta) -> bool {
        self.begins_with(page) && page.next.get().is_null()
    }

    /// Puts a page that is in no list before all others.
    pub fn push(&self, page: &Meta) {
        let second = self.first();
        self.first.set(page.raw());
        page.prev.set(null_mut());
        Self::link(page, second);
    }

    /// Puts a page that is in no list behind the first, which keeps its place.
    pub fn push_second(&self, page: &Meta) {
        let Some(first) = self.first() else { return self.push(page) };
        let third = Self::after(first);
        first.next.set(page.raw());
        page.prev.set(first.raw());
        Self::link(page, third);
    }

    /// Takes a page out of the list that it is in.
    pub fn remove(&self, page: &Meta) {
        let (prev, next) = (page.prev.get(), page.next.get());
        // SAFETY: the link is null or leads to metadata, which is accessible for ever (rule 2).
        match unsafe { prev.as_ref() } {
            Some(prev) => prev.next.set(next),
            None => self.first.set(next),
        }
        if let Some(next) = Self::after(page) {
            next.prev.set(prev);
        }
    }

    /// Takes the first page out.
    pub fn pop(&self) -> Option<&'static Meta> {
        let first = self.first()?;
        self.remove(first);
        Some(first)
    }

    fn link(page: &Meta, next: Option<&Meta>) {
        page.next.set(next.map_or(null_mut(), Meta::raw));
        if let Some(next) = next {
            next.prev.set(page.raw());
        }
    }
}
