use crate::proto::lock::Lock;
use crate::{check, check_within};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use std::cell::Cell;

/// One thread at a time holds the lock, and every waiter gets it.
#[test]
fn the_lock_excludes() {
    check(
        || {
            let lock = Arc::new(Lock::new());
            let inside = Arc::new(UnsafeCell::new(0));
            let other = {
                let (lock, inside) = (lock.clone(), inside.clone());
                thread::spawn(move || {
                    let _held = lock.lock_as(2);
                    assert!(lock.is_held_by(2));
                    inside.with_mut(|n| unsafe { *n += 1 });
                })
            };
            {
                let _held = lock.lock_as(1);
                assert!(!lock.is_held_by(2));
                inside.with_mut(|n| unsafe { *n += 1 });
            }
            other.join().unwrap();
            assert_eq!(inside.with(|n| unsafe { *n }), 2);
        },
        &["LockReleasesRelaxed", "LockAcquiresRelaxed"],
    );
}

/// A thread that tries the lock takes it, or leaves it to its holder.
#[test]
fn trying_the_lock_leaves_its_holder_alone() {
    check(
        || {
            let lock = Arc::new(Lock::new());
            let inside = Arc::new(UnsafeCell::new(0));
            let visit = |lock: &Lock, inside: &UnsafeCell<i32>, me| match lock.try_lock_as(me) {
                Some(_held) => inside.with_mut(|n| unsafe { *n += 1 }),
                None => {}
            };
            let others: Vec<_> = (2..4)
                .map(|me| {
                    let (lock, inside) = (lock.clone(), inside.clone());
                    thread::spawn(move || visit(&lock, &inside, me))
                })
                .collect();
            visit(&lock, &inside, 1);
            for other in others {
                other.join().unwrap();
            }
            let visits = inside.with(|n| unsafe { *n });
            assert!((1..=3).contains(&visits) && lock.try_lock_as(1).is_some());
        },
        &["LockTriesAndReleases", "LockReleasesRelaxed"],
    );
}

/// Two threads sleep until the lock is free, one of them for some time only: thread 2, by `hasty`.
/// The holder releases the lock and takes it again. The sleeper that was woken finds it taken, and
/// gives up. The other sleeper gets it nevertheless.
fn leaves_no_sleeper_behind(hasty: fn(&Lock)) {
    let lock = Arc::new(Lock::new());
    let held = lock.lock_as(1);
    let patient = {
        let lock = lock.clone();
        thread::spawn(move || drop(lock.lock_as(3)))
    };
    let hasty = {
        let lock = lock.clone();
        thread::spawn(move || hasty(&lock))
    };
    drop(held);
    drop(lock.try_lock_as(1));
    hasty.join().unwrap();
    patient.join().unwrap();
    assert!(lock.try_lock_as(1).is_some(), "nobody has it");
}

#[test]
fn who_gives_up_leaves_no_sleeper_behind() {
    check_within(
        3,
        || leaves_no_sleeper_behind(|lock| drop(lock.lock_within_as(2, 1))),
        &["LockGivesUpUnmarked"],
    );
}

/// A waiter that is told that the process ends tries once more, and either takes the lock or leaves
/// it to the others.
#[test]
fn who_is_told_of_the_end_leaves_no_sleeper_behind() {
    check_within(
        3,
        || {
            leaves_no_sleeper_behind(|lock| {
                let asked = Cell::new(false);
                drop(lock.lock_unless(2, || asked.replace(true)));
            });
        },
        &["LockGivesUpUnmarked"],
    );
}
