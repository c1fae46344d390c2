//! Program heaps: heaps that the program makes, names, limits, and drops as a whole.
//!
//! A program heap has pages and larger blocks of its own, and a lock. Its blocks come by two ways:
//! - *Own* blocks come from calls that name the heap. `reset` and `delete` give all of them back at
//!   once.
//! - *Routed* blocks come from ordinary calls of a thread that is in a scope of the heap
//!   ([`scope`]). The program frees them as it frees any block, whenever it likes. So they may
//!   outlive the scope, and `reset` and `delete` leave them alone.
//!
//! ```text
//! own:     call with the heap → lock → block of an own page
//! routed:  malloc → list of the scope's front (no lock) → when it is empty: lock → routed page
//! free:    page without an owner → slow path → the heap in the page's metadata → lock → page
//! ```
//!
//! Why a lock: a reference to the heap may go to any thread, as it does in a server whose tasks
//! move between threads, and the blocks with it. A heap for one thread alone would save two locked
//! instructions for each block, and its blocks could leave the thread by no way at all. The lock is
//! the heap's own, so heaps do not wait for each other.
//!
//! The fast paths of malloc and free know nothing of this. A page of a program heap has no owner
//! (`page` rule 2), so a free of its blocks takes the slow path. Its metadata says `ProgramPage`,
//! `ProgramLarge` or `ProgramHuge`, and `remote_link` leads to the heap.
//!
//! Rules
//! 1. `Lock` guards all cells of the heap, and the first lines (`page` rule 1) of its pages and
//!    blocks. [`Locked`] is the proof. Figures have one writer, who has the lock.
//! 2. `remote_link` of a page or a block is set before a block of it is handed out, and stays until
//!    the last one was freed. So who has a block reads it without the lock.
//! 3. The lock comes before all other locks (`thread` rule 2), but the profile's: no thread waits
//!    for one of the two while it holds the other (`profile::kept` rule 1). No pass runs under it:
//!    who releases memory, or takes it beyond the soft limit, sets `released`, and the front end
//!    calls `purge::tick` afterwards. The purge itself, which has a lock of its own, only tries
//!    those of heaps (`end_unused`).
//! 4. A signal handler may have interrupted its own thread under the lock. Then a request fails,
//!    and a freed block goes to `inbox`, which the next one to take the lock empties.
//! 5. A heap is FREE, in the pool of [`registry`]; LIVE; or ORPHAN: it was deleted while routed
//!    blocks were live. The free of the last one ends it. Its memory is never unmapped.
//! 6. In the child of a fork a heap whose lock another thread held is LOST. Its requests fail, and
//!    frees of its blocks do nothing. All other heaps go on. Scopes of other threads are gone
//!    there. What they had on their lists stays live.
//! 7. The limit is for live bytes: the bytes of blocks, each with the size of its class. A request
//!    beyond it fails, and changes nothing but the count of refused ones.

mod account;
mod block;
mod end;
pub mod figures;
mod find;
pub mod guarded;
pub mod registry;
pub mod reserve;
mod sampled;
pub mod scope;
mod slots;
mod waiting;
mod whole;

pub use account::bytes_in_pages;
pub use find::{has, heap_of_slots, of, room};
pub use whole::clear;

// Models have the allocator alone, without program heaps.
#[cfg(all(test, not(any(miri, shuttle))))]
mod tests;

use crate::backend::owner::HEAP_SHIFT;
use crate::backend::page::queue::PageQueue;
use crate::backend::page::{Kind, Meta};
use crate::base::size_class::CLASSES;
use crate::base::sync::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed},
};
use crate::os;
use crate::profile::{Sample, Samples};
use crate::proto::inbox::{Inbox, Waiting};
use crate::proto::lock::{Guard, Lock};
use core::cell::{Cell, UnsafeCell};
use core::ptr::NonNull;
use figures::Figures;
use reserve::Reserve;
use scope::Scope;

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It would pass the limit.
    Limit,
    /// The system has no memory.
    Memory,
    /// The heap is lost, or the caller is a signal handler that interrupted it (rules 4 and 6).
    Busy,
}

