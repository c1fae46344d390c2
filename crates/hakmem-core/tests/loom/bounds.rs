use crate::check;
use crate::proto::bounds::Bounds;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};
use loom::thread;

const DATA: usize = 0x7000_0000_0000;
const LENGTH: usize = 1 << 30;
const METAS: usize = 0x6000_0000_0000;

/// If the fast path of `free` takes the pointer for one of the arena's: the metadata that it uses.
fn let_in(bounds: &Bounds, p: usize) -> Option<usize> {
    let offset = p.wrapping_sub(bounds.data()).rotate_right(4);
    (offset < bounds.limit16()).then(|| bounds.metas().addr())
}

/// One thread makes the first arena, passes a block of it on, and then gives the arena's end back.
/// Another thread frees foreign pointers from below and above, and then the block. It takes no
/// foreign pointer for the arena's. For the block it reads the right bounds.
#[test]
fn foreign_pointers_are_never_let_in() {
    check(
        || {
            let bounds = Arc::new(Bounds::new());
            let block = Arc::new(AtomicUsize::new(0));
            let maker = {
                let (bounds, block) = (bounds.clone(), block.clone());
                thread::spawn(move || {
                    bounds.set(std::ptr::without_provenance_mut(METAS), DATA, LENGTH);
                    block.store(DATA + 64, Release);
                    bounds.set_limit(LENGTH / 2);
                })
            };
            for foreign in [64, DATA + LENGTH] {
                assert_eq!(let_in(&bounds, foreign), None, "{foreign:#x}");
            }
            let block = block.load(Acquire);
            if block != 0 {
                assert_eq!(let_in(&bounds, block), Some(METAS));
                assert_eq!(bounds.offset(block), Some(64));
            }
            maker.join().unwrap();
        },
        &["BoundsBeginAtZero"],
    );
}
