use crate::check;
use crate::proto::lock::Lock;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

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
