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
//!    for one of the two while it holds the other (`profile::kept` rule 1). No purge runs under it:
//!    who releases memory sets `released`, and the front end calls `purge::tick` afterwards.
//! 4. A signal handler may have interrupted its own thread under the lock. Then a request fails,
//!    and a freed block goes to `inbox`, which the next one to take the lock empties.
//! 5. A heap is FREE, in the pool of [`registry`]; LIVE; or ORPHAN: it was deleted while routed
//!    blocks were live. The free of the last one ends it. Its memory is never unmapped.
//! 6. In the child of a fork a heap whose lock another thread held is LOST. Its requests fail, and
//!    frees of its blocks do nothing. All other heaps go on.
//! 7. The limit is for live bytes: the bytes of blocks, each with the size of its class. A request
//!    beyond it fails, and changes nothing but the count of refused ones.

mod block;
pub mod figures;
pub mod registry;
pub mod reserve;
mod sampled;
pub mod scope;
mod whole;

pub use whole::clear;

// Models have the allocator alone, without program heaps.
#[cfg(all(test, not(any(miri, shuttle))))]
mod tests;

use crate::backend::arena::SLOT;
use crate::backend::owner::HEAP_SHIFT;
use crate::backend::page::queue::PageQueue;
use crate::backend::page::{self, Kind, Meta};
use crate::backend::segment;
use crate::base::size_class::CLASSES;
use crate::base::sync::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use crate::heap::Heap;
use crate::large::huge;
use crate::os;
use crate::profile::{self, Sample, Samples};
use crate::proto::inbox::{Inbox, Link};
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

/// A freed block in the inbox. Its link may lead to any page of the heap. The link of a block on a
/// list may not: the hardened build checks it.
#[repr(C)]
struct Waiting {
    next: *mut Waiting,
}

// SAFETY: `next` returns what `set_next` stored last, and neither touches anything else.
unsafe impl Link for Waiting {
    unsafe fn next(this: *mut Self) -> *mut Self {
        // SAFETY: the caller owns the block, which has a word at least.
        unsafe { (*this).next }
    }
    unsafe fn set_next(this: *mut Self, next: *mut Self) {
        // SAFETY: the caller owns the block, which has a word at least.
        unsafe { (*this).next = next }
    }
}

/// A heap whose lock the calling thread holds.
pub struct Locked {
    heap: &'static ProgramHeap,
    _guard: Guard<'static>,
}

/// The heap of the page or the block that `p` lies in, and the metadata of its first slot. None: it
/// is in none.
#[inline]
pub fn of(p: *mut u8) -> Option<(&'static ProgramHeap, &'static Meta)> {
    let head = page::lookup(p)?.head();
    has(head.kind()).then(|| (heap_of(head), head))
}

/// True for the kinds of program heaps.
#[inline]
pub fn has(kind: Kind) -> bool {
    matches!(kind, Kind::ProgramPage | Kind::ProgramLarge | Kind::ProgramHuge)
}

/// The heap of a page or a larger block that may end meanwhile, for a map.
pub fn heap_of_slots(head: &Meta) -> Option<&'static ProgramHeap> {
    if !has(head.kind()) {
        return None;
    }
    // Behind the first look the link is the heap's: `adopt` has a fence between the two.
    fence(Acquire);
    // SAFETY: metadata is accessible for ever, and a volatile read of a word is one load.
    let heap = unsafe { head.remote_link.as_ptr().read_volatile() };
    // Others may use the word as soon as the kind is another one. The fence keeps the second look
    // behind the read.
    fence(Acquire);
    // SAFETY: null, or a heap: `adopt` set the link before the kind, and what ends the slots leaves
    // the link or clears it. The memory of a heap is never unmapped (rule 5).
    if has(head.kind()) { unsafe { heap.cast::<ProgramHeap>().as_ref() } } else { None }
}

/// The heap of a page or a block.
fn heap_of(head: &Meta) -> &'static ProgramHeap {
    // SAFETY: the kind says that a heap set the link before it handed out a block (rule 2). The
    // memory of heaps is never unmapped (rule 5), and any thread may have a reference.
    unsafe { &*head.remote_link.get().cast::<ProgramHeap>() }
}

/// The bytes of a block of a page, or of a larger one, from the metadata of its first slot.
pub fn room(head: &Meta) -> usize {
    match head.kind() {
        Kind::ProgramHuge => huge::size(head),
        _ => head.block_size.get() as usize,
    }
}

