use crate::check;
use crate::proto::lock::Lock;
use crate::proto::owner::OwnerWord;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// The heap that the page's word leads to. A thread that frees a block of the page reads it.
struct Heap(UnsafeCell<bool>);
unsafe impl Sync for Heap {}
unsafe impl Send for Heap {}

/// One thread makes a heap, and takes a parked page for it. Another thread, which has had a block
/// of the page since before, frees that block. If it finds the new heap in the page's word, it sees
/// all that the first thread wrote there.
#[test]
fn a_new_owner_is_there_before_its_name() {
    check(
        || {
            let page = Arc::new((OwnerWord::<Heap>::new(), Lock::new()));
            let mut parked = Box::new(Heap(UnsafeCell::new(true)));
            page.0.set(&raw mut *parked);
            let taker = {
                let page = page.clone();
                thread::spawn(move || {
                    let heap = Box::into_raw(Box::new(Heap(UnsafeCell::new(false))));
                    unsafe { &*heap }
                        .0
                        .with_mut(|is_made| unsafe { *is_made = true });
                    let _held = page.1.lock_as(1);
                    page.0.set(heap);
                    heap as usize
                })
            };
            let owner = page.0.get();
            unsafe { &*owner }
                .0
                .with(|is_made| assert!(unsafe { *is_made }));
            let heap = taker.join().unwrap() as *mut Heap;
            drop(unsafe { Box::from_raw(heap) });
        },
        &["OwnerIsNamedRelaxed", "OwnerIsReadRelaxed"],
    );
}
