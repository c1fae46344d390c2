use crate::check;
use crate::proto::deferred;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64};
use loom::thread;

/// Two places, and the flag.
struct Deferred {
    places: [AtomicU64; 2],
    flag: AtomicBool,
}

impl Deferred {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            places: [AtomicU64::new(0), AtomicU64::new(0)],
            flag: AtomicBool::new(false),
        })
    }

    fn put(&self, name: u32, count: u32) -> bool {
        deferred::put(&self.places, &self.flag, name, count)
    }

    /// What is taken under the names 0 to 2.
    fn take(&self) -> [u32; 3] {
        let mut taken = [0; 3];
        deferred::take(&self.places, &self.flag, |name, count| {
            taken[name as usize] += count;
        });
        taken
    }
}

/// Two threads put counts aside while a third one takes. What it does not find is there afterwards.
#[test]
fn each_count_is_taken_once() {
    check(
        || {
            let deferred = Deferred::new();
            let put = |name, count| {
                let deferred = deferred.clone();
                thread::spawn(move || assert!(deferred.put(name, count), "there is a place"))
            };
            let (one, two) = (put(0, 1), put(0, 2));
            let mut taken = deferred.take();
            one.join().unwrap();
            two.join().unwrap();
            let rest = deferred.take();
            taken
                .iter_mut()
                .zip(rest)
                .for_each(|(sum, more)| *sum += more);
            assert_eq!(taken, [3, 0, 0]);
        },
        &[
            "DeferredPutsRelaxed",
            "DeferredTakesRelaxed",
            "DeferredStoresTheFlag",
            "DeferredFlagsFirst",
            "DeferredTakesAtAGlance",
            "DeferredPutsAtAGlance",
        ],
    );
}

/// Names do not mix, and what has no room is refused.
#[test]
fn a_place_has_one_name() {
    check(
        || {
            let deferred = Deferred::new();
            let other = {
                let deferred = deferred.clone();
                thread::spawn(move || u32::from(deferred.put(0, u32::MAX)))
            };
            let second = u32::from(deferred.put(1, 5));
            let third = u32::from(deferred.put(2, 7));
            let first = other.join().unwrap();
            assert_eq!(first + second + third, 2, "there are two places");
            assert!(first == 0 || !deferred.put(0, 1), "the sum has no room");
            assert_eq!(deferred.take(), [first * u32::MAX, second * 5, third * 7]);
        },
        &[],
    );
}
