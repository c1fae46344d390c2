//! Blocks for the models. loom checks every access to their contents.

use crate::proto::inbox::Link;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering::AcqRel};
use std::ptr::null_mut;

/// A block. The models leak it: a model that fails may have it on two lists.
pub struct Node {
    next: UnsafeCell<*mut Node>,
    /// The rest of the remote batch that this block begins: here one block, or null.
    pub newest: UnsafeCell<*mut Node>,
    /// What the program left in the block. The owner reads it after it got the block back.
    pub data: UnsafeCell<usize>,
    /// On how many lists the block is: 0 or 1, unless the model fails.
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

/// A pointer to a block that a model may send to another thread.
#[derive(Clone, Copy)]
pub struct Ptr(pub *mut Node);
unsafe impl Send for Ptr {}
impl Ptr {
    pub fn get(self) -> *mut Node {
        self.0
    }
}