/// A block, and whether all its bytes are zero.
pub type Made = Result<(NonNull<u8>, bool), Refusal>;

/// A way by which blocks come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The caller names the heap.
    Own = 0,
    /// The thread is in a scope of the heap.
    Routed = 1,
}

/// The heap is in the pool.
const FREE: u32 = 0;
/// The program has it.
const LIVE: u32 = 1;
/// The program deleted it, and routed blocks are live.
const ORPHAN: u32 = 2;
/// A fork interrupted a change (rule 6).
const LOST: u32 = 3;

/// The pages and larger blocks of one way. All zero bytes are none.
struct Pages {
    /// Pages with free blocks, by class.
    queues: [PageQueue; CLASSES],
    /// Pages without, and large and huge blocks.
    full: PageQueue,
    /// Live blocks.
    blocks: Cell<u64>,
    /// Their bytes.
    bytes: Cell<u64>,
    /// Those that are samples of the profile.
    samples: UnsafeCell<Samples>,
}

/// A program heap. All zero bytes are a FREE one that was never used.
#[repr(C, align(8192))]
pub struct ProgramHeap {
    lock: Lock,
    /// What `view` names for readers in other processes.
    pub figures: Figures,
    /// The heap made before this one.
    pub next: AtomicPtr<ProgramHeap>,
    /// The link of the pool.
    link: AtomicU64,
    /// FREE, LIVE, ORPHAN or LOST.
    pub state: AtomicU32,
    /// How often the memory became another heap.
    generation: AtomicU32,
    /// The most live bytes. usize::MAX: there is no limit.
    pub limit: AtomicUsize,
    /// Memory went back to a segment, or to the huge cache (rule 3).
    released: AtomicBool,
    /// Freed blocks of signal handlers (rule 4).
    inbox: Inbox<Waiting>,
    /// What they freed of guarded places, to be counted (`guarded` rule 3).
    late: AtomicU64,
    /// By [`Way`].
    pages: [Pages; 2],
    /// Scopes that no thread is in.
    spare: Cell<*mut Scope>,
    /// Scopes that threads are in.
    entered: Cell<u32>,
    reserve: Reserve,
}

const _: () = assert!(size_of::<ProgramHeap>() == 1 << HEAP_SHIFT);

// SAFETY: the cells are used under the lock alone (rule 1). The rest is atomic.
unsafe impl Sync for ProgramHeap {}

/// A heap whose lock the calling thread holds.
pub struct Locked {
    heap: &'static ProgramHeap,
    _guard: Guard<'static>,
}

impl ProgramHeap {
    /// Takes the lock, and what signal handlers freed. An error: see rules 4 and 6.
    #[inline]
    fn lock(&'static self) -> Result<Locked, Refusal> {
        match self.try_lock() {
            Some(locked) => Ok(locked),
            None => self.lock_slowly(),
        }
    }

    /// Takes the lock if it is free and nothing waits for the next one to take it.
    #[inline(always)]
    fn try_lock(&'static self) -> Option<Locked> {
        let guard = self.lock.try_lock_as(os::thread_token())?;
        let locked = Locked { heap: self, _guard: guard };
        let nothing_waits = self.late.load(Relaxed) == 0 && self.inbox.is_empty();
        // If not, the guard is dropped here, which releases the lock.
        (nothing_waits && self.state.load(Relaxed) != LOST).then_some(locked)
    }

    /// [`Self::lock`] when [`Self::try_lock`] has failed.
    #[cold]
    #[inline(never)]
    fn lock_slowly(&'static self) -> Result<Locked, Refusal> {
        let me = os::thread_token();
        if self.lock.is_held_by(me) {
            return Err(Refusal::Busy);
        }
        loop {
            // A thread that reports an error under the lock may wait in the program's handler.
            let guard = self.lock.lock_unless(me, os::is_ending).ok_or(Refusal::Busy)?;
            let locked = Locked { heap: self, _guard: guard };
            if self.state.load(Relaxed) == LOST {
                return Err(Refusal::Busy);
            }
            if self.late.load(Relaxed) != 0 {
                locked.count_late();
            }
            if self.inbox.is_empty() {
                return Ok(locked);
            }
            let Some(sample) = locked.receive() else { return Ok(locked) };
            drop(locked);
            sample.freed();
        }
    }

