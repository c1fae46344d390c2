//! The reader of other processes before a process that is none: bytes at addresses, which an input
//! forges. For the fuzz target `note`, and the test below, which does the same with inputs of its
//! own.

use crate::checked::Budget;
use crate::map::{draw, model::Map};
use crate::top::{batch, rates::History, screen};
use crate::view::{self, Usage, segments::Resident, source::*};
use ratatui::{Terminal, backend::TestBackend};
use std::io;
use std::time::{Duration, Instant};

/// Where the file with the note is mapped, where its variables are, and where the arena.
const FILE: u64 = 0x5000_0000;
const DATA: u64 = 0x6000_0000;
const ARENA: u64 = 0x7000_0000;

/// What the note says of the layout. Places are offsets in the data.
const PLACES: &[(&str, u64)] = &[
    ("heaps", 0),
    ("heaps_made", 8),
    ("huge_live", 16),
    ("live", 16),
    ("peak_live", 24),
    ("heapless_frees", 32),
    ("stray_large_frees", 40),
    ("parked_fresh_slots", 48),
    ("dirty", 56),
    ("purged", 64),
    ("held", 64),
    ("refused", 88),
    ("option.HARD_LIMIT_MIB", 96),
    ("huge_cached", 72),
    ("huge_allocated", 80),
    ("huge_returned", 88),
    ("huge_hits", 96),
    ("foreign_frees", 104),
    ("reserved", 112),
    ("committed", 120),
    ("arena_count", 128),
    ("arenas", ARENAS),
    ("sizes", 168),
    ("moved", 176),
    ("before", 248),
    ("peak_of_class", 296),
    ("parked_returned", 312),
    ("parked_given", 328),
    ("parked_received", 344),
    ("parked_whole", 344),
    ("syscalls", 360),
    ("decisions", 408),
];
/// Behind what most of [`PLACES`] names: the group, the heaps, the metadata of four segments, an
/// arena, and the row of its groups that are used as a whole.
const GROUP: u64 = 624;
const HEAPS: [u64; 2] = [640, 936];
const METAS: u64 = 1232;
const META: u64 = 48;
const ARENAS: u64 = METAS + 4 * 32 * META;
const FULL: u64 = ARENAS + 48;
const DATA_BYTES: usize = FULL as usize + 8;

const NUMBERS: &[(&str, u64)] = &[
    ("classes", 2),
    ("events", 9),
    ("half", 1 << 31),
    ("slot_bytes", 64 << 10),
    ("segment_bytes", 2 << 20),
    ("meta_bytes", META),
    ("heap_bytes", 296),
    ("first_long", 1),
    ("list_bytes", 16),
    ("list.until_slow", 8),
    ("list.most", 12),
    ("arena_bytes", 48),
    ("group_bytes", 8),
    ("before_bytes", 24),
    ("syscall_kinds", 2),
    ("syscall_bytes", 24),
    ("syscall.mmap", 0),
    ("syscall.futex", 1),
    ("decisions_kept", 2),
    ("decisions.made", 0),
    ("decisions.records", 8),
    ("decision_bytes", 104),
    ("decision.number", 0),
    ("decision.time", 8),
    ("decision.option", 16),
    ("decision.at_ms", 24),
    ("decision.from", 32),
    ("decision.to", 40),
    ("decision.round_ms", 48),
    ("decision.from_fault_us", 56),
    ("decision.from_hold_us", 64),
    ("decision.to_fault_us", 72),
    ("decision.to_hold_us", 80),
    ("decision.from_rating", 88),
    ("decision.to_rating", 96),
    ("learnt.DECAY_MS", 0),
    ("event.listed", 0),
    ("event.takes", 1),
    ("event.carves", 2),
    ("event.filled", 3),
    ("event.unfulled", 4),
    ("event.claims", 5),
    ("event.reuses", 6),
    ("event.empties", 7),
    ("event.received", 8),
    ("before.blocks", 0),
    ("before.pages", 8),
    ("heap.next", 0),
    ("heap.lists", 256),
    ("heap.reused", 288),
    ("heap.existing", 24),
    ("heap.events", 40),
    ("heap.moved", 112),
    ("heap.state", 148),
    ("heap.next_pages", 152),
    ("heap.unparked", 160),
    ("heap.merges", 168),
    ("heap.live", 176),
    ("heap.large_fresh", 176),
    ("heap.large_hits", 184),
    ("heap.large_freed", 192),
    ("heap.sent", 200),
    ("heap.batches_sent", 208),
    ("heap.chains_sent", 216),
    ("heap.huge_hits", 224),
    ("heap.huge_puts", 232),
    ("heap.huge_kept", 240),
    ("heap.huge_allowed", 248),
    ("meta.owner", 0),
    ("meta.slots", 8),
    ("meta.list.until_slow", 16),
    ("meta.carved", 20),
    ("meta.cap", 24),
    ("meta.span", 28),
    ("meta.reserve", 32),
    ("meta.unfull_at", 36),
    ("meta.class", 40),
    ("meta.state", 41),
    ("meta.park_at", 42),
    ("meta.kind", 43),
    ("meta.thp", 44),
    ("arena.data", 0),
    ("arena.groups", 8),
    ("arena.metas", 16),
    ("arena.top", 24),
    ("arena.reserved", 32),
    ("arena.summary", 40),
    ("summary.full", 0),
    ("group.used", 0),
    ("segments_of_group", 64),
];

