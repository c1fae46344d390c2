//! Sampled guards: some blocks lie alone between memory without access.
//!
//! About one allocation in `GUARD_SAMPLE` gets a *place* of its own: a room of 64 KiB with as much
//! inaccessible memory on either side. The block lies at the beginning or at the end of the room,
//! at random. Only the system pages that have the block are accessible. So a read or write beyond
//! the block that reaches another system page faults, and so does any use after the free.
//! `fault` says what happened, with the stacks of the allocation, the free and the access.
//!
//! ```text
//! | no access | room 0 | no access | room 1 | no access | …
//!               ^block           block^
//! ```
//!
//! A fault shows nothing of the bytes between the block and the end of its system page. There a
//! pattern lies on either side, and the free checks it.
//!
//! The paths of a program without guards check nothing, except one word on the slow path of malloc.
//! As for the heap profile, a list ends where a sample is due (`heap::refill::sampled`). The block
//! lies in no arena. So its free takes the path of foreign pointers, and leaves it at its
//! beginning.
//!
//! Rules
//! 1. A place belongs to the thread that set its state to `Busy` (`proto::guarded`). The program
//!    has the block from `Live` on, and in `Faulted`, until a free sets `Busy` again.
//! 2. Each access to a room by this module lies between `commit` and `decommit`, while the place is
//!    `Busy`.
//! 3. A place whose error was reported, in a program that goes on, is never used again.
//! 4. `BASE` changes once, from 0, and is compared and added to alone: what lies there has the
//!    order of the place's state. A thread that has a block got it from one that read `BASE`.
//! 5. `address` and `size` are single words, relaxed: the state orders them (rule 1). A free
//!    compares the address before it seizes the place. It is right about the caller's live block,
//!    and what it says of another pointer is a report.
//! 6. The owner of a block is stored before the state is `Live`, and read after the state was.

pub mod fault;
pub mod points;
pub mod stack;

use crate::backend::arena;
use crate::backend::check;
use crate::base::size_class::MEDIUM_MAX;
use crate::base::sync::Ordering::{Acquire, Relaxed, Release};
use crate::base::sync::plain::{AtomicU32, AtomicUsize};
use crate::proto::guarded::{GuardedState, State};
use crate::{harden, os, policy};
use core::ptr::NonNull;
use stack::Stack;

/// Blocks that can lie in places at a time.
pub const PLACES: usize = 64;
/// Bytes of a room, and of the memory without access before it. The largest system page has as
/// many.
pub const ROOM: usize = 64 << 10;
const STRIDE: usize = 2 * ROOM;
const BYTES: usize = PLACES * STRIDE + ROOM;
/// Bytes on either side of a block that have the pattern.
const PAD: usize = 64;
const PATTERN: u8 = 0xa7;
/// From this sample rate on, one block gets a place in each period at most.
const PACED: u32 = 1000;
/// The period in milliseconds. A place costs some system calls and two stacks.
const PERIOD: u32 = 16;

/// How often a free looks whether an access that faults is done with the place.
const BUSY_LOOKS: u32 = 100;

const _: () = assert!(ROOM >= MEDIUM_MAX);

/// Whose block a place has, for who counts it. The word is 0 for blocks that nobody counts.
#[derive(Debug, Clone, Copy)]
pub struct Owner {
    pub word: usize,
    /// What the block counts for.
    pub bytes: u32,
}

impl Owner {
    pub const NONE: Self = Self { word: 0, bytes: 0 };
}

/// A place, and what is known of its last block.
pub struct Place {
    state: GuardedState,
    size: AtomicU32,
    address: AtomicUsize,
    /// The parts of an [`Owner`].
    owner: AtomicUsize,
    bytes: AtomicU32,
    allocated: Stack,
    freed: Stack,
}

