//! What Linux is asked, against what it does.

use super::*;
use crate::sync::AtomicU32;

const LEN: usize = 64 << 10;

/// A committed range, each page of it written to.
fn written() -> usize {
    let start = reserve(LEN).unwrap();
    assert!(commit(start, LEN));
    write(start);
    start
}
fn write(start: usize) {
    for offset in (0..LEN).step_by(page_size()) {
        // SAFETY: the range is the test's.
        unsafe { at(start + offset).write(1) };
    }
}
fn sum(start: usize) -> usize {
    // SAFETY: the range is the test's, and readable.
    (0..LEN).step_by(page_size()).map(|offset| usize::from(unsafe { at(start + offset).read() })).sum()
}
fn pages() -> usize {
    LEN / page_size()
}

#[test]
fn memory_given_back_is_zero() {
    let start = written();
    assert_eq!(sum(start), pages());
    assert!(purge(start, LEN));
    assert_eq!(sum(start), 0);
    assert!(unreserve(start, LEN));
    assert!(!purge(start, LEN), "nothing is there");
}

#[test]
fn memory_renewed_is_zero_and_can_be_written() {
    let start = written();
    assert!(renew(start, LEN));
    assert_eq!(sum(start), 0);
    write(start);
    assert_eq!(sum(start), pages());
    assert!(!renew(start + 1, LEN), "not whole pages");
    assert!(unreserve(start, LEN));
}

#[test]
fn what_is_resident_is_seen() {
    let start = written();
    let mut map = [0; LEN / 4096];
    let mut resident_pages = || {
        assert!(resident(start, LEN, &mut map));
        map.iter().filter(|&&page| page & 1 != 0).count()
    };
    assert_eq!(resident_pages(), pages());
    assert!(purge(start, LEN));
    assert_eq!(resident_pages(), 0);
    // An old kernel does not populate.
    if populate(start, LEN) {
        assert_eq!(resident_pages(), pages());
    }
    assert!(unreserve(start, LEN));
}

#[test]
fn moved_pages_keep_what_is_in_them_and_leave_zeroes() {
    let (old, new) = (written(), written());
    match move_pages(old, LEN, new, LEN) {
        Moved::Yes => assert_eq!((sum(old), sum(new)), (0, pages())),
        Moved::No => assert_eq!(sum(old), pages(), "an old kernel"),
        Moved::Lost => panic!("there is room for two maps"),
    }
    assert!(unreserve(old, LEN) && unreserve(new, LEN));
}

#[test]
fn ages_wrap_and_are_never_negative() {
    for (now, then, expected) in [
        (5, 3, 2),
        (3, 5, 0),
        (1, u32::MAX, 2),
        (u32::MAX, 1, 0),
        (u32::MAX / 2, 0, u32::MAX / 2),
        (u32::MAX / 2 + 1, 0, 0),
        (7, 7, 0),
    ] {
        assert_eq!(age(now, then), expected, "{now} after {then}");
    }
}

#[test]
fn the_clocks_agree() {
    // The coarse one stands still for a tick, of 10 ms at most.
    let before = now_ns() / 1_000_000 - 100;
    let now = now_ms();
    let after = now_ns() / 1_000_000;
    let since = u64::from(now.wrapping_sub(before as u32));
    assert!(since <= after - before, "{before} ms, {now}, {after} ms");
}

#[test]
fn a_wait_takes_its_time_at_least() {
    let word = AtomicU32::new(3);
    let begin = now_ns();
    futex_wait(&word, 4, None);
    futex_wait(&word, 3, Some(20));
    assert!(now_ns() - begin >= 20_000_000);
}

#[test]
fn signals_are_blocked_until_restored() {
    let before = block_signals();
    let blocked = block_signals();
    restore_signals(before);
    let after = block_signals();
    restore_signals(after);
    // Neither SIGKILL nor SIGSTOP can be.
    let never = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);
    assert_eq!(blocked | never, u64::MAX);
    assert_eq!(after, before);
}

#[test]
fn a_refusal_is_told_by_errno() {
    // SAFETY: errno's location is the thread's.
    let errno = unsafe { &mut *libc::__errno_location() };
    *errno = 0;
    set_enomem();
    assert_eq!(*errno, libc::ENOMEM);
}
