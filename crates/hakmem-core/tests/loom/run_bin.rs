use crate::check;
use crate::proto::hints;
use crate::proto::run_bin::RunBin;
use crate::proto::slots::{SLOTS, Slots};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::SeqCst};
use loom::thread;

struct Segment {
    slots: Slots,
    bin: RunBin,
    row: AtomicU64,
    summary: AtomicU64,
}

impl Segment {
    fn rebin(&self) {
        self.bin.settle(
            || u8::from(self.slots.free_now() != 0),
            |_| hints::list(&self.row, 1, &self.summary, 1),
            |_| hints::unlist(&self.row, 1),
        );
    }
}

/// One thread claims the last free slot, while another releases a slot. When both have settled the
/// bin, the segment is listed.
#[test]
fn a_segment_with_room_ends_up_listed() {
    check(
        || {
            let segment = Arc::new(Segment {
                slots: Slots::new(),
                bin: RunBin::new(),
                row: AtomicU64::new(0),
                summary: AtomicU64::new(0),
            });
            segment.slots.claim(SLOTS - 1).unwrap();
            segment.rebin();
            let other = {
                let segment = segment.clone();
                thread::spawn(move || {
                    segment.slots.claim_exact(1 << (SLOTS - 1)).unwrap();
                    segment.rebin();
                })
            };
            unsafe { segment.slots.release(1, true) };
            segment.rebin();
            other.join().unwrap();
            assert!(
                segment.row.fetch_or(0, SeqCst) != 0,
                "a slot is free and nobody would find it"
            );
        },
        &["RunBinChecksOnce", "SlotsCountAtAGlance"],
    );
}
