use crate::check;
use crate::proto::slots::{Slots, run};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// Two threads claim slots of a segment that has two free ones; one thread does so twice. No two
/// threads own one slot, and each owner sees what the former one wrote.
#[test]
fn slots_have_one_owner() {
    check(
        || {
            let slots = Arc::new(Slots::new());
            let memory = Arc::new([UnsafeCell::new(0usize), UnsafeCell::new(0)]);
            slots.claim(32).unwrap();
            unsafe { slots.release(0b11, false) };
            let visit = |slots: &Slots, memory: &[UnsafeCell<usize>; 2]| match slots.claim(1) {
                Some(claim) => {
                    memory[claim.first as usize].with_mut(|m| unsafe { *m += 1 });
                    unsafe { slots.release(run(claim.first, 1), true) };
                    1
                }
                None => 0,
            };
            let other = {
                let (slots, memory) = (slots.clone(), memory.clone());
                thread::spawn(move || visit(&slots, &memory) + visit(&slots, &memory))
            };
            let claimed = visit(&slots, &memory) + other.join().unwrap();
            let written: usize = memory.iter().map(|m| m.with(|m| unsafe { *m })).sum();
            assert_eq!(claimed, written);
            assert_eq!(claimed, 3, "two slots are enough for two threads");
        },
        &["SlotsCasRelaxed"],
    );
}

/// A purger and another thread claim the same DIRTY slot. One thread at a time touches its memory.
/// A slot that the purger has released is clean for the next thread, and its memory is zero.
#[test]
fn purging_is_owning() {
    check(
        || {
            let slots = Arc::new(Slots::new());
            let memory = Arc::new(UnsafeCell::new(0usize));
            slots.claim(32).unwrap();
            memory.with_mut(|m| unsafe { *m = 7 });
            unsafe { slots.release(1, true) };
            let purger = {
                let (slots, memory) = (slots.clone(), memory.clone());
                thread::spawn(move || {
                    let mask = slots.claim_dirty();
                    if mask != 0 {
                        memory.with_mut(|m| unsafe { *m = 0 });
                        unsafe { slots.release(mask, false) };
                    }
                })
            };
            if let Some(claim) = slots.claim(1) {
                memory.with_mut(|m| unsafe {
                    assert_eq!(claim.clean, *m == 0, "clean means zero");
                    *m = 9;
                });
                unsafe { slots.release(1, true) };
            }
            purger.join().unwrap();
        },
        &[
            "SlotsPurgeWithoutOwning",
            "SlotsStayEmpty",
            "SlotsCasRelaxed",
        ],
    );
}

/// One thread retires a segment while another claims a slot in it. One of the two gets it.
#[test]
fn a_retired_segment_has_no_other_owner() {
    check(
        || {
            let slots = Arc::new(Slots::new());
            let memory = Arc::new(UnsafeCell::new(0));
            let other = {
                let (slots, memory) = (slots.clone(), memory.clone());
                thread::spawn(move || {
                    if slots.claim(1).is_some() {
                        memory.with_mut(|m| unsafe { *m += 1 });
                        unsafe { slots.release(1, false) };
                    }
                })
            };
            if slots.retire() {
                memory.with_mut(|m| unsafe { *m += 1 });
            }
            other.join().unwrap();
        },
        &["SlotsRetireByStore", "SlotsCasRelaxed"],
    );
}
