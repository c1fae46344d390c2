//! What a program must not do with a heap, and what is found of it; what it may do across the two
//! front ends.

use super::{HARDENED, MIB, boxed, free, layout};
use hakmem_core::{Heap, c};
use std::ptr::NonNull;

/// The line on standard error by which the process of `f` ends.
fn last_words(f: impl FnOnce()) -> String {
    let mut pipe = [0; 2];
    // SAFETY: the array has room for two descriptors.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    // SAFETY: the child has one thread. It ends by the misuse, or by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: both descriptors are open.
        unsafe { libc::dup2(pipe[1], 2) };
        f();
        // SAFETY: `_exit` has no preconditions.
        unsafe { libc::_exit(0) };
    }
    let (mut text, mut status) = (vec![0; 1000], 0);
    // SAFETY: the vector has as many bytes; `status` is writable.
    let len = unsafe {
        libc::close(pipe[1]);
        let len = libc::read(pipe[0], text.as_mut_ptr().cast(), text.len());
        libc::close(pipe[0]);
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        len
    };
    assert!(
        libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT,
        "{status}"
    );
    String::from_utf8(text[..len as usize].to_vec()).unwrap()
}

/// Misuse of a heap ends the process with a line that names the pointer.
#[test]
fn misuse_of_a_heap_is_found() {
    let (heap, other) = (Heap::new(), Heap::new());
    let dealloc = |heap: &Heap, p: NonNull<u8>, size| {
        // SAFETY: none: that is what is tried.
        unsafe { heap.deallocate(p, layout(size, 8)) };
    };
    for size in [100, 20_000, 200_000, 2_000_000] {
        let p: NonNull<u8> = heap.allocate(layout(size, 8)).unwrap().cast();
        let mine = c_block();
        for foreign in [p, mine] {
            let said = last_words(|| dealloc(&other, foreign, size));
            let wrong = format!("invalid pointer {foreign:p}: no block of the program heap");
            assert!(said.contains(&wrong), "{size}: {said}");
        }
        let inner = p.map_addr(|at| at.checked_add(16).unwrap());
        let said = last_words(|| dealloc(&heap, inner, size));
        assert!(
            said.contains(&format!("{inner:p}")) || HARDENED,
            "{size}: {said}"
        );
        let said = last_words(|| {
            // SAFETY: none: that is what is tried.
            _ = unsafe { heap.reallocate(inner, layout(size, 8), layout(16 * MIB, 8)) };
        });
        let wrong = format!("invalid pointer {inner:p}: no block of the program heap");
        assert!(said.contains(&wrong), "{size}: {said}");
        // By the front end of all blocks, which may free a heap's block once.
        let said = last_words(|| free(inner.as_ptr()));
        assert!(
            said.contains(&format!("{inner:p}")) || HARDENED,
            "{size}: {said}"
        );
        let said = last_words(|| {
            dealloc(&heap, p, size);
            free(p.as_ptr());
        });
        assert!(said.contains(&format!("{p:p}")), "{size}: {said}");
        free(mine.as_ptr());
    }
}

/// A block from before a reset, whose page the heap has kept, is no block of it any more.
#[test]
fn a_use_after_a_reset_is_found() {
    type Misuse = unsafe fn(&Heap, NonNull<u8>);
    // SAFETY: none: that is what is tried.
    let free: Misuse = |heap, p| unsafe { heap.deallocate(p, layout(100, 8)) };
    let resize: Misuse = |heap, p| {
        // SAFETY: none, again.
        _ = unsafe { heap.reallocate(p, layout(100, 8), layout(101, 8)) };
    };
    for misuse in [free, resize] {
        let said = last_words(|| {
            let mut heap = Heap::new();
            let blocks = [(); 3].map(|()| heap.allocate(layout(100, 8)).unwrap().cast());
            heap.reset();
            let again = heap.allocate(layout(100, 8)).unwrap().cast::<u8>();
            assert!(again == blocks[0] || HARDENED);
            // SAFETY: as above.
            unsafe { misuse(&heap, blocks[2]) };
        });
        assert!(said.contains("invalid pointer 0x"), "{said}");
    }
}

fn c_block() -> NonNull<u8> {
    NonNull::new(boxed(1)).unwrap()
}

/// A handle of C that is used after its heap was deleted, also if another heap has its place.
#[test]
fn a_handle_of_a_deleted_heap_is_found() {
    use c::heaps::{allocate, delete, figures, new, reset};
    for another in [false, true] {
        let said = last_words(|| {
            let heap = new("old", None);
            // SAFETY: none: that is what is tried.
            unsafe {
                assert!(!allocate(heap, 16, 100, true).is_null() && delete(heap));
                let next = if another {
                    new("new", None)
                } else {
                    std::ptr::null_mut()
                };
                assert_ne!(next, heap);
                allocate(heap, 16, 100, false);
            }
        });
        assert!(said.contains("use of the program heap 0x"), "{said}");
        assert!(said.contains("after it was deleted"), "{said}");
    }
    // SAFETY: NULL is a heap that could not be made.
    unsafe {
        let none = std::ptr::null_mut();
        assert!(allocate(none, 16, 1, false).is_null() && !reset(none) && delete(none));
        assert_eq!(figures(none).allocations, 0);
    }
}

/// `free` gives a heap's block back to the heap, and `realloc` moves it into a block of the
/// thread's heap.
#[test]
fn the_ordinary_calls_take_a_block_of_a_heap() {
    use c::heaps::{allocate, delete, figures, new, reallocate};
    let heap = new("of C", Some(10 * MIB));
    // SAFETY: the test frees each block once, and deletes the heap at the end.
    unsafe {
        for size in [0, 1, 100, 20_000, 200_000, 2_000_000] {
            let p = allocate(heap, 64, size, true);
            assert!(p.addr().is_multiple_of(64) && c::usable_size(p) >= size);
            assert!((0..size).all(|i| p.add(i).read() == 0));
            let p = reallocate(heap, p, size + 5000);
            assert_eq!(figures(heap).allocations - figures(heap).frees, 1);
            let p = c::realloc(p, 3 * (size + 5000));
            assert_eq!(figures(heap).allocations - figures(heap).frees, 0, "{size}");
            free(p);
            let p = allocate(heap, 16, size, false);
            free(p);
            assert_eq!(figures(heap).live_bytes, 0, "{size}");
        }
        assert!(delete(heap));
    }
}
