use crate::check;
use crate::proto::place::Place;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// A place for the memory, which it holds as the number 1.
struct Held {
    place: Place,
    memory: UnsafeCell<usize>,
}
unsafe impl Sync for Held {}
unsafe impl Send for Held {}

impl Held {
    /// Uses the memory, if the place holds it.
    fn visit(&self) -> usize {
        let got = self.place.take();
        if got != 0 {
            self.memory.with_mut(|memory| unsafe { *memory += 1 });
        }
        got
    }
}

/// The owner puts the memory into its place, and takes it again if no other thread has. One thread
/// gets it each time, and sees what was done before.
#[test]
fn what_a_place_holds_goes_to_one_thread() {
    check(
        || {
            let held = Arc::new(Held {
                place: Place::new(),
                memory: UnsafeCell::new(0),
            });
            let purge = {
                let held = held.clone();
                thread::spawn(move || held.visit())
            };
            held.memory.with_mut(|memory| unsafe { *memory += 1 });
            held.place.put(1);
            assert!(held.place.peek() <= 1);
            if held.visit() == 1 {
                held.memory.with_mut(|memory| unsafe { *memory += 1 });
                held.place.put(1);
            }
            let taken = purge.join().unwrap();
            // The owner took it once and put it again, or the other thread has it.
            assert!(taken == 0 || held.place.peek() == 0);
        },
        &[
            "PlacePutsRelaxed",
            "PlaceTakesRelaxed",
            "PlaceTakesAtAGlance",
        ],
    );
}
