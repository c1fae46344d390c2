//! Blocks of which loom checks every access.

use crate::proto::inbox::Link;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering::AcqRel};
use std::ptr::null_mut;

/// A block. It is leaked: a model that fails may have it twice.
pub struct Node {
    next: UnsafeCell<*mut Node>,
    /// As an anchor: the rest of its batch, here one block.
    pub newest: UnsafeCell<*mut Node>,
    /// What the program left in it; read by the owner after the block came back.
    pub data: UnsafeCell<usize>,
    /// On how many lists it is: must never be 2.
    lists: AtomicUsize,
}

impl Node {
    pub fn leak(data: usize) -> *mut Node {
        Box::into_raw(Box::new(Node {
            next: UnsafeCell::new(null_mut()),
            newest: UnsafeCell::new(null_mut()),
            data: UnsafeCell::new(data),
            lists: AtomicUsize::new(0),
        }))
    }

    pub fn enter_list(this: *mut Node) {
        let lists = unsafe { &(*this).lists };
        assert_eq!(
            lists.fetch_add(1, AcqRel),
            0,
            "a block is on two lists at once"
        );
    }

    pub fn leave_list(this: *mut Node) {
        let lists = unsafe { &(*this).lists };
        assert_eq!(lists.fetch_sub(1, AcqRel), 1);
    }
}

unsafe impl Link for Node {
    unsafe fn next(this: *mut Self) -> *mut Self {
        unsafe { (*this).next.with(|p| *p) }
    }
    unsafe fn set_next(this: *mut Self, next: *mut Self) {
        unsafe { (*this).next.with_mut(|p| *p = next) }
    }
}

/// A pointer that may be sent.
#[derive(Clone, Copy)]
pub struct Ptr(pub *mut Node);
unsafe impl Send for Ptr {}
impl Ptr {
    pub fn get(self) -> *mut Node {
        self.0
    }
}
