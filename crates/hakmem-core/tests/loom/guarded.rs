use crate::check;
use crate::proto::guarded::{GuardedState, State};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// A guarded place in miniature: what is known of its block.
struct Place {
    state: GuardedState,
    known: UnsafeCell<usize>,
}
unsafe impl Sync for Place {}
unsafe impl Send for Place {}

impl Place {
    /// Changes the place, if its state is `from`.
    fn change(&self, from: State, to: State) -> bool {
        let is_own = self.state.seize(from);
        if is_own {
            self.known.with_mut(|known| unsafe { *known += 1 });
            self.state.set(to);
        }
        is_own
    }
}

/// A place whose block another thread frees, and that thread: it says whether its free passed.
fn freed_by_another() -> (Arc<Place>, thread::JoinHandle<bool>) {
    let place = Arc::new(Place {
        state: GuardedState::new(),
        known: UnsafeCell::new(0),
    });
    assert!(place.change(State::Unused, State::Live));
    let other = {
        let place = place.clone();
        thread::spawn(move || place.change(State::Live, State::Freed))
    };
    (place, other)
}

/// Two threads free the block of a place, and one of them then takes the place for another block.
/// One thread at a time has the place, and one free passes.
#[test]
fn one_of_two_frees_passes() {
    check(
        || {
            let (place, other) = freed_by_another();
            let own = place.change(State::Live, State::Freed);
            let again = place.change(State::Freed, State::Reported);
            let freed = usize::from(own) + usize::from(other.join().unwrap());
            assert_eq!(freed, 1);
            let known = place.known.with(|known| unsafe { *known });
            assert_eq!(known, 2 + usize::from(again));
        },
        &[
            "GuardedSetsRelaxed",
            "GuardedSeizesRelaxed",
            "GuardedSeizesAtAGlance",
        ],
    );
}

/// A thread reads of a freed block what the free wrote.
#[test]
fn a_report_knows_of_the_free() {
    check(
        || {
            let (place, other) = freed_by_another();
            if place.state.get() == State::Freed {
                assert_eq!(place.known.with(|known| unsafe { *known }), 2);
            }
            assert!(other.join().unwrap());
        },
        &["GuardedSetsRelaxed", "GuardedReadsRelaxed"],
    );
}
