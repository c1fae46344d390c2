//! Which deliberate mistake the running test makes, if any.
//!
//! `ci/loom` and `ci/shuttle` build a copy of the source. At each place of `mistakes/list.toml` the
//! copy calls `hakmem_makes`, which says whether to make that mistake.

use std::cell::Cell;

thread_local! {
    /// Each test has its own: the threads of its model are coroutines of the test's thread.
    static MADE: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Fails in a build without the mistakes. There a model could find none of them.
pub fn assert_woven() {
    assert!(
        cfg!(woven),
        "run ci/loom or ci/shuttle: they weave the mistakes into a copy of the source"
    );
}

/// Makes the code under the calling test's model make a mistake from now on.
pub fn make(mistake: &'static str) {
    MADE.set(Some(mistake));
}

/// True if the code makes this mistake now.
pub fn is(mistake: &str) -> bool {
    MADE.get() == Some(mistake)
}

#[unsafe(no_mangle)]
fn hakmem_makes(mistake: &str) -> bool {
    is(mistake)
}
