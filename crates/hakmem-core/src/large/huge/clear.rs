//! Clearing for calloc. A recycled block becomes zero by the way that costs less: the system drops
//! its memory, or hakmem writes zeroes.

use super::size;
use crate::backend::arena::SLOT;
use crate::backend::density::{self, Density};
use crate::backend::page::Meta;
use crate::os;

/// Above so many bytes it pays to find out whether there is anything to clear. `clear` writes
/// zeroes to smaller blocks and makes no system call. That call opens a file, and an open file in
/// the middle of calloc disturbs a program that counts its descriptors.
const WORTH_ASKING: usize = 32 << 20;

/// Makes the first `n` bytes of a recycled huge block zero, or the whole block if `all`. If the
/// block is large and little of it is resident, it goes back to the system, since the kernel zeroes
/// only what the program touches. Otherwise this writes zeroes. Programs hardly use what lies
/// behind the `n` bytes. So with `all` that part goes back, if it is so large that the call costs
/// less than touching it, and if it did not since the memory was fresh. Else longer blocks that
/// come in turns would fault it in each time.
///
/// # Safety
/// It is a live huge block, and nobody else uses it during the call.
pub unsafe fn clear(meta: &Meta, n: usize, all: bool) {
    let (start, size) = (meta.start(), size(meta));
    if n > WORTH_ASKING && mostly_absent(start.addr(), n) && os::purge(start.addr(), size) {
        return;
    }
    let used = n.next_multiple_of(os::page_size());
    let rest = size.saturating_sub(used);
    let by_hand = match all {
        false => n,
        true if rest >= SLOT
            && !meta.is_tail_purged.replace(true)
            && os::purge(start.addr() + used, rest) =>
        {
            used
        }
        true => size,
    };
    // SAFETY: the block is live, and nobody else uses it. `by_hand` is at most its size.
    unsafe { start.write_bytes(0, by_hand) };
}

/// True if less than half of a sample of the range is resident. False also if the system does not
/// tell. O(1).
pub(super) fn mostly_absent(at: usize, n: usize) -> bool {
    density::of(at, n).is_some_and(Density::is_low)
}