impl Place {
    fn state(&self) -> State {
        self.state.get()
    }
    /// True if the program has its block.
    fn is_live(&self) -> bool {
        matches!(self.state(), State::Live | State::Faulted)
    }
    fn set(&self, state: State) {
        self.state.set(state);
    }
    fn seize(&self, from: State) -> bool {
        self.state.seize(from)
    }
    fn address(&self) -> usize {
        self.address.load(Relaxed)
    }
    fn size(&self) -> usize {
        self.size.load(Relaxed) as usize
    }
    fn owner(&self) -> Owner {
        Owner { word: self.owner.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }
}

static POOL: [Place; PLACES] = [const {
    Place {
        state: GuardedState::new(),
        size: AtomicU32::new(0),
        address: AtomicUsize::new(0),
        owner: AtomicUsize::new(0),
        bytes: AtomicU32::new(0),
        allocated: Stack::new(),
        freed: Stack::new(),
    }
}; PLACES];
/// The address range. 0: not reserved yet.
static BASE: AtomicUsize = AtomicUsize::new(0);
/// The place at which the next search begins. So a freed place rests for as long as it can.
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// The period in which a block got a place last.
static LAST: AtomicU32 = AtomicU32::new(0);

/// For the child of a fork.
pub fn after_fork() {
    points::after_fork();
    stack::after_fork();
}

/// True if the option asks for samples. The hardened build checks each block instead.
#[inline(always)]
pub fn is_on() -> bool {
    every() != 0
}

/// True if samples get places. A filter may end the process for a call that only guards make, so
/// there are no samples behind one.
#[inline(always)]
pub fn is_at_work() -> bool {
    is_on() && !os::is_filtered()
}

/// About one in so many allocations is a sample; 0: none.
#[inline(always)]
pub fn every() -> u32 {
    if harden::ON { 0 } else { policy::GUARD_SAMPLE.get() }
}

/// Prepares for stacks in reports. May allocate, so the allocator does not call it later.
#[cold]
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn start() {
    os::find_objects();
    os::find_program();
    os::on_error(stack::show_own);
}

/// The address range, which is reserved at the first call. Then a handler for faults is installed,
/// too. Two threads may reserve a range each: one of them is given back.
#[cold]
fn base() -> Option<usize> {
    let known = BASE.load(Acquire);
    if known != 0 {
        return Some(known);
    }
    const RESERVED: usize = BYTES + ROOM;
    let reserved = os::reserve(RESERVED)?;
    // Rooms are aligned as pages are: so blocks keep the alignment of their class.
    let made = reserved.next_multiple_of(ROOM);
    if let Err(other) = BASE.compare_exchange(0, made, Release, Acquire) {
        os::unreserve(reserved, RESERVED);
        return Some(other);
    }
    arena::RESERVED.fetch_add(RESERVED, Relaxed);
    os::on_fault(fault::judge);
    Some(made)
}

/// The place that an address lies in or before, and the distance from its room's beginning. None:
/// the address lies beyond the range.
fn find(address: usize) -> Option<(usize, isize)> {
    let base = BASE.load(Relaxed);
    let offset = address.wrapping_sub(base);
    (base != 0 && offset < BYTES)
        .then(|| (offset / STRIDE, (offset % STRIDE) as isize - ROOM as isize))
}

fn room(i: usize) -> usize {
    BASE.load(Relaxed) + i * STRIDE + ROOM
}

/// True if `p` lies in the range of the places.
#[inline]
pub fn has(p: *mut u8) -> bool {
    find(p.addr()).is_some()
}

/// The system pages that have the `len` bytes at `at`: address and length.
fn system_pages(at: usize, len: usize) -> (usize, usize) {
    let page = os::page_size();
    let start = at & !(page - 1);
    (start, (at + len).next_multiple_of(page) - start)
}

/// False if [`alloc`] would refuse at this time, as a block has got a place in this period.
#[cold]
pub fn may_come() -> bool {
    policy::GUARD_SAMPLE.get() < PACED || LAST.load(Relaxed) != period()
}

/// The number of the current period. Never 0, with which `LAST` begins.
fn period() -> u32 {
    os::now_ms() / PERIOD + 1
}

/// How many of the next `count` blocks come before the first one that is due, if each is due by
/// chance. None: no one is.
pub fn next_due(count: u64) -> Option<u64> {
    if !is_at_work() || !may_come() {
        return None;
    }
    let every = u64::from(every().max(1));
    (0..count).find(|_| points::random().is_multiple_of(every))
}

/// Allocates a block for `request` bytes. `size` is what the block of its class would have: such a
/// request keeps the alignment of the class, any other is aligned to 16. All bytes are zero. None:
/// the allocation is no sample after all.
#[cold]
#[inline(never)]
pub fn alloc(request: usize, size: usize, owner: Owner) -> Option<NonNull<u8>> {
    if policy::GUARD_SAMPLE.get() >= PACED {
        let now = period();
        if LAST.swap(now, Relaxed) == now {
            return None;
        }
    }
    base()?;
    let first = NEXT.fetch_add(1, Relaxed);
    let is_free = |i: &usize| POOL[*i].seize(State::Freed) || POOL[*i].seize(State::Unused);
    let i = (first..first + PLACES).map(|i| i % PLACES).find(is_free)?;
    NEXT.store(i + 1, Relaxed);
    let place = &POOL[i];
    let len = if request == size { size } else { request.next_multiple_of(16) };
    let at = if points::random().is_multiple_of(2) { room(i) } else { room(i) + ROOM - len };
    let (start, bytes) = system_pages(at, request);
    if !os::commit(start, bytes) {
        place.set(State::Unused);
        return None;
    }
    place.address.store(at, Relaxed);
    place.size.store(request as u32, Relaxed);
    place.owner.store(owner.word, Relaxed);
    place.bytes.store(owner.bytes, Relaxed);
    // SAFETY: the system pages of the block were made accessible, and nobody else knows them yet
    // (rule 2).
    pads(at, request, |pad, len| unsafe { os::at(pad).write_bytes(PATTERN, len) });
    place.allocated.record();
    place.set(State::Live);
    NonNull::new(os::at(at))
}

/// Calls `f` with the bytes before and behind a block that have the pattern.
fn pads(at: usize, len: usize, mut f: impl FnMut(usize, usize)) {
    let (start, bytes) = system_pages(at, len);
    let before = (at - start).min(PAD);
    f(at - before, before);
    f(at + len, (start + bytes - at - len).min(PAD));
}

/// Frees the block at `p`, which lies in the range, and returns its owner, if it has one. An error
/// of the program is reported.
#[cold]
#[inline(never)]
pub fn free(p: *mut u8) -> Option<Owner> {
    let (i, _) = find(p.addr())?;
    let place = &POOL[i.min(PLACES - 1)];
    if i >= PLACES || place.address() != p.addr() {
        fault::invalid_free(p.addr(), place);
        return None;
    }
    let is_live = place.seize(State::Live);
    // An access that faults may be changing one state to the other.
    let is_faulted = !is_live && (0..BUSY_LOOKS).any(|_| place.seize(State::Faulted));
    if !is_live && !is_faulted {
        // If it was reported, the program went on after an error of this block.
        if place.state() != State::Reported {
            fault::double_free(p.addr(), place);
        }
        return None;
    }
    let owner = place.owner();
    let mut written = None;
    pads(p.addr(), place.size(), |pad, len| {
        // SAFETY: the system pages of the block are accessible until `decommit` below (rule 2).
        let is_changed = |at: &usize| unsafe { os::at(*at).read() } != PATTERN;
        written = written.or((pad..pad + len).find(is_changed));
    });
    place.freed.record();
    let (start, bytes) = system_pages(p.addr(), place.size());
    if is_faulted {
        place.set(State::Reported); // What was written beyond it was reported.
    } else if let Some(at) = written {
        place.set(State::Reported);
        fault::written_beyond(at, place);
    } else if os::decommit(start, bytes) {
        place.set(State::Freed);
    } else {
        place.set(State::Reported);
    }
    (owner.word != 0).then_some(owner)
}

/// The owner of the last block that started at `p`. None: none did.
pub fn owner(p: *mut u8) -> Option<Owner> {
    let place = POOL.get(find(p.addr())?.0)?;
    (place.address() == p.addr()).then(|| place.owner())
}

/// A live block whose owner has this word. O(places).
pub fn first_of(word: usize) -> Option<*mut u8> {
    if BASE.load(Relaxed) == 0 {
        return None;
    }
    let is_of = |place: &&Place| place.is_live() && place.owner().word == word;
    POOL.iter().find(is_of).map(|place| os::at(place.address()))
}

/// The bytes of the block at `p`, which lies in the range. A pointer to no block is an error of the
/// program.
#[cold]
pub fn size(p: *mut u8) -> usize {
    match find(p.addr()) {
        Some((i, _)) if i < PLACES && POOL[i].address() == p.addr() && POOL[i].is_live() => {
            POOL[i].size()
        }
        _ => {
            check::wrong(p, format_args!("invalid pointer {p:p}: no live block starts there"));
            0
        }
    }
}
