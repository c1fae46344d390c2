//! The overflows that were told of, for `ON_ERROR=report`: several checks see the same one. The
//! free of the block does, the free of the block behind it, and the check at the end of the
//! process.
//!
//! Rules
//! 1. A block that did not pass is never used again (`hardened` rule 2), so its address is enough.
//!    That is not so of blocks of program heaps, which a reset frees unseen: they are not listed.

use crate::backend::page::{self, Kind};
use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::AtomicUsize;
use crate::policy::{self, OnError};

/// Overflows that are listed. Further ones may be told twice.
const MOST: usize = 512;

/// The addresses of the blocks. 0: none yet. They guard no memory, so relaxed accesses are enough.
static TOLD: [AtomicUsize; MOST] = [const { AtomicUsize::new(0) }; MOST];

/// True if an overflow of the block at `p` is to be told. O(`MOST`): only reports come here.
#[cold]
pub fn is_first(p: *mut u8) -> bool {
    let kind = page::lookup(p).map(|meta| meta.head_of_block().kind());
    if policy::ON_ERROR.get() != OnError::Report as u32
        || !matches!(kind, Some(Kind::Page | Kind::Large | Kind::Huge))
    {
        return true;
    }
    for place in &TOLD {
        match place.compare_exchange(0, p.addr(), Relaxed, Relaxed) {
            Ok(_) => return true,
            Err(known) if known == p.addr() => return false,
            Err(_) => {}
        }
    }
    true
}
