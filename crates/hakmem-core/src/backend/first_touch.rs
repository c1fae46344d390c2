//! What the first touch of fresh memory costs on this machine.
//!
//! The kernel has a system page ready within 2 µs, as a rule. But a virtual machine whose host must
//! find the memory first may take 50. A huge page then costs as much as ten system pages. So where
//! system pages are dear, hakmem asks for huge pages in memory of which it does not know yet
//! whether the program fills it.
//!
//! It may be the other way round. A guest that has run for long has much free memory in pieces
//! below 2 MiB. Its host takes back only free pieces that are longer. So a system page is ready,
//! and the host must find a huge page first, which takes 5 ms. Where huge pages are dear, memory
//! does not ask for them, but for one piece in ever more, which shows whether that has changed.
//!
//! Rules
//! 1. All words are hints. Threads may lose each other's changes.

use super::arena::SEGMENT;
use super::rarely::Rarely;
use crate::base::sync::{AtomicUsize, Ordering::Relaxed};
use crate::os;

/// Touches that decide: the mean is that of about so many.
const ENOUGH: usize = 16;
/// The same as `ENOUGH` of huge pages, of which each costs much.
const ENOUGH_HUGE: usize = 4;
/// A faster touch found its page there: the kernel gives huge pages without being asked.
const LEAST_NS: usize = 200;
/// One touch of a system page, and of a huge one, counts as so many ns at most: the thread may have
/// lost the processor meanwhile.
const MOST_NS: usize = 32_000;
const MOST_HUGE_NS: usize = 4_000_000;
/// And that of a huge page as so many times the mean so far, so that it takes three to make huge
/// pages dear.
const MOST_TIMES: usize = 4;
/// A first touch in a segment that asked for huge pages was that of a huge page if it took longer,
/// and longer than three system pages: where the kernel has none, it was that of a system page.
const LEAST_HUGE_NS: usize = 20_000;
/// What a huge page is taken to cost before one was seen. It counts as so many touches.
const USUAL_HUGE_NS: usize = 250_000;
const USUAL_HUGES: usize = 3;
/// System pages are dear if those of a segment cost so many times as much as a huge page. Where
/// hosts have the memory ready, they cost three to four times as much.
const DEAR: usize = 8;
/// Huge pages are dear if one costs so many times as much as the system pages of a segment, and so
/// many ns. Two threads that clear huge pages at once may take 500 µs each.
const DEAR_HUGE: usize = 2;
const DEAR_HUGE_NS: usize = 1_000_000;
/// Where huge pages are dear, this many requests do not ask, and ever more.
const LEAST_PASSED: usize = 15;
/// With larger system pages a huge page is no longer a segment.
const PAGE: usize = 4096;
/// The system pages of a large block that are timed.
const PART: usize = 3;
/// Once the costs are known, one in so many large and huge blocks is touched.
const ONE_IN: usize = 8;

/// The mean time of touches, in ns.
struct Cost {
    mean: AtomicUsize,
    seen: AtomicUsize,
}

impl Cost {
    const fn new(mean: usize, seen: usize) -> Self {
        Self { mean: AtomicUsize::new(mean), seen: AtomicUsize::new(seen) }
    }

    fn note(&self, ns: usize, enough: usize) {
        let seen = (self.seen.load(Relaxed) + 1).min(enough);
        let mean = self.mean.load(Relaxed);
        self.mean.store((mean * (seen - 1) + ns) / seen, Relaxed);
        self.seen.store(seen, Relaxed);
    }
}

#[unsafe(link_section = ".data.hakmem")]
static SYSTEM_PAGE: Cost = Cost::new(0, 0);
#[unsafe(link_section = ".data.hakmem")]
static HUGE_PAGE: Cost = Cost::new(USUAL_HUGE_NS, USUAL_HUGES);

/// Requests for huge pages where these are dear.
#[unsafe(link_section = ".data.hakmem")]
static REQUESTS: Rarely = Rarely::new(LEAST_PASSED);

/// 1 in a test of what does not depend on the costs of this machine.
#[cfg(test)]
pub static IS_UNTIMED: AtomicUsize = AtomicUsize::new(0);

