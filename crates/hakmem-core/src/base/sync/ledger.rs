//! The ledger: counts what each cache line would cost many processors.
//!
//! Few machines have 256 processors, but counts do not need them. A measurement runs its threads in
//! turn, on whatever processor, and says whose turn it is ([`begin_turn`]). The ledger follows each
//! atomic step as the caches of as many processors would, if they never lost a line for lack of
//! room: a line is in the caches of some threads, and the last to write it has it alone. A step
//! that finds the line only in other threads' caches is a *transfer*. Each 64 threads are on a node
//! of memory. A transfer is *far* if the line is only in caches of other nodes.
//!
//! A turn may be as short as a step ([`set_between`]). Then exchanges fail because of another
//! thread's step, and threads wait for locks, as they do on as many processors that run at the same
//! speed. The ledger counts both.
//!
//! Rules
//! 1. Threads run in turn while the ledger is open: one thread at a time makes steps. So the books
//!    need no lock.
//! 2. Only atomic steps count. Blocks and the plain fields of metadata move with them, but belong
//!    to one thread at a time.
//!
//! Threads that share a cache, and lines that come from memory, are not in these figures.

use super::wrapped::{AtomicU32, Step};
use core::cell::UnsafeCell;
use core::panic::Location;
pub(crate) use core::sync::atomic::fence;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// There are no atomics that do not count.
pub(crate) mod plain {
    pub(crate) use super::super::wrapped::{
        AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    };
}

/// The most threads of a measurement.
pub const THREADS: usize = 256;
/// The threads of a node, as many as a word of [`Threads`] has.
pub const NEAR: usize = 64;
/// Bytes of a cache line.
const LINE: usize = 64;
/// The most lines of a measurement.
const LINES: usize = 1 << 17;

/// The most places in the source that make steps.
const SITES: usize = 1 << 12;

/// A line's row in the books.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    /// The address of the line. 0: the row is free.
    pub address: usize,
    /// Steps that wrote the line.
    pub writes: u64,
    /// Steps that found the line only in the caches of other threads.
    pub transfers: u64,
    /// Those of them that found it only in the caches of other nodes.
    pub far: u64,
    /// Exchanges that found another value than they expected.
    pub failed: u64,
    /// Where the program wrote the line first, or read it if it has not written it.
    pub place: Option<&'static Location<'static>>,
    /// The places that wrote the line, with the number of their writes. Further places count as
    /// the last one.
    pub written: [(Option<&'static Location<'static>>, u64); PLACES],
    /// The threads that wrote the line.
    writers: Threads,
    /// The threads that have the line in their caches.
    holders: Threads,
    has_written: bool,
    /// Threads that sleep until a word of the line is another one, and those of them that were
    /// woken.
    sleepers: u32,
    woken: u32,
}

/// A set of threads.
type Threads = [u64; THREADS / 64];

/// The places of a line that are told apart.
pub const PLACES: usize = 4;

const FREE: Line = Line {
    address: 0,
    writes: 0,
    transfers: 0,
    far: 0,
    failed: 0,
    place: None,
    written: [(None, 0); PLACES],
    writers: [0; THREADS / 64],
    holders: [0; THREADS / 64],
    has_written: false,
    sleepers: 0,
    woken: 0,
};

impl Line {
    /// The number of threads that wrote the line.
    pub fn writers(&self) -> u32 {
        self.writers.iter().map(|word| word.count_ones()).sum()
    }

    /// Enters a write.
    fn note_write(&mut self, place: &'static Location<'static>, (word, bit): (usize, u64)) {
        self.writes += 1;
        self.writers[word] |= bit;
        self.holders = [0; THREADS / 64];
        let known = self.written.iter().position(|(at, _)| at.is_none_or(|at| at == place));
        let written = &mut self.written[known.unwrap_or(PLACES - 1)];
        written.0.get_or_insert(place);
        written.1 += 1;
    }
}

/// What the steps of one place in the source cost.
#[derive(Debug, Clone, Copy)]
pub struct Site {
    /// None: the row is free.
    pub place: Option<&'static Location<'static>>,
    /// Steps there that write.
    pub writes: u64,
    /// Steps there that found the line only in the caches of other threads.
    pub transfers: u64,
    /// Exchanges there that found another value than they expected.
    pub failed: u64,
}

