//! How much address space the arenas reserve, and how they give unused space up before a limit
//! makes it scarce.
//!
//! A reservation counts against RLIMIT_AS. A process that lowers its limit could map nothing more.
//! So hakmem first unmaps the end of each arena that nobody uses, its *tail*. The arena then ends
//! behind its last used segment, or after an eighth of the limit, as if the limit had been there
//! from the start. If other maps of the process leave less room than that tail, it becomes shorter
//! still, but not shorter than 32 MiB: these maps may be more than the limit allows in any case.
//!
//! Tails go back, too, when a request finds no address space, and in `malloc_trim` where there is a
//! limit: the arenas that small blocks filled serve larger ones, or other maps, when these blocks
//! are free.
//!
//! Where the system has no room for a whole segment at its place, hakmem takes a *scrap*: up to 2
//! MiB, at any address. A scrap is an arena that owns only a part of its first and of its last
//! segment. The segment layer gets the slots that it owns.
//!
//! Why hakmem may unmap a tail while other threads run:
//! 1. No block lies in the tail. For a pointer elsewhere, the old and the new `HOT.limit` give the
//!    same answer.
//! 2. A later mapping may reuse the tail's addresses. A thread with a pointer into it has
//!    synchronised with the thread that unmapped the tail, by way of the kernel or of hakmem. So it
//!    reads the arena's new length.
//! 3. Hints of `segment` may name any segment that ever was in use. So the metadata of groups in
//!    use stays.
//! 4. The thread that lowers the limit holds the lock until the system has the new limit. So nobody
//!    makes an arena in between: it would be as large as the old limit allows. Under the lock the
//!    thread then maps as much as the tail has, and unmaps it again. At that moment another
//!    thread's map may fail. Behind a filter for system calls the tail stays as it is.

use super::layout::summary_bytes;
use super::*;

/// The first half of the arenas are at least so large …
const SMALLEST: usize = 4 << 20;
/// … and the others so large: under a limit, small ones are better than none, but they must not use
/// up all the places.
const SMALLEST_LATER: usize = 16 << 20;
/// A shorter tail is not halved to leave room for other maps.
const LEAST_HALVED: usize = 64 << 20;
/// The lengths of scraps, and the most scraps there may be: they must not use up all the places
/// either.
const SCRAPS: [usize; 4] = [SEGMENT, SEGMENT / 2, SEGMENT / 4, SEGMENT / 8];
const MOST_SCRAPS: usize = 8;
/// Behind the bitmaps of a scrap lies the metadata of its two segments.
const SCRAP_METAS: usize = SEGMENT_META;
/// Bytes of a guard of a scrap: in front of the bitmaps, behind the metadata and behind the slots.
const EDGE: usize = SEGMENT_META;
/// No process has more address space for itself than this.
pub const LARGEST: usize = 1 << 44;

/// The part of a limit that an arena reserves. The rest is for the program's own maps and for
/// further arenas.
fn share_of(limit: usize) -> usize {
    limit / 8
}

/// What an arena reserves when nobody asks for more. `limit` is the limit, or usize::MAX.
fn usual(physical_memory: usize, limit: usize) -> usize {
    physical_memory.saturating_mul(8).clamp(1 << 30, LARGEST).min(share_of(limit))
}

/// The least that an arena reserves when there are `arenas` already.
fn smallest(arenas: usize) -> usize {
    if arenas < MAX_ARENAS / 2 { SMALLEST } else { SMALLEST_LATER }
}

/// The limit of the address space when an arena was made last, or when the program lowered it.
/// `usize::MAX`: none. To ask again takes a system call, which a filter may not allow.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// True if the process has a limit of its address space, as far as hakmem knows.
pub fn is_limited() -> bool {
    LIMIT.load(Relaxed) != usize::MAX
}

/// What `reserve_some` returns.
pub struct Reservation {
    pub base: usize,
    pub len: usize,
    pub segments: usize,
    /// True if address space is scarce.
    pub is_scarce: bool,
}

