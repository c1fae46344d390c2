//! The deliberate mistake that is made now, if any. The copy of the source that `ci/loom` and `ci/shuttle` build asks
//! `hakmem_makes` wherever `mistakes/list.toml` has one.

use std::cell::Cell;

thread_local! {
    /// One for each test: the threads of a model are coroutines of the test's.
    static MADE: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Fails in a build that has no mistakes to make: there each model would seem to miss them, or to find them.
pub fn assert_woven() {
    assert!(
        cfg!(woven),
        "run ci/loom or ci/shuttle: they weave the mistakes into a copy of the source"
    );
}

/// Makes a mistake, from now on, in what the calling test models.
pub fn make(mistake: &'static str) {
    MADE.set(Some(mistake));
}

/// Whether a mistake is made.
pub fn is(mistake: &str) -> bool {
    MADE.get() == Some(mistake)
}

#[unsafe(no_mangle)]
fn hakmem_makes(mistake: &str) -> bool {
    is(mistake)
}
