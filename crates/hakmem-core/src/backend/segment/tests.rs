//! Unit tests of what segments hold together.

use super::totals::small_segments;
use super::{claim_fresh, note_small};
use crate::backend::nodes::Groups;
use crate::testing::in_child;

/// Heaps tell of their pages in steps, so one that gives up many may be the first to tell.
#[test]
fn a_total_below_zero_is_taken_for_none() {
    in_child(|| {
        note_small(-1_000_000);
        assert_eq!(small_segments(), 0);
        // It asks what the total is.
        let claimed = claim_fresh(1, Groups::ALL);
        assert!(claimed.is_some());
    });
}
