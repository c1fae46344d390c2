//! From a pointer or metadata to the heap, and to the bytes of the block.
//!
//! Rules
//! 1. A thread that has a live block of a heap follows the link in its metadata. A thread that has
//!    none looks for the heap among all heaps, and follows no link (`program` rule 2).

use super::{ProgramHeap, registry};
use crate::backend::page::{self, Kind, Meta};
use crate::large::huge;

/// The heap of the page or the block that `p` lies in, and the metadata of its first slot. None: it
/// is in none.
#[inline]
pub fn of(p: *mut u8) -> Option<(&'static ProgramHeap, &'static Meta)> {
    let head = page::lookup(p)?.head();
    has(head.kind()).then(|| (heap_of(head), head))
}

/// True for the kinds of program heaps.
#[inline]
pub fn has(kind: Kind) -> bool {
    matches!(kind, Kind::ProgramPage | Kind::ProgramLarge | Kind::ProgramHuge)
}

/// The heap of a page or a larger block that may end meanwhile, for a map. O(program heaps).
///
/// The slots may be in another use by the time of the second step, in which the link leads
/// elsewhere. So this follows no link: it looks for the heap at that address among all heaps. Then
/// each step may read a value of any moment, and needs no order.
pub fn heap_of_slots(head: &Meta) -> Option<&'static ProgramHeap> {
    if !has(head.kind()) {
        return None;
    }
    let link = head.remote_link.glance().cast_const().cast();
    registry::all().find(|&heap| core::ptr::eq(heap, link))
}

/// The heap of a page or a block.
fn heap_of(head: &Meta) -> &'static ProgramHeap {
    // SAFETY: the kind says that a heap set the link before it handed out a block (rule 2). The
    // memory of heaps is never unmapped (rule 5), and any thread may have a reference.
    unsafe { &*head.remote_link.get().cast::<ProgramHeap>() }
}

/// The bytes of a block of a page, or of a larger one, from the metadata of its first slot.
pub fn room(head: &Meta) -> usize {
    match head.kind() {
        Kind::ProgramHuge => huge::size(head),
        _ => head.block_size.get() as usize,
    }
}