/// Bytes of an input for each thing that is forged.
const EDIT: usize = 11;

/// A process that is none.
struct Image {
    pieces: [(u64, Vec<u8>); 3],
    /// Where the values of the note's entries are in the file.
    entries: Vec<usize>,
}

impl Image {
    /// Two heaps, one of which has a list of two blocks in a page of which a third block is out; a
    /// large block; a huge block.
    fn new() -> Self {
        let (file, entries) = file();
        let mut data = vec![0; DATA_BYTES];
        let mut put = |at: u64, value: u64, bytes: usize| {
            data[at as usize..][..bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
        };
        let place = |name| PLACES.iter().find(|p| p.0 == name).map_or(0, |p| p.1);
        put(place("heaps"), DATA + HEAPS[0], 8);
        put(place("heaps_made"), 2, 8);
        put(place("huge_live"), 5 << 20, 8);
        put(place("arena_count"), 1, 1);
        for (field, value) in [ARENA, DATA + GROUP, DATA + METAS, 1, 4, DATA + FULL]
            .into_iter()
            .enumerate()
        {
            put(place("arenas") + 8 * field as u64, value, 8);
        }
        put(place("sizes"), 16, 4);
        put(place("sizes") + 4, 64, 4);
        put(place("decisions"), 1, 8);
        for (word, value) in [2, 1000, 0, 900, 250, 500].into_iter().enumerate() {
            put(place("decisions") + 8 + 8 * word as u64, value, 8);
        }
        // A segment of slots, a huge block of two, and one that is kept.
        put(GROUP, 0b1111, 8);
        put(HEAPS[0], DATA + HEAPS[1], 8);
        put(HEAPS[0] + 256 + 16, ARENA + (64 << 10), 8);
        put(HEAPS[0] + 32, 3, 8);
        put(HEAPS[0] + 40 + 4 * 9, 3, 4);
        put(HEAPS[0] + 40 + 4 * (9 + 2), 1, 4);
        put(HEAPS[0] + 148, 1 << 31, 4);
        let mut meta = |segment: u64, slot: u64, fields: &[(u64, u64, usize)]| {
            for &(at, value, bytes) in fields {
                put(METAS + (segment * 32 + slot) * META + at, value, bytes);
            }
        };
        meta(
            0,
            0,
            &[(8, 0b1_0000_0000_0111 | 1 << 45, 8), (43, 5, 1), (28, 1, 4)],
        );
        let page = [(0, 1, 8), (16, 3, 4), (20, 3, 4), (24, 1024, 4), (28, 1, 4)];
        meta(0, 1, &page);
        meta(0, 1, &[(40, 1, 1), (43, 1, 1)]);
        meta(0, 2, &[(43, 3, 1), (28, 10, 4)]);
        meta(1, 0, &[(43, 4, 1), (28, 2, 4), (32, 2, 4), (44, 1, 1)]);
        let mut list = vec![0; 4096];
        list[..8].copy_from_slice(&(ARENA + (64 << 10) + 64).to_le_bytes());
        Self {
            pieces: [(FILE, file), (DATA, data), (ARENA + (64 << 10), list)],
            entries,
        }
    }

    /// Forges it as an input says: what, where, and a value of eight bytes, again and again.
    fn forge(&mut self, input: &[u8]) {
        for edit in input.chunks_exact(EDIT) {
            let at = usize::from(u16::from_le_bytes([edit[1], edit[2]]));
            let value = &edit[3..];
            let mut put = |piece: usize, at: usize, bytes: &[u8]| {
                let piece = &mut self.pieces[piece].1;
                let at = at % piece.len().max(1);
                let room = piece.len() - at;
                piece[at..][..bytes.len().min(room)]
                    .copy_from_slice(&bytes[..bytes.len().min(room)]);
            };
            match edit[0] % 8 {
                0..4 => put(0, self.entries[at % self.entries.len()], value),
                4 => put(1, at, value),
                5 => put(1, at / 8 * 8, value),
                6 => put(2, at / 8 * 8, value),
                _ => put(0, at, &value[..1]),
            }
        }
    }
}

/// The file as it is mapped: its head, and the note.
fn file() -> (Vec<u8>, Vec<usize>) {
    const NOTE: usize = 64 + 2 * 56;
    let places = PLACES
        .iter()
        .map(|&(name, at)| (format!("@{name}"), DATA + at));
    let numbers = NUMBERS.iter().map(|&(name, n)| (name.to_owned(), n));
    let (mut entries, mut description) = (Vec::new(), Vec::new());
    for (name, value) in places.chain(numbers) {
        description.extend(name.bytes().chain([0]));
        let at = NOTE + 20 + description.len();
        entries.push(at);
        let base = if name.starts_with('@') {
            FILE + at as u64
        } else {
            0
        };
        description.extend(value.wrapping_sub(base).to_le_bytes());
    }
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let note = 20 + description.len() as u64;
    for (value, bytes) in [
        (3, 2),
        (62, 2),
        (1, 4),
        (0, 8),
        (64, 8),
        (0, 8),
        (0, 4),
        (64, 2),
        (56, 2),
        (2, 2),
        (0, 6),
        // PT_LOAD, PT_NOTE: type, flags, offset, address twice, sizes, alignment.
        (1, 4),
        (4, 4),
        (0, 8),
        (0, 8),
        (0, 8),
        (1 << 16, 8),
        (1 << 16, 8),
        (4096, 8),
        (4, 4),
        (4, 4),
        (NOTE as u64, 8),
        (NOTE as u64, 8),
        (0, 8),
        (note, 8),
        (note, 8),
        (4, 8),
        (7, 4),
        (note - 20, 4),
        (1, 4),
    ] {
        file.extend(&u64::to_le_bytes(value)[..bytes]);
    }
    file.extend(b"hakmem\0\0");
    file.extend(description);
    file.resize(8192, 0);
    (file, entries)
}

impl Source for Image {
    fn read(&self, address: u64, to: &mut [u8]) -> io::Result<()> {
        let found = self.pieces.iter().find_map(|(start, bytes)| {
            let at = usize::try_from(address.checked_sub(*start)?).ok()?;
            bytes.get(at..at.checked_add(to.len())?)
        });
        let found = found.ok_or(io::Error::from_raw_os_error(libc::EFAULT))?;
        to.copy_from_slice(found);
        Ok(())
    }