/// Reserves room for at least `least` bytes of segments, at best for eight times the physical
/// memory. Returns the reservation. None: the system has no room. `least` is at most LARGEST.
pub fn reserve_some(least: usize) -> Option<Reservation> {
    // Behind a filter the system is not asked.
    let limit = if os::is_filtered() { LIMIT.load(Relaxed) } else { os::address_limit() };
    LIMIT.store(limit, Relaxed);
    let is_scarce = limit != usize::MAX || COUNT.load(Relaxed) > 0;
    let smallest = least.max(smallest(COUNT.load(Relaxed).into()));
    let wanted = usual(os::physical_memory(), limit).max(smallest);
    // From the third arena on, a request that is larger than an arena usually is may be followed by
    // larger ones, and there are not many places.
    let more = if COUNT.load(Relaxed) > 1 && wanted == least { least / 2 } else { 0 };
    let mut bytes = (wanted + more).min(LARGEST).next_multiple_of(SEGMENT);
    loop {
        let segments = bytes / SEGMENT;
        let groups = segments.div_ceil(GROUP) * size_of::<Group>()
            + summary_bytes(segments)
            + align_of::<Group>();
        let total = groups + 2 * SLOT + segments * SEGMENT_META + SEGMENT + bytes + 3 * GUARD;
        if let Some(base) = os::reserve(total) {
            RESERVED.fetch_add(total, Relaxed);
            return Some(Reservation { base, len: total, segments, is_scarce });
        }
        if bytes <= smallest {
            return None;
        }
        bytes = (bytes / 2).max(smallest).next_multiple_of(SEGMENT);
    }
}

/// Unmaps a part of a reservation that nobody uses. If the system refuses (no room for another
/// map), the part stays for ever.
pub fn give_up(at: usize, len: usize) {
    if os::unreserve(at, len) {
        RESERVED.fetch_sub(len, Relaxed);
    }
}

/// Gives tails up, and calls `set`, which limits the address space to `limit` bytes (rule 4). `set`
/// neither allocates nor frees. O(groups in use + committed segments of the tails), and a few calls
/// of the system.
pub fn fit_limit<R>(limit: usize, set: impl FnOnce() -> R) -> R {
    let _held = LOCK.lock();
    LIMIT.store(limit, Relaxed);
    give_tails(limit);
    let result = set();
    leave_as_much();
    result
}

/// Halves the first arena's tail until other maps have as much address space left, or until the
/// tail is short. The caller holds the lock.
fn leave_as_much() {
    let Some(first) = all().next() else { return };
    loop {
        let (end, more) = first.tail(0);
        if more < LEAST_HALVED / SEGMENT || os::is_filtered() || has_room(more * SEGMENT) {
            return;
        }
        first.give_tail_up(end + more / 2, true);
    }
}

/// True if the process can map `n` bytes more.
fn has_room(n: usize) -> bool {
    let Some(at) = os::reserve(n) else { return false };
    if !os::unreserve(at, n) {
        RESERVED.fetch_add(n, Relaxed); // It stays for ever.
    }
    true
}

/// Gives tails up, so that there is address space for a request of `n` bytes, or for other maps of
/// the process. Only if there is a limit or a second arena, and if the tails are a quarter of `n`
/// or more. What is given up comes back as a part of a new arena, and a process has few of them: so
/// half of the places stay. False: nothing was given up. O(groups in use + committed segments of
/// the tails).
pub fn make_room(n: usize) -> bool {
    let _held = LOCK.lock();
    let (count, limit) = (usize::from(COUNT.load(Relaxed)), LIMIT.load(Relaxed));
    let tails = all().enumerate().map(|(i, arena)| arena.tail(least(i, limit)).1);
    let is_worth_it = tails.sum::<usize>() * SEGMENT >= (n / 4).max(SMALLEST);
    let gives = count < MAX_ARENAS / 2 && is_worth_it;
    if gives {
        give_tails(limit);
    }
    gives
}

/// The segments that arena `i` keeps at least.
fn least(i: usize, limit: usize) -> usize {
    if i == 0 { share_of(limit) / SEGMENT } else { 0 }
}

/// Gives the tails of all arenas up. The caller holds the lock.
fn give_tails(limit: usize) {
    for (i, arena) in all().enumerate() {
        arena.give_tail_up(least(i, limit), i == 0);
    }
}

/// Gives tails up whole, because the arenas have nothing more to give. O(groups in use + committed
/// segments of the tails).
pub fn give_tails_up() {
    let _held = LOCK.lock();
    give_tails(0);
}

