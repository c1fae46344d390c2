//! Clearing for calloc. A recycled block becomes zero by the way that costs less: the system drops
//! its memory, or hakmem writes zeroes.

use super::{head_of, run_of, size};
use crate::backend::arena::{SEGMENT, SLOT};
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
/// behind the request: see [`give_behind`].
///
/// # Safety
/// It is a live huge block, and nobody else uses it during the call.
pub unsafe fn clear(meta: &Meta, n: usize, all: bool) {
    let (start, size) = (meta.start(), size(meta));
    if n > WORTH_ASKING && mostly_absent(start.addr(), n) && os::purge(start.addr(), size) {
        return;
    }
    let by_hand = if all { give_behind(meta, n, size) } else { n };
    // SAFETY: the block is live, and nobody else uses it. `by_hand` is at most its size.
    unsafe { start.write_bytes(0, by_hand) };
}

/// Gives the end of a block of `size` bytes back, behind what blocks of calloc had of the segment
/// in which the request of `n` bytes ends: else shorter and longer blocks in turns would fault in
/// each time what lies between. If that is so little that the call costs more than touching it, it
/// stays. Returns the bytes in front of it, which are to be zeroed. O(n / 2 MiB).
fn give_behind(meta: &Meta, n: usize, size: usize) -> usize {
    const ALL: u32 = (SEGMENT / SLOT) as u32;
    let (arena, first) = run_of(meta);
    let segment = |at: usize| head_of((arena, first + at / SEGMENT));
    let last = (n.max(1) - 1) / SEGMENT * SEGMENT;
    if n <= WORTH_ASKING {
        (0..last).step_by(SEGMENT).for_each(|at| segment(at).cleared.set(ALL));
    }
    let asked = (n - last).next_multiple_of(os::page_size());
    let most = asked.max(segment(last).cleared.get() as usize * SLOT).min(SEGMENT);
    segment(last).cleared.set(most.div_ceil(SLOT) as u32);
    let (at, rest) = (meta.start().addr() + last + most, size - last - most);
    if rest >= SLOT && os::purge(at, rest) { last + most } else { size }
}

/// True if less than half of a sample of the range is resident. False also if the system does not
/// tell. O(1).
pub(super) fn mostly_absent(at: usize, n: usize) -> bool {
    density::of(at, n).is_some_and(Density::is_low)
}
