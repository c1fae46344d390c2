use crate::check;
use crate::proto::journal::Journal;
use loom::sync::Arc;
use loom::thread;

/// The writer overwrites the one record that the journal keeps, while a reader reads it. A reader
/// that gets the nth record gets all words of the nth.
#[test]
fn a_record_is_read_whole_or_not_at_all() {
    check(
        || {
            let journal = Arc::new(Journal::<1, 2>::new());
            journal.note([10, 20]);
            let writer = {
                let journal = journal.clone();
                thread::spawn(move || journal.note([11, 21]))
            };
            for nth in 0..2 {
                if let Some(words) = journal.read(nth) {
                    assert_eq!(words, [10 + nth, 20 + nth]);
                }
            }
            writer.join().unwrap();
            assert_eq!((journal.read(0), journal.read(1)), (None, Some([11, 21])));
        },
        &[
            "JournalWritesUnmarked",
            "JournalMarksUnfenced",
            "JournalFinishesRelaxed",
            "JournalReadsRelaxed",
            "JournalChecksUnfenced",
            "JournalLooksOnce",
        ],
    );
}