/// Makes an arena of what is left of the address space, with at least `n` slots. Returns the arena,
/// and the first slot and the end of those that it owns. The slots are accessible, zero and the
/// caller's. No segment of the arena is ever free.
#[cold]
pub fn take_scrap(n: usize) -> Option<(&'static Arena, usize, usize)> {
    let _held = LOCK.lock();
    let count = COUNT.load(Relaxed);
    let arena = ARENAS.get(usize::from(count))?;
    let is_scrap = |a: &&Arena| a.from.load(Relaxed) != 0;
    if all().filter(is_scrap).count() >= MOST_SCRAPS || os::page_size() > EDGE {
        return None;
    }
    let books = SCRAP_METAS + 2 * SEGMENT_META;
    let front = EDGE + books + EDGE;
    let mut lengths = SCRAPS.into_iter().filter(|&len| len >= front + (n + 1) * SLOT + EDGE);
    let (base, len) = lengths.find_map(|len| Some((os::reserve(len)?, len)))?;
    RESERVED.fetch_add(len, Relaxed);
    let data = base & !(SEGMENT - 1);
    let (first, end) = ((base + front - data).div_ceil(SLOT), (base + len - EDGE - data) / SLOT);
    let slots = end.saturating_sub(first);
    if slots < n
        || !os::commit(base + EDGE, books)
        || !os::commit(data + first * SLOT, slots * SLOT)
    {
        give_up(base, len);
        return None;
    }
    let base = base + EDGE;
    COMMITTED.fetch_add(books + slots * SLOT, Relaxed);
    let segments = end.div_ceil(SEGMENT / SLOT);
    let groups = (base + summary_bytes(segments)).next_multiple_of(align_of::<Group>());
    arena.summary.store(at(base).cast(), Relaxed);
    arena.groups.store(at(groups).cast(), Relaxed);
    arena.metas.store(at(base + SCRAP_METAS), Relaxed);
    arena.data.store(data, Relaxed);
    for field in [&arena.reserved, &arena.segments, &arena.known] {
        field.store(segments, Relaxed);
    }
    arena.from.store(first, Relaxed);
    arena.cut.store(segments * (SEGMENT / SLOT) - end, Relaxed);
    arena.top.store(1, Release);
    arena.bits(Set::Used).insert(0, segments);
    COUNT.store(count + 1, Release);
    Some((arena, first, end))
}

impl Arena {
    /// The segments behind the last used one and behind the first `least`: where they begin, and
    /// how many they are. The caller holds the lock.
    fn tail(&self, least: usize) -> (usize, usize) {
        let used = self.bits(Set::Used);
        let used = used.last_in(0, used.end()).map_or(0, |last| last + 1);
        let end = used.max(least);
        (end, self.segments.load(Relaxed).saturating_sub(end))
    }

    /// Ends the arena behind its last used segment or after `least` segments, whichever is later,
    /// if it is longer. The caller holds the lock.
    pub(super) fn give_tail_up(&self, least: usize, is_hot: bool) {
        let (end, more) = self.tail(least);
        if more == 0 {
            return;
        }
        let (segments, known) = (end + more, self.known.load(Relaxed));
        let (known_end, committed) = (self.bits(Set::Used).end(), self.bits(Set::Committed));
        self.segments.store(end, Relaxed);
        if is_hot {
            HOT.set_limit(end * SEGMENT);
        }
        let tail = segments.min(known_end);
        if end < tail {
            COMMITTED.fetch_sub(committed.count(end, tail) * SEGMENT, Relaxed);
            committed.remove(end, tail - end);
        }
        let whole_pages = (os::page_size() / SEGMENT_META).max(1);
        let stays = end.max(known_end).next_multiple_of(whole_pages).min(known);
        self.known.store(stays, Relaxed);
        if stays < known {
            give_up(
                self.metas.load(Relaxed).addr() + stays * SEGMENT_META,
                (known - stays) * SEGMENT_META,
            );
        }
        give_up(self.data.load(Relaxed) + end * SEGMENT, (segments - end) * SEGMENT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: usize = 1 << 30;

    #[test]
    fn as_much_is_reserved_as_the_machine_and_the_limit_allow() {
        for (physical, limit, expected) in [
            (16 * GIB, usize::MAX, 128 * GIB),
            (GIB / 16, usize::MAX, GIB),
            (usize::MAX, usize::MAX, LARGEST),
            (16 * GIB, 24 * GIB, 3 * GIB),
            (16 * GIB, 0, 0),
        ] {
            assert_eq!(usual(physical, limit), expected);
        }
    }

    #[test]
    fn small_arenas_do_not_use_up_all_the_places() {
        let all = [0, 31, 32, 33, 63].map(smallest);
        assert_eq!(all.map(|bytes| bytes >> 20), [4, 4, 16, 16, 16]);
    }
}
