use crate::check;
use crate::proto::hints;
use crate::proto::slots::Slots;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::SeqCst};
use loom::thread;

/// A segment, and the words that list it when it has DIRTY slots.
struct Listed {
    slots: Slots,
    row: AtomicU64,
    summary: AtomicU64,
}

impl Listed {
    /// A segment whose slots are all claimed.
    fn new() -> Self {
        let slots = Slots::new();
        slots.claim(32).unwrap();
        Self {
            slots,
            row: AtomicU64::new(0),
            summary: AtomicU64::new(0),
        }
    }

    fn list(&self) {
        hints::list(&self.row, 1, &self.summary, 1);
    }
}

/// One thread releases a slot as DIRTY, while another purges the segment. It was listed for a slot
/// that a thread has claimed since. In the end the segment has no DIRTY slot, or it is listed.
#[test]
fn an_empty_slot_ends_up_listed() {
    check(
        || {
            let segment = Arc::new(Listed::new());
            segment.list();
            let purger = {
                let segment = segment.clone();
                thread::spawn(move || {
                    hints::unlist(&segment.row, 1);
                    let mask = segment.slots.claim_dirty();
                    if mask != 0 {
                        unsafe { segment.slots.release(mask, false) };
                    }
                })
            };
            unsafe { segment.slots.release(1, true) };
            segment.list();
            purger.join().unwrap();
            let (_, empty) = segment.slots.states();
            assert!(
                empty == 0 || segment.row.fetch_or(0, SeqCst) != 0,
                "a slot is DIRTY and no purge would find it"
            );
        },
        &["SlotsPurgeAtAGlance", "HintsListAtAGlance"],
    );
}

/// One thread lists a segment, while another finds an empty row and clears its bit of the summary.
/// In the end both bits are set.
#[test]
fn the_summary_knows_of_every_row_that_has_a_bit() {
    check(
        || {
            let listed = Arc::new(Listed::new());
            listed.list();
            hints::unlist(&listed.row, 1);
            let finder = {
                let listed = listed.clone();
                thread::spawn(move || hints::in_row(&listed.row, &listed.summary, 1))
            };
            listed.list();
            finder.join().unwrap();
            assert_eq!(listed.row.fetch_or(0, SeqCst), 1);
            assert_eq!(
                listed.summary.fetch_or(0, SeqCst),
                1,
                "nobody would look into the row"
            );
        },
        &[
            "HintsLookOnce",
            "HintsLookAgainAtAGlance",
            "HintsListAtAGlance",
        ],
    );
}