struct Books {
    lines: UnsafeCell<[Line; LINES]>,
    sites: UnsafeCell<[Site; SITES]>,
    /// Turns in which a thread waited for a lock.
    waits: UnsafeCell<u64>,
    /// What lets other threads have their turns before each step.
    between: UnsafeCell<Option<fn()>>,
}
// SAFETY: threads run in turn while the ledger is open (rule 1).
unsafe impl Sync for Books {}

static BOOKS: Books = Books {
    lines: UnsafeCell::new([FREE; LINES]),
    sites: UnsafeCell::new([Site { place: None, writes: 0, transfers: 0, failed: 0 }; SITES]),
    waits: UnsafeCell::new(0),
    between: UnsafeCell::new(None),
};
/// The thread whose turn it is.
static TURN: AtomicUsize = AtomicUsize::new(0);
static IS_OPEN: AtomicBool = AtomicBool::new(false);
/// False: the core is told that all threads are on node 0.
static HAS_NODES: AtomicBool = AtomicBool::new(false);

/// A barrier for the compiler alone, as in the usual build.
#[inline(always)]
pub(crate) fn light_fence() {
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
}

/// This thread waits for another one, which may have to have its turn for that.
pub(crate) fn spin() {
    if !wait() {
        core::hint::spin_loop();
    }
}

/// Lets other threads have their turns, as this one can only wait. False: turns are longer than
/// steps, so that nobody waits.
fn wait() -> bool {
    if !IS_OPEN.load(Relaxed) {
        return false;
    }
    // SAFETY: it is the calling thread's turn (rule 1), and the reference ends with this statement.
    unsafe { *BOOKS.waits.get() += 1 };
    pass_turn()
}

/// The row of a word that was touched before.
///
/// # Safety
/// It is the calling thread's turn, and no other reference to the row is used.
unsafe fn line_of(word: &AtomicU32) -> &'static mut Line {
    let address = word.as_ptr().addr() / LINE * LINE;
    // SAFETY: it is the calling thread's turn (rule 1), and the caller uses no other reference.
    row_of(unsafe { &mut *BOOKS.lines.get() }, address, |line| line.address == address)
}

/// Sleeps while the word is `value`, in place of the kernel's wait, as the thread that wakes this
/// one may need its turn. A limit of time does not count. False: turns are longer than steps, so
/// that nobody has to sleep.
pub(crate) fn sleep(word: &AtomicU32, value: u32) -> bool {
    if !wait() {
        return false;
    }
    // SAFETY: it is the calling thread's turn (rule 1), so nobody changes the word, and the
    // references to the row end with each statement, before a turn is passed.
    unsafe {
        if word.as_ptr().read() != value {
            return true;
        }
        line_of(word).sleepers += 1;
        while line_of(word).woken == 0 {
            pass_turn();
        }
        line_of(word).sleepers -= 1;
        line_of(word).woken -= 1;
    }
    true
}

/// Wakes one thread that sleeps by [`sleep`].
pub(crate) fn wake(word: &AtomicU32) {
    if IS_OPEN.load(Relaxed) {
        // SAFETY: it is the calling thread's turn (rule 1), and the reference ends with the block.
        let line = unsafe { line_of(word) };
        line.woken = line.sleepers.min(line.woken + 1);
    }
}

/// Lets other threads have their turns, and waits for the next one of this thread. False: turns do
/// not end between steps.
fn pass_turn() -> bool {
    // SAFETY: `set_between` is called while the ledger is closed, so nobody changes it now.
    let between = unsafe { *BOOKS.between.get() };
    between.map(|between| between()).is_some()
}

/// From now on `between` is called before each step while the ledger is open. It gives the turn to
/// another thread, and returns when it is the caller's again.
///
/// # Safety
/// The ledger is closed.
pub unsafe fn set_between(between: fn()) {
    // SAFETY: the ledger is closed, so nobody reads it.
    unsafe { *BOOKS.between.get() = Some(between) };
}

/// Says that the steps from now on are thread `thread`'s, a number below [`THREADS`].
pub fn begin_turn(thread: usize) {
    TURN.store(thread % THREADS, Relaxed);
}

/// Tells the core on which node each thread is, or that all are on node 0.
pub fn set_nodes(has_nodes: bool) {
    HAS_NODES.store(has_nodes, Relaxed);
}

