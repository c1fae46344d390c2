use crate::check;
use crate::proto::lock::Lock;
use crate::proto::owner::OwnerWord;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// What a page names: a heap, with the inbox that whoever frees a block of the page reaches for.
struct Heap(UnsafeCell<bool>);
unsafe impl Sync for Heap {}
unsafe impl Send for Heap {}

/// A page that was parked is unparked by a heap that another thread has just made, while a third thread frees a
/// block of it, which it has had since before: if it finds the new heap, it finds it made.
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