    fn each_file(&self, each: &mut dyn FnMut(u64)) -> io::Result<()> {
        each(FILE);
        Ok(())
    }

    fn page_map(&self) -> io::Result<PageMap> {
        Ok(Box::new(|_, to| {
            to.fill(0xff);
            Ok(())
        }))
    }
}

/// Looks at the process that `input` forges, as `hakmem top` and `hakmem map` do. None: they
/// refuse.
pub fn look(input: &[u8]) -> Option<String> {
    let mut image = Image::new();
    image.forge(input);
    let usage = Usage {
        name: "forged".into(),
        ..Usage::default()
    };
    let seen = with(&image, |memory, note| {
        view::look_at(memory, note, 7, &usage)
    });
    let text = seen.map(|seen| {
        let mut history = History::default();
        let mut terminal = Terminal::new(TestBackend::new(100, 30)).expect("a terminal");
        let mut state = screen::State::new(1.0);
        history.add(seen.clone(), Instant::now());
        history.add(seen, Instant::now() + Duration::from_secs(1));
        state.page = screen::Page::ALL[input.len() / EDIT % 4];
        let drawn = terminal.draw(|frame| screen::draw(frame, &mut state, &history, 5000));
        drawn.expect("it is drawn");
        let narrow = crate::terminal::Terminal {
            width: 50,
            without: "| cat",
        };
        batch::text(&history, 5000, None) + &batch::text(&history, 5000, Some(narrow))
    });
    let found = with(&image, view::segments_of);
    if let Some(found) = found {
        let resident = Resident::of(&image).ok();
        let map = Map::seen(found, 7, usage, resident.as_ref());
        let svg = draw::svg(&map);
        assert_shown(&svg);
        let json = serde_json::to_string(&map).expect("JSON");
        let again = Map::parse(&json).expect("what is written can be read");
        assert_eq!(draw::svg(&again), svg);
    }
    text.inspect(|text| assert_shown(text))
}

fn with<R>(image: &Image, f: impl Fn(Memory, &Note) -> io::Result<R>) -> Option<R> {
    let budget = Budget::new(IN_ALL, "bytes");
    let memory = Memory {
        source: image,
        budget: &budget,
    };
    let note = view::best_note(memory).ok()??;
    f(memory, &note).ok()
}

fn assert_shown(text: &str) {
    let hidden = text.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(hidden, None, "{text:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the inputs below forge is read whole as it is.
    #[test]
    fn a_process_of_bytes_is_shown() {
        let text = look(&[]).expect("nothing is refused");
        for line in [
            "heaps          2, of which threads have 1",
            "segments       1 of slots, 2 of huge blocks, 1 in the huge cache",
            "    64  64 B      0  99.9 %            1       0.0      0          -      0.0 %",
            "     4.0 s ago  DECAY_MS 250 to 500",
        ] {
            assert!(text.contains(line), "no {line} in {text}");
        }
    }

    #[test]
    fn a_list_in_a_circle_has_an_end() {
        // The second block of the list leads to the first.
        let mut circle = vec![6, 64, 0];
        circle.extend((ARENA + (64 << 10)).to_le_bytes());
        let text = look(&circle).expect("nothing is refused");
        assert!(
            text.contains("lists changed, or were too many to follow"),
            "{text}"
        );
        let heaps = [
            &[5][..],
            &(HEAPS[1] as u16).to_le_bytes(),
            &(DATA + HEAPS[0]).to_le_bytes(),
        ];
        assert_eq!(look(&heaps.concat()), None);
    }

    /// Numbers that forgers like, and any.
    #[test]
    fn hundreds_of_forgeries_do_no_harm() {
        const LIKED: [u64; 24] = [
            0,
            1,
            2,
            3,
            7,
            8,
            63,
            64,
            65,
            255,
            4095,
            4096,
            0xffff,
            1 << 20,
            1 << 31,
            0xffff_ffff,
            1 << 32,
            1 << 47,
            1 << 63,
            u64::MAX,
            u64::MAX - 7,
            FILE,
            DATA,
            ARENA,
        ];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let (mut shown, mut refused) = (0, 0);
        for _ in 0..600 {
            let mut input = Vec::new();
            for _ in 0..random() % 4 + 1 {
                input.extend(&random().to_le_bytes()[..3]);
                let value = match random() % 4 {
                    0 => random() >> (random() % 64),
                    _ => LIKED[random() as usize % LIKED.len()],
                };
                input.extend(value.to_le_bytes());
            }
            match look(&input) {
                Some(_) => shown += 1,
                None => refused += 1,
            }
        }
        assert!(
            shown > 100 && refused > 100,
            "{shown} shown, {refused} refused"
        );
    }
}
