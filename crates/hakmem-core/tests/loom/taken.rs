use crate::check;
use crate::proto::taken;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::SeqCst};
use loom::thread;

/// A word with one free place, which has the memory.
struct Place {
    word: AtomicU64,
    memory: UnsafeCell<usize>,
}
unsafe impl Sync for Place {}
unsafe impl Send for Place {}

impl Place {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            word: AtomicU64::new(!1),
            memory: UnsafeCell::new(0),
        })
    }

    /// Uses the place, if it is free.
    fn visit(&self) -> usize {
        let Some(place) = taken::take(&self.word) else {
            return 0;
        };
        assert_eq!(place, 0);
        self.memory.with_mut(|memory| unsafe { *memory += 1 });
        assert!(taken::give_up(&self.word, place), "this thread has it");
        1
    }
}

/// Two threads take a place and give it up. One at a time has it, and sees what was done before.
#[test]
fn a_place_has_one_owner() {
    check(
        || {
            let place = Place::new();
            let other = {
                let place = place.clone();
                thread::spawn(move || place.visit())
            };
            let visits = place.visit() + other.join().unwrap();
            assert_eq!(place.memory.with(|memory| unsafe { *memory }), visits);
            assert!(visits > 0);
        },
        &[
            "TakenTakesRelaxed",
            "TakenGivesUpRelaxed",
            "TakenTakesAtAGlance",
        ],
    );
}

/// Two threads give up the same place, while a third one gives up its neighbour. One of the two is
/// told that it was wrong.
#[test]
fn a_place_is_given_up_once() {
    check(
        || {
            let word = Arc::new(AtomicU64::new(0b11));
            let give_up = |place| {
                let word = word.clone();
                thread::spawn(move || taken::give_up(&word, place))
            };
            let (same, neighbour) = (give_up(0), give_up(1));
            let own = taken::give_up(&word, 0);
            assert!(own != same.join().unwrap(), "one of the two had it");
            assert!(neighbour.join().unwrap());
            assert_eq!(word.fetch_or(0, SeqCst), 0);
        },
        &["TakenGivesUpAtAGlance"],
    );
}