/// The node of the thread whose turn it is, as the core is told.
pub fn node() -> u32 {
    if HAS_NODES.load(Relaxed) { (TURN.load(Relaxed) / NEAR) as u32 } else { 0 }
}

/// Opens or closes the ledger. Steps count while it is open.
pub fn set_open(is_open: bool) {
    IS_OPEN.store(is_open, Relaxed);
}

/// Sets all counts to 0. Which caches have which lines stays as it is.
///
/// # Safety
/// The ledger is closed.
pub unsafe fn clear() {
    // SAFETY: the ledger is closed, so nobody else uses the books.
    let (lines, sites) = unsafe { (&mut *BOOKS.lines.get(), &mut *BOOKS.sites.get()) };
    for line in lines {
        (line.writes, line.transfers, line.far, line.failed) = (0, 0, 0, 0);
        (line.written, line.writers) = (FREE.written, FREE.writers);
    }
    for site in sites {
        (site.writes, site.transfers, site.failed) = (0, 0, 0);
    }
    // SAFETY: the ledger is closed, so nobody else counts.
    unsafe { *BOOKS.waits.get() = 0 };
}

/// The lines that any thread has touched, and the places that touched them.
///
/// # Safety
/// The ledger is closed while the result is used.
pub unsafe fn read() -> (impl Iterator<Item = &'static Line>, impl Iterator<Item = &'static Site>) {
    // SAFETY: the ledger is closed, so nobody changes the books.
    let (lines, sites) = unsafe { (&*BOOKS.lines.get(), &*BOOKS.sites.get()) };
    (
        lines.iter().filter(|line| line.address != 0),
        sites.iter().filter(|site| site.place.is_some()),
    )
}

/// The turns in which a thread waited for a lock.
///
/// # Safety
/// The ledger is closed.
pub unsafe fn waits() -> u64 {
    // SAFETY: the ledger is closed, so nobody changes the books.
    unsafe { *BOOKS.waits.get() }
}

/// Enters an exchange that failed, after its step.
#[track_caller]
pub(super) fn failed(address: usize) {
    if !IS_OPEN.load(Relaxed) {
        return;
    }
    let (address, place) = (address / LINE * LINE, Location::caller());
    // SAFETY: it is the calling thread's turn (rule 1), and the references end with this call.
    let (lines, sites) = unsafe { (&mut *BOOKS.lines.get(), &mut *BOOKS.sites.get()) };
    row_of(lines, address, |line| line.address == address).failed += 1;
    let at = (&raw const *place).addr();
    row_of(sites, at, |site| site.place == Some(place)).failed += 1;
}

/// Enters a step in the books.
#[track_caller]
pub(super) fn before(address: usize, step: Step) {
    if !IS_OPEN.load(Relaxed) {
        return;
    }
    pass_turn();
    let (address, place) = (address / LINE * LINE, Location::caller());
    // SAFETY: it is the calling thread's turn (rule 1), and the references end with this call.
    let (lines, sites) = unsafe { (&mut *BOOKS.lines.get(), &mut *BOOKS.sites.get()) };
    let line = row_of(lines, address, |line| line.address == address || line.address == 0);
    let site =
        row_of(sites, (&raw const *place).addr(), |site| site.place.is_none_or(|at| at == place));
    let thread = TURN.load(Relaxed);
    let (word, bit) = (thread / 64, 1 << (thread % 64));
    let is_transfer = line.holders != [0; THREADS / 64] && line.holders[word] & bit == 0;
    let is_write = step == Step::Write;
    line.address = address;
    line.transfers += u64::from(is_transfer);
    line.far += u64::from(is_transfer && line.holders[word] == 0);
    if is_write {
        line.note_write(place, (word, bit));
    }
    line.holders[word] |= bit;
    if line.place.is_none() || is_write && !line.has_written {
        (line.place, line.has_written) = (Some(place), is_write);
    }
    site.place = Some(place);
    site.transfers += u64::from(is_transfer);
    site.writes += u64::from(is_write);
}

/// The row of a key, or the free row where it belongs: the first that `fits`. The books have room
/// for all keys of a measurement.
fn row_of<T>(rows: &mut [T], key: usize, fits: impl Fn(&T) -> bool) -> &mut T {
    let mut row = (key / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - rows.len().ilog2());
    while !fits(&rows[row]) {
        row = (row + 1) % rows.len();
    }
    &mut rows[row]
}
