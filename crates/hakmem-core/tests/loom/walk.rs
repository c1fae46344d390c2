//! The purge's walk over the list of a heap whose holder takes blocks of it meanwhile
//! (`proto::take_away` rules 4 and 5).

use crate::base::sync::{Ordering, fence};
use crate::check;
use crate::proto::take_away;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use loom::thread;
use std::cell::Cell;

/// A page of three blocks, with numbers from 1 on, and the list of the holder's heap. 0 ends a
/// list. The page's own list is the number of its blocks.
struct Page {
    is_holders: AtomicBool,
    /// Blocks of the page that are not on its own list.
    used: AtomicU32,
    /// The page's own list. Only the owner touches it: loom reports others.
    free: UnsafeCell<u32>,
    /// The first block on the heap's list.
    first: AtomicU32,
    /// The first word of each block: a link, or what the program wrote.
    words: [AtomicU32; 4],
}
unsafe impl Sync for Page {}
unsafe impl Send for Page {}

impl Page {
    /// Block 1 is live, and the program wrote `word` there. The others are on the heap's list.
    fn new(word: u32) -> Arc<Self> {
        Arc::new(Self {
            is_holders: AtomicBool::new(true),
            used: AtomicU32::new(3),
            free: UnsafeCell::new(0),
            first: AtomicU32::new(2),
            words: [0, word, 3, 0].map(AtomicU32::new),
        })
    }

    /// The blocks on the list that begins with `first`, as far as their words tell.
    fn walk(&self, first: u32) -> u32 {
        let mut block = first;
        for count in 0..3 {
            if block == 0 {
                return count;
            }
            block = self.words[block as usize].load(Relaxed);
        }
        3
    }

    /// The purge. True: it has the page.
    fn take_away(&self) -> bool {
        let pages = Cell::new(Some(self));
        let first = Cell::new(0);
        take_away::take_away(
            std::iter::once(()).filter_map(|()| pages.get()),
            || {
                fence(Ordering::SeqCst);
                true
            },
            |page| page.is_holders.store(false, Relaxed),
            |page| {
                first.set(take_away::first(|order| page.first.load(order)));
                page.used.load(Relaxed) == page.walk(first.get())
            },
            |page| page.first.load(Relaxed) == first.get(),
            |page| {
                page.is_holders.store(true, Relaxed);
                pages.set(None);
            },
        );
        if pages.get().is_some() {
            self.free.with_mut(|n| unsafe { *n += 0 });
        }
        pages.get().is_some()
    }

    /// The holder takes the first block off the heap's list, which goes on with `next`. The program
    /// writes `word` to the block.
    fn pop(&self, block: usize, next: u32, word: u32) {
        take_away::pop(|| self.first.store(next, Relaxed));
        self.words[block].store(word, Relaxed);
    }

    /// The holder puts a block, which it asked for before, onto the page's list. So many are then
    /// used.
    fn push(&self, block: usize, used: u32) {
        let push = || {
            self.words[block].store(0, Relaxed);
            self.free.with_mut(|n| unsafe { *n += 1 });
        };
        take_away::free(push, || self.used.store(used, Relaxed));
    }
}

/// Runs what the holder does beside a purge. It returns how many blocks it freed as remote frees,
/// and to the page.
fn beside_a_purge(word: u32, holder: impl FnOnce(&Page, &dyn Fn() -> bool) -> u32) {
    let page = Page::new(word);
    let purge = {
        let page = page.clone();
        thread::spawn(move || page.take_away())
    };
    let pushed = holder(&page, &|| page.is_holders.load(Relaxed));
    let is_taken = purge.join().unwrap();
    assert_eq!(page.is_holders.load(Relaxed), !is_taken);
    assert_eq!(page.free.with(|n| unsafe { *n }), pushed);
    assert_eq!(page.used.load(Relaxed), 3 - pushed, "each one is counted");
}

/// In the middle of a free, a signal handler takes a listed block and writes there. With the words
/// of the live block, the list now looks as if the live block were on it.
#[test]
fn a_walk_over_what_the_program_wrote_decides_nothing() {
    check(
        || {
            beside_a_purge(3, |page, is_own| {
                let is_own = is_own();
                page.pop(2, 3, 1);
                if is_own {
                    page.push(1, 2);
                }
                u32::from(is_own)
            });
        },
        &["TakeAwayPopsBlind", "TakeAwayTrustsTheWalk"],
    );
}

/// Frees of larger blocks go onto the heap's list, while that has few of them. So a block that is
/// taken may be the first one again, and the list is as it was. The next free goes to the page,
/// because the list is full.
#[test]
fn a_list_to_which_frees_go_is_as_it_was_only_at_rest() {
    check(
        || {
            beside_a_purge(3, |page, is_own| {
                page.pop(2, 3, 1);
                if is_own() {
                    let link = || page.words[2].store(3, Relaxed);
                    take_away::keep(link, |order| page.first.store(2, order));
                }
                let is_own = is_own();
                if is_own {
                    page.push(1, 2);
                }
                u32::from(is_own)
            });
        },
        &[
            "TakeAwayComparesBlind",
            "TakeAwayPopsBlind",
            "TakeAwayKeepsRelaxed",
            "TakeAwayWalksRelaxed",
        ],
    );
}

/// A list without room gives the block that was just freed to its page. The purge may have found
/// the block on the list, and taken the page, before.
#[test]
fn a_block_that_is_passed_on_goes_to_the_owner_of_its_page() {
    check(
        || {
            beside_a_purge(0, |page, is_own| {
                if !is_own() {
                    return 0;
                }
                let link = || page.words[1].store(2, Relaxed);
                take_away::keep(link, |order| page.first.store(1, order));
                let is_own = take_away::pass_on(|| page.first.store(2, Relaxed), is_own);
                if is_own {
                    page.push(1, 2);
                }
                u32::from(is_own)
            });
        },
        &["TakeAwayPassesOnBlind"],
    );
}

/// The same for a run of two blocks: one store takes both off the list, and one counts both. The
/// link of the second leads to the page's list meanwhile.
#[test]
fn a_run_that_is_passed_on_goes_to_the_owner_of_its_page() {
    check(
        || {
            beside_a_purge(0, |page, is_own| {
                if !is_own() {
                    return 0;
                }
                let link = || page.words[1].store(2, Relaxed);
                take_away::keep(link, |order| page.first.store(1, order));
                let is_own = take_away::pass_on(|| page.first.store(3, Relaxed), is_own);
                if is_own {
                    let push = || {
                        page.words[2].store(0, Relaxed);
                        page.free.with_mut(|n| unsafe { *n += 2 });
                    };
                    take_away::free(push, || page.used.store(1, Relaxed));
                    2
                } else {
                    0
                }
            });
        },
        &["TakeAwayPassesOnBlind"],
    );
}
