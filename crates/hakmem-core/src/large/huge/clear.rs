//! Clearing for calloc. A recycled block becomes zero by the way that costs less: the system drops
//! its memory, or hakmem writes zeroes.

use super::size;
use crate::backend::arena::SLOT;
use crate::backend::page::Meta;
use crate::os;

/// Above so many bytes it pays to find out whether there is anything to clear. `clear` writes
/// zeroes to smaller blocks and makes no system call. That call opens a file, and an open file in
/// the middle of calloc disturbs a program that counts its descriptors.
const WORTH_ASKING: usize = 32 << 20;

/// Makes the first `n` bytes of a recycled huge block zero, or the whole block if `all`. If the
/// block is large and little of it is resident, it goes back to the system, since the kernel zeroes
/// only what the program touches. Otherwise this writes zeroes. Programs hardly use what lies
/// behind the `n` bytes. So with `all` that part goes back in any case, if it is so large that the
/// call costs less than touching it.
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
        true if rest >= SLOT && os::purge(start.addr() + used, rest) => used,
        true => size,
    };
    // SAFETY: the block is live, and nobody else uses it. `by_hand` is at most its size.
    unsafe { start.write_bytes(0, by_hand) };
}

/// The order in which pieces of a range are looked at: the first four lie far apart.
const ORDER: [usize; 16] = [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15];
/// As many pieces decide if they agree.
const ENOUGH: usize = 4;

/// True if less than half of a sample of the range is resident. False also if the system does not
/// tell. O(1): at most 16 pieces are read.
pub(super) fn mostly_absent(at: usize, n: usize) -> bool {
    const SAMPLE: usize = 64;
    let Some(map) = os::Pagemap::open() else { return false };
    let piece = SAMPLE * os::page_size();
    let step = piece.max(n / ORDER.len()).next_multiple_of(os::page_size());
    let mut pages = [os::Page::Absent; SAMPLE];
    let (mut seen, mut there) = (0, 0);
    let inside = ORDER.iter().map(|i| i * step).filter(|&offset| offset < n);
    for (i, offset) in inside.enumerate() {
        if i >= ENOUGH && (there == 0 || there == seen) {
            break;
        }
        let pages = &mut pages[..piece.min(n - offset).div_ceil(os::page_size())];
        if !map.read(at + offset, pages) {
            return false;
        }
        seen += pages.len();
        there += pages.iter().filter(|&&page| page != os::Page::Absent).count();
    }
    there * 2 < seen
}