    /// Allocates a block of `n` bytes at a multiple of `align`, a power of two. `class` is the
    /// class of the request, if it has one. O(1), and O(groups in use) for a new page.
    pub fn alloc(&'static self, way: Way, n: usize, align: usize, class: Option<usize>) -> Made {
        match class {
            Some(class) => self.alloc_class(way, class),
            None => self.lock()?.alloc_whole(way, n, align),
        }
    }

    /// [`Self::alloc`] of a block of `class`.
    #[inline(never)]
    pub fn alloc_class(&'static self, way: Way, class: usize) -> Made {
        self.lock()?.alloc_block(way, class)
    }

    /// Frees the block at `p`, in the page or block whose first slot has the metadata `head`. True:
    /// memory was released, and the caller calls `purge::tick`.
    ///
    /// # Safety
    /// [`of`] gave the two for `p`. A block starts there; it is live, and the caller's to free.
    pub unsafe fn free(&'static self, p: *mut u8, head: &'static Meta) -> bool {
        let sample = match self.lock() {
            // SAFETY: `of` gave the heap and the metadata for `p`, where a live block starts that
            // the caller gives up. This call has the lock.
            Ok(locked) => unsafe { locked.free(p, head) },
            Err(_) if self.state.load(Relaxed) == LOST => return false,
            Err(_) => {
                // SAFETY: the caller gives up the block, which has a word at least, and nobody else
                // has it.
                unsafe { self.inbox.push_chain(p.cast(), p.cast(), 0) };
                return false;
            }
        };
        if let Some(sample) = sample {
            sample.freed();
        }
        registry::give_if_over(self);
        self.take_released()
    }

    /// True once after memory was released, or taken beyond the soft limit (rule 3).
    #[inline(always)]
    pub fn take_released(&self) -> bool {
        self.released.load(Relaxed) && self.released.swap(false, Relaxed)
    }

    /// Sets the limit for live bytes. Blocks that are live stay so. O(1).
    pub fn set_limit(&self, bytes: Option<usize>) {
        self.limit.store(bytes.unwrap_or(usize::MAX), Relaxed);
    }

    /// True for a heap that the program has.
    pub fn is_live(&self) -> bool {
        self.state.load(Relaxed) == LIVE
    }

    /// True in the memory of a heap that was used and has not ended.
    pub fn is_used(&self) -> bool {
        self.state.load(Acquire) != FREE
    }

    /// After a fork, in the child, whose only thread is `me`, and is in so many `scopes` of the
    /// heap: rule 6.
    pub fn after_fork(&self, me: u32, scopes: u32) {
        if self.lock.is_held_by_other_than(me) {
            self.lock.reset();
            self.state.store(LOST, Relaxed);
        } else if !self.lock.is_held_by(me) {
            self.entered.set(scopes);
        }
    }
}

impl Locked {
    fn pages(&self, way: Way) -> &'static Pages {
        &self.heap.pages[way as usize]
    }

    /// By which way the heap has a page of its own, whose metadata is `head`. Pages of program
    /// heaps have no use for the field of full pages, so it holds the way.
    fn way_of(head: &Meta) -> Way {
        if head.unfull_at.get() == Way::Own as i32 { Way::Own } else { Way::Routed }
    }

    /// Frees a block: see [`ProgramHeap::free`]. If it was a sample, the caller counts its free
    /// without the lock.
    ///
    /// # Safety
    /// As there, and the heap is this one.
    #[inline(always)]
    unsafe fn free(&self, p: *mut u8, head: &'static Meta) -> Option<Sample> {
        let sample = self.take_sample(p, head);
        if let Some(sample) = sample {
            sample.let_go(p.addr());
        }
        // SAFETY: the caller gives up a live block of this heap.
        unsafe {
            match head.kind() {
                Kind::ProgramPage => self.free_block(p.cast(), head),
                _ => self.free_whole(p, head),
            }
        }
        sample
    }
}