impl ProgramHeap {
    /// Takes the lock, and what signal handlers freed. An error: see rules 4 and 6.
    fn lock(&'static self) -> Result<Locked, Refusal> {
        let me = os::thread_token();
        if self.lock.is_held_by(me) {
            return Err(Refusal::Busy);
        }
        loop {
            let locked = Locked { heap: self, _guard: self.lock.lock_as(me) };
            if self.state.load(Relaxed) == LOST {
                return Err(Refusal::Busy);
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
        let locked = self.lock()?;
        match class {
            Some(class) => locked.alloc_block(way, class),
            None => locked.alloc_whole(way, n, align),
        }
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

    /// True once after memory was released (rule 3).
    pub fn take_released(&self) -> bool {
        self.released.load(Relaxed) && self.released.swap(false, Relaxed)
    }

    /// Gives all own blocks back at once. O(pages and larger blocks).
    ///
    /// # Safety
    /// Nobody uses an own block of the heap any more.
    pub unsafe fn reset(&'static self) -> Result<(), Refusal> {
        let locked = self.lock()?;
        let samples = locked.take_samples(Way::Own);
        // SAFETY: the caller says that nobody uses an own block any more. This call has the lock.
        unsafe { locked.end_all(Way::Own) };
        drop(locked);
        profile::all_freed(samples);
        Ok(())
    }

    /// Deletes the heap: gives its own blocks back, and ends it once no routed block is live.
    /// False: a thread is in a scope of the heap, and nothing was done. O(pages and larger blocks).
    ///
    /// # Safety
    /// The caller has the heap, and uses it no more. Nobody uses an own block of it any more.
    pub unsafe fn delete(&'static self) -> bool {
        let Ok(locked) = self.lock() else { return false };
        if self.entered.get() != 0 {
            return false;
        }
        let samples = locked.take_samples(Way::Own);
        // SAFETY: the caller says that nobody uses an own block any more. This call has the lock,
        // and no thread is in a scope of the heap.
        unsafe { locked.end_all(Way::Own) };
        locked.end_empty(Way::Routed);
        locked.end_reserve();
        self.generation.store(self.generation.load(Relaxed).wrapping_add(1), Relaxed);
        self.state.store(ORPHAN, Relaxed);
        drop(locked);
        profile::all_freed(samples);
        registry::give_if_over(self);
        true
    }

    /// Sets the limit for live bytes. Blocks that are live stay so. O(1).
    pub fn set_limit(&self, bytes: Option<usize>) {
        self.limit.store(bytes.unwrap_or(usize::MAX), Relaxed);
    }

    /// How many of `count` blocks of `size` bytes the limit allows. It may change at once for a
    /// caller without the lock.
    fn allowed(&self, count: u64, size: u64) -> u64 {
        count.min((self.limit.load(Relaxed) as u64).saturating_sub(self.figures.live.get()) / size)
    }

    /// True for a heap that the program has.
    pub fn is_live(&self) -> bool {
        self.state.load(Relaxed) == LIVE
    }

    /// True in the memory of a heap that was used and has not ended.
    pub fn is_used(&self) -> bool {
        self.state.load(Acquire) != FREE
    }

    /// After a fork, in the child, whose only thread is `me`: rule 6.
    pub fn after_fork(&self, me: u32) {
        if self.lock.is_held_by_other_than(me) {
            self.lock.reset();
            self.state.store(LOST, Relaxed);
        }
    }
}

impl Locked {
    fn pages(&self, way: Way) -> &'static Pages {
        &self.heap.pages[way as usize]
    }

    /// Counts `count` blocks of `size` bytes, or as many as the limit allows, at least one. None:
    /// it allows none.
    fn charge(&self, way: Way, count: u64, size: u64) -> Option<u64> {
        let figures = &self.heap.figures;
        let count = self.heap.allowed(count, size);
        if count == 0 {
            figures.refused.add(1);
            return None;
        }
        self.add_live(way, count * size);
        figures.allocations.add(count);
        let pages = self.pages(way);
        pages.blocks.set(pages.blocks.get() + count);
        Some(count)
    }

    /// Counts `bytes` more of a block. None: the limit does not allow them.
    fn charge_bytes(&self, way: Way, bytes: u64) -> Option<()> {
        let figures = &self.heap.figures;
        if bytes > (self.heap.limit.load(Relaxed) as u64).saturating_sub(figures.live.get()) {
            figures.refused.add(1);
            return None;
        }
        self.add_live(way, bytes);
        Some(())
    }

    fn add_live(&self, way: Way, bytes: u64) {
        let (figures, of_way) = (&self.heap.figures, &self.pages(way).bytes);
        let live = figures.live.get() + bytes;
        figures.live.set(live);
        figures.peak.set(figures.peak.get().max(live));
        of_way.set(of_way.get() + bytes);
    }

    /// Counts `bytes` of a block as live no more.
    fn discharge_bytes(&self, way: Way, bytes: u64) {
        let (figures, of_way) = (&self.heap.figures, &self.pages(way).bytes);
        figures.live.set(figures.live.get() - bytes);
        of_way.set(of_way.get() - bytes);
    }

    /// Takes back what [`Locked::charge`] counted.
    fn uncharge(&self, way: Way, count: u64, size: u64) {
        self.discharge(way, count, size);
        let figures = &self.heap.figures;
        figures.allocations.set(figures.allocations.get() - count);
    }

    /// Counts `count` blocks as live no more.
    fn discharge(&self, way: Way, count: u64, size: u64) {
        let blocks = &self.pages(way).blocks;
        blocks.set(blocks.get() - count);
        self.discharge_bytes(way, count * size);
    }

    /// Notes a change of the bytes that the heap holds.
    fn note_held(&self, change: i64) {
        let figures = &self.heap.figures;
        figures.held.set(figures.held.get().wrapping_add_signed(change));
        if change < 0 {
            self.heap.released.store(true, Relaxed);
        }
    }

    /// [`Locked::note_held`] for slots, which count as live memory of the process too.
    fn note_slots(&self, change: i64) {
        self.note_held(change);
        Heap::tell_live(change, change);
    }

    /// The first page of the list is of the way that its metadata says.
    fn way_of(head: &Meta) -> Way {
        if head.unfull_at.get() == Way::Own as i32 { Way::Own } else { Way::Routed }
    }

    /// Makes the slots or segments of `head` the heap's.
    fn adopt(&self, way: Way, head: &Meta, kind: Kind) {
        head.clear_owner();
        head.unfull_at.set(way as i32);
        head.remote_link.set(core::ptr::from_ref(self.heap).cast_mut().cast());
        // `heap_of_slots` reads the kind before the link.
        fence(Release);
        head.set_kind(kind);
    }

    /// Frees a block: see [`ProgramHeap::free`]. If it was a sample, the caller counts its free
    /// without the lock.
    ///
    /// # Safety
    /// As there, and the heap is this one.
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

    /// Frees what signal handlers have freed (rule 4), up to the first sample, which it returns.
    /// The caller counts its free without the lock, and comes again.
    #[cold]
    fn receive(&self) -> Option<Sample> {
        let mut block = self.heap.inbox.take();
        let mut sample = None;
        while !block.is_null() {
            // SAFETY: the inbox has blocks of this heap that were given up. The link is read before
            // the block is freed or put into the inbox again.
            unsafe {
                let next = Waiting::next(block);
                if sample.is_some() {
                    self.heap.inbox.push_chain(block, block, 0);
                } else if let Some((_, head)) = of(block.cast()) {
                    sample = self.free(block.cast(), head);
                }
                block = next;
            }
        }
        sample
    }

    /// Ends all pages and larger blocks of a way.
    ///
    /// # Safety
    /// Nobody uses a block of them any more.
    unsafe fn end_all(&self, way: Way) {
        let pages = self.pages(way);
        for queue in pages.queues.iter().chain([&pages.full]) {
            while let Some(head) = queue.pop() {
                self.end(head);
            }
        }
        let (blocks, bytes) = (pages.blocks.get(), pages.bytes.get());
        let figures = &self.heap.figures;
        figures.frees.add(blocks);
        figures.live.set(figures.live.get() - bytes);
        pages.blocks.set(0);
        pages.bytes.set(0);
    }

    /// Ends the pages of a way that have no live block.
    fn end_empty(&self, way: Way) {
        for queue in &self.pages(way).queues {
            let mut next = queue.first();
            while let Some(page) = next {
                next = PageQueue::after(page);
                if page.until_slow.get() == 0 {
                    queue.remove(page);
                    self.end(page);
                }
            }
        }
    }

    /// Ends a page or a larger block that is in no list and has no live block.
    fn end(&self, head: &'static Meta) {
        match head.kind() {
            Kind::ProgramHuge => self.end_huge(head),
            _ => self.end_slots(head),
        }
    }

    /// Gives slots back: to the reserve if they are of it, else to their segment.
    fn end_slots(&self, head: &'static Meta) {
        let span = head.span.load(Relaxed);
        if head.kind() == Kind::ProgramPage {
            let used = i64::from(head.until_slow.get()) * i64::from(head.block_size.get());
            self.note_in_pages(-used);
        }
        head.close();
        if self.heap.reserve.give(head, span) {
            return;
        }
        self.note_slots(-i64::from(span) * SLOT as i64);
        // SAFETY: the heap claimed the slots, and no list of it has them. `close` ended them.
        unsafe { segment::release(head, span) };
    }

    /// Takes `span` neighbouring slots: of the reserve if it has so many, else of a segment. The
    /// flag says whether they are zero.
    fn take_slots(&self, span: u32) -> Result<(&'static Meta, bool), Refusal> {
        if let Some(head) = self.heap.reserve.take(span) {
            return Ok((head, false));
        }
        let got = segment::claim_anywhere(span).ok_or(Refusal::Memory)?;
        self.note_slots(i64::from(span) * SLOT as i64);
        Ok(got)
    }
}

/// Bytes of live blocks in pages of program heaps. O(program heaps).
pub fn bytes_in_pages() -> u64 {
    registry::all().map(|heap| heap.figures.in_pages.get()).sum()
}