/// What the system pages of a segment cost, in ns. None: fewer than `least` were seen.
fn segment_ns(least: usize) -> Option<usize> {
    let known = SYSTEM_PAGE.seen.load(Relaxed) >= least;
    known.then(|| SYSTEM_PAGE.mean.load(Relaxed) * (SEGMENT / PAGE))
}

/// True if system pages are dear here.
pub fn is_dear() -> bool {
    segment_ns(ENOUGH).is_some_and(|all| all >= DEAR * HUGE_PAGE.mean.load(Relaxed))
}

/// True if huge pages are dear here. One system page is enough to compare with: if its thread lost
/// the processor, it seems dearer than it is, and huge pages seem cheaper.
pub fn is_huge_dear() -> bool {
    let mean = HUGE_PAGE.mean.load(Relaxed);
    mean >= DEAR_HUGE_NS && segment_ns(1).is_some_and(|all| mean >= DEAR_HUGE * all)
}

/// True if memory that had better be huge pages may ask for them: they are not dear here, or this
/// request shows whether they still are. For that, where they are dear, the caller then calls
/// [`touch_large`].
pub fn may_ask() -> bool {
    let is_dear = is_huge_dear();
    if is_dear && REQUESTS.passes_over() {
        return false;
    }
    REQUESTS.begin(is_dear);
    true
}

/// The mean times in ns: of a system page, and of a huge page. 0: too few were seen.
#[cfg_attr(
    not(any(feature = "serde", feature = "reports")),
    allow(dead_code, reason = "figures of reports")
)]
pub fn means() -> [u64; 2] {
    let least = if is_huge_dear() { 1 } else { ENOUGH };
    [(&SYSTEM_PAGE, least), (&HUGE_PAGE, USUAL_HUGES + 1)].map(|(cost, least)| {
        if cost.seen.load(Relaxed) < least { 0 } else { cost.mean.load(Relaxed) as u64 }
    })
}

/// True if first touches are timed. Only `libhakmem` does that: a clock may be a system call, which
/// a filter that hakmem does not know may not allow.
pub fn is_timed() -> bool {
    #[cfg(test)]
    if IS_UNTIMED.load(Relaxed) != 0 {
        return false;
    }
    os::sees_filters() && !os::is_filtered() && os::page_size() == PAGE
}

/// Runs `touch`, which is the first to touch `pages` system pages. Returns what it returns, and
/// notes what it took if that is true. `asked`: they may be a part of a huge page.
pub fn timed(pages: usize, asked: bool, touch: impl FnOnce() -> bool) -> bool {
    if !is_timed() {
        return touch();
    }
    let early = os::now_ns();
    let begin = os::now_ns();
    let is_touched = touch();
    if is_touched {
        // A look at the clock may cost as much as a touch.
        let took = os::now_ns().saturating_sub(begin);
        note(took.saturating_sub(begin.saturating_sub(early)) as usize, pages, asked);
    }
    is_touched
}

/// Touches the byte at `p`, in fresh memory, if that is timed. `asked` as in [`timed`].
///
/// # Safety
/// The byte is accessible, zero, and the caller's alone.
#[unsafe(link_section = ".text.hot.hakmem")]
pub unsafe fn touch(p: *mut u8, asked: bool) {
    if !is_timed() {
        return;
    }
    timed(1, asked, || {
        // SAFETY: the byte is the caller's, by its promise. It stays zero.
        unsafe { p.write_volatile(0) };
        true
    });
}

/// Large and huge blocks since the costs are known.
#[unsafe(link_section = ".data.hakmem")]
static LARGE: AtomicUsize = AtomicUsize::new(0);

/// True if a large or huge block in fresh memory is to be touched: too little is known, or huge
/// pages are dear, or it is one in [`ONE_IN`].
fn is_due() -> bool {
    let is_known = SYSTEM_PAGE.seen.load(Relaxed) == ENOUGH;
    !is_known || is_huge_dear() || LARGE.fetch_add(1, Relaxed).is_multiple_of(ONE_IN)
}

