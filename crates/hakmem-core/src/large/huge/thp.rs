//! Huge pages in huge blocks: which blocks ask for them, which try them, and what the metadata of a
//! block says about that.
//!
//! Rules
//! 1. The word `thp` of a block's first segment is what hakmem told the kernel about the block.
//! 2. Of a block that is tried, the count of `tried` has each segment. Whoever ends the trial takes
//!    them off the count.

use super::address;
use crate::backend::arena::{Run, SEGMENT};
use crate::backend::page::{Meta, THP, TRIED, UNTOLD};
use crate::backend::tried;
use crate::backend::{filling, first_touch, held};
use crate::base::sync::Ordering::Relaxed;
use crate::os;
use crate::policy::Thp;

/// A fresh block of as many segments asks for huge pages at once, if a request fills it.
const LEAST_THP: usize = 16;
/// A shorter one of as many segments may try them (`tried`). A still shorter one may try them while
/// what tries is a small part of what is held, or once a witness was found full.
const LEAST_TRIED: usize = 3;
/// While the process holds no more, blocks ask in a part, and short ones may have a witness. These
/// are 8,192 blocks at most, of one map or two each. Linux allows a process 65,530 maps.
const MOST_HELD: usize = 8192 * SEGMENT;

/// Notes in a huge block's metadata what hakmem told the kernel of huge pages in some of it:
/// `UNTOLD`, `THP`, or `TRIED` if the count of `tried` has each segment of the block. Writes no
/// metadata of its other segments.
pub(super) fn set_told(huge: &Meta, told: u8) {
    huge.segment().thp.store(told, Relaxed);
}

/// How many segments of a huge block, which has `len`, the count of `tried` has: all or none.
pub(super) fn tried_of(huge: &Meta, len: usize) -> usize {
    if huge.segment().thp.load(Relaxed) == TRIED { len } else { 0 }
}

/// True if the huge block, which is being freed, has `len` segments and asked for huge pages, is to
/// be looked at. Not a shorter one: it wastes little.
pub(super) fn wants_look(huge: &Meta, len: usize) -> bool {
    len >= LEAST_TRIED && huge.segment().is_thp() && filling::wants_look()
}

/// The block that was tried has grown, or moves. A program that does so is likely to fill it.
pub(super) fn end_trial(huge: &Meta, len: usize) {
    if tried_of(huge, len) != 0 {
        set_told(huge, THP);
        tried::give(len);
    }
}

/// True if a program that writes a block of `n` bytes in a run of `len` segments is likely to fill
/// it, so that huge pages are no waste. The run must be long: if the program uses only the ends of
/// the block, it still touches two huge pages.
pub(super) fn is_filled_by(n: usize, len: usize) -> bool {
    len >= LEAST_THP && n >= len * SEGMENT / 8 * 7
}

/// How many segments a block of `n` bytes in `len` segments asks for if it tries huge pages: the
/// first ones, of which it fills three quarters each. The rest is a map of its own then. So in a
/// process that holds much, it is all or none.
pub(super) fn filled_part(n: usize, len: usize) -> usize {
    match held::bytes() <= MOST_HELD {
        true if first_touch::is_dear() => (n + SEGMENT / 2) / SEGMENT,
        true => (n + SEGMENT / 4) / SEGMENT,
        false if n >= len * SEGMENT / 4 * 3 => len,
        false => 0,
    }
}

/// Asks for huge pages for a fresh block of `n` bytes in `run`, of `len` segments, or tries them in
/// the segments that it fills, if that is likely to be no waste. Returns what it told the kernel.
/// `written`: the program will write the block before it reads it. A block that is to be zero may
/// only try them, and has less room for that.
pub(super) fn ask_at_once(run: Run, n: usize, len: usize, written: bool) -> u8 {
    // Where huge pages are dear, one segment shows whether they still are.
    let is_dear = first_touch::is_huge_dear();
    let is_filled = written && is_filled_by(n, len) && !is_dear;
    let part = match filled_part(n, len) {
        _ if is_filled => len,
        filled if is_dear => filled.min(1),
        filled => filled,
    };
    let is_short = len < LEAST_TRIED;
    let trial = match (is_short, written) {
        (false, true) => &tried::WRITTEN,
        (false, false) => &tried::ZERO,
        (true, true) => &tried::SHORT,
        (true, false) => &tried::SHORT_ZERO,
    };
    // The segments that could be a full witness. Where system pages are dear, a short block may ask
    // in one that it fills by half.
    let witness = match is_short {
        false => n / SEGMENT,
        true if n >= part * SEGMENT / 4 * 3 => part,
        true => 0,
    };
    let may_try = || {
        is_short && tried::is_small_part(len)
            || (!is_short || held::bytes() <= MOST_HELD) && trial.may(address(run), len, witness)
    };
    let tries = || part > 0 && may_try();
    let asks = Thp::now() == Thp::Auto && (is_filled || tries()) && filling::may_ask();
    let may_ask = asks && first_touch::may_ask();
    if !may_ask || !os::want_thp(address(run), part * SEGMENT) {
        return UNTOLD;
    }
    if is_filled {
        return THP;
    }
    tried::take(len);
    TRIED
}
