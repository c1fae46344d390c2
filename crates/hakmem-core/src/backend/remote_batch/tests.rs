//! Unit tests of remote batches.

extern crate std;
use super::*;
use std::{vec, vec::Vec};

/// The hardened build has no smaller blocks.
const SIZE: usize = 32;

fn list(mut block: *mut Block) -> Vec<usize> {
    let mut all = vec![];
    while !block.is_null() {
        all.push(block.addr());
        // SAFETY: the test's memory.
        block = unsafe { Block::next(block) };
    }
    all
}

/// A page without blocks.
fn page() -> Meta {
    // SAFETY: all zero bytes are a valid page's metadata.
    unsafe { core::mem::zeroed() }
}

#[test]
fn a_batch_is_opened_newest_first_before_what_is_there() {
    let mut memory = [[0u64; SIZE / 8]; 5];
    let [a, b, c, d, old] = memory.each_mut().map(|m| m.as_mut_ptr().cast::<Block>());
    let page = page();
    // SAFETY: the test's memory.
    unsafe {
        Block::set_next(old, null_mut());
        page.list.free.set(old);
        let batch = RemoteBatch::new(a);
        let other = RemoteBatch::new(d);
        RemoteBatch::push(batch, b);
        RemoteBatch::set_next(batch, other);
        RemoteBatch::push(batch, c);
        assert_eq!(RemoteBatch::take_apart(batch, &page), (3, other));
        assert_eq!(list(page.list.free.get()), [c, b, a, old].map(|p| p.addr()));
        page.list.free.set(null_mut());
        assert_eq!(RemoteBatch::take_apart(other, &page), (1, null_mut()));
        assert_eq!(list(page.list.free.get()), [d.addr()]);
    }
}