/// Touches the beginning of a large or huge block, or of a page that asked, at `p` in fresh memory,
/// if that is timed and due. `asked` as in [`timed`]. Of system pages it touches a few: the kernel
/// may make tables for the first one, so the next ones tell what most pages cost.
///
/// # Safety
/// The first `PART + 1` system pages at `p` are accessible, zero, and the caller's alone.
pub unsafe fn touch_large(p: *mut u8, asked: bool) {
    if !is_timed() || !is_due() {
        return;
    }
    if asked {
        // SAFETY: the byte is the caller's, by its promise.
        return unsafe { touch(p, true) };
    }
    // SAFETY: the byte is the caller's, by its promise. It stays zero.
    let touch = |page: usize| unsafe { p.add(page * PAGE).write_volatile(0) };
    touch(0);
    timed(PART, false, || {
        (1..=PART).for_each(touch);
        true
    });
}

/// The first touch of `pages` system pages took so many ns. `asked` as in [`timed`].
pub fn note(ns: usize, pages: usize, asked: bool) {
    let each = ns / pages;
    match asked {
        true if ns < LEAST_HUGE_NS.max(3 * SYSTEM_PAGE.mean.load(Relaxed)) => {}
        true => {
            let most = MOST_HUGE_NS.min(MOST_TIMES * HUGE_PAGE.mean.load(Relaxed));
            HUGE_PAGE.note(ns.min(most), ENOUGH_HUGE);
        }
        false if each < LEAST_NS => SYSTEM_PAGE.seen.store(0, Relaxed),
        false => SYSTEM_PAGE.note(each.min(MOST_NS), ENOUGH),
    }
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    use super::*;
    use crate::testing::in_child;

    /// The costs are the process's.
    #[test]
    fn system_pages_are_dear_if_a_huge_page_costs_little_beside_them() {
        in_child(|| {
            let after = |touches: &[(usize, usize, bool)]| {
                touches.iter().for_each(|&(ns, pages, asked)| note(ns, pages, asked));
                is_dear()
            };
            assert!(!after(&[(50_000, 1, false); ENOUGH - 1]), "too few were seen");
            assert!(after(&[(50_000, 1, false)]));
            assert!(!after(&[(1500, 1, false); 100]), "a host has them ready");
            assert!(!after(&[(10_000_000, 1, false)]), "the thread may have been away");
            assert!(!after(&[(16 * 1500, 16, false); 100]));
            assert!(after(&[(16 * 20_000, 16, false); 30]));
            assert!(after(&[(1000, 1, true); 30]), "others have touched the huge page");
            assert!(after(&[(50_000, 1, true); 30]), "the kernel has no huge page");
            assert!(!after(&[(1_500_000, 1, true); 30]), "huge pages are as dear");
            assert!(after(&[(300_000, 1, true); 100]));
            assert!(after(&[(50_000, 1, false); 16]));
            assert!(after(&[(100_000_000, 1, true)]), "the thread may have been away");
            // The kernel gives huge pages unasked: one touch in four is that of a huge page.
            let four = [(300_000, 1, false), (50, 1, false), (50, 1, false), (50, 1, false)];
            assert!((0..30).all(|_| !after(&four)));
        });
    }

    #[test]
    fn where_huge_pages_are_dear_one_request_in_ever_more_asks() {
        in_child(|| {
            let mut asked = [false; 200].map(|_| may_ask());
            assert_eq!(asked, [true; 200], "nothing is known");
            (0..4).for_each(|_| note(4_500_000, 1, true));
            assert!(!is_huge_dear(), "no system page was seen");
            note(3 * 1500, PART, false);
            assert!(is_huge_dear() && !is_dear());
            asked.fill_with(may_ask);
            assert!((0..asked.len()).filter(|&i| asked[i]).eq([0, 16, 48, 112, 176]));
            (0..6).for_each(|_| note(200_000, 1, true));
            assert!(!is_huge_dear(), "they are no more");
            (0..16).for_each(|_| note(300, 1, false));
            (0..16).for_each(|_| note(200_000, 1, true));
            (0..2).for_each(|_| note(4_500_000, 1, true));
            assert!(!is_huge_dear(), "the thread may have been away twice");
            (0..30).for_each(|_| note(700_000, 1, true));
            assert!(!is_huge_dear(), "some threads clear huge pages at once");
            asked.fill_with(may_ask);
            assert_eq!(asked, [true; 200]);
            (0..16).for_each(|_| note(9000, 1, false));
            (0..16).for_each(|_| note(4_500_000, 1, true));
            assert!(!is_huge_dear(), "system pages are as dear");
        });
    }
}
