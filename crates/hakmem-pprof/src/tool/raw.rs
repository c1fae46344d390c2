//! What the library writes: the text form of gperftools' heap profiles, with a line of our own. A
//! file may hold several, one after the other.

use super::checked::{self, Lines};
use std::collections::HashMap;
use std::io::BufRead;
use std::ops::RangeInclusive;

/// The versions of our own line that this program reads. The first had no samples at longer
/// intervals.
const SCHEMAS: RangeInclusive<u32> = 1..=2;

/// Bytes of a line. Samples of a profile, addresses in their stacks, and maps.
const LINE: usize = 1 << 20;
const SAMPLES: usize = 1 << 19;
const ADDRESSES: usize = 1 << 22;
const MAPS: usize = 1 << 16;
const PATH: usize = 4096;
/// No program has so much of anything: neither bytes of a block or between samples, nor samples of
/// a stack. No address of a program is larger.
const MOST: u64 = 1 << 56;
const MOST_SAMPLES: u64 = 1 << 40;

/// One profile.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Raw {
    pub pid: u32,
    pub event: String,
    /// Bytes between samples, on average, unless they came too fast.
    pub interval: u64,
    /// Samples that there was no memory for.
    pub lost: u64,
    /// An address of the allocator's own code.
    pub own: u64,
    pub samples: Vec<Sample>,
    pub maps: Vec<Map>,
}

/// Samples of blocks of one size by one stack.
#[derive(Debug, PartialEq, Eq)]
pub struct Sample {
    pub size: u64,
    /// Bytes between samples, on average, when these were drawn.
    pub interval: u64,
    pub live: u64,
    pub all: u64,
    /// Return addresses, nearest first.
    pub stack: Vec<u64>,
}

/// A part of a file that is mapped for execution.
#[derive(Debug, PartialEq, Eq)]
pub struct Map {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub path: String,
}

/// The last whole profile of a file, of process `pid` if it is given. A process that was killed
/// while it wrote, or found no room, left a part of one: others are read all the same. The error
/// names the first line that cannot be read, if there is no whole profile.
pub fn last(text: impl BufRead, pid: Option<u32>) -> Result<Option<Raw>, String> {
    const HEADER: &str = "heap profile:";
    let mut lines = Lines::new(text, LINE);
    let (mut last, mut open, mut why) = (None, None::<Open>, None);
    let whole = |open: Option<Open>| {
        // What is cut off behind that is a map.
        let open = open.filter(|open| open.maps && pid.is_none_or(|pid| open.raw.pid == pid));
        open.map(|open| open.raw)
    };
    let mut number = 0;
    loop {
        number += 1;
        let read = lines.next().map_err(|e| format!("line {number}: {e}"))?;
        let Some(line) = read else {
            let is_cut = open.as_ref().is_some_and(|open| !open.maps);
            let cut = is_cut.then(|| format!("line {number}: the profile ends before its maps"));
            return match whole(open).or(last) {
                None => why.or(cut).map_or(Ok(None), Err),
                found => Ok(found),
            };
        };
        // It may lie behind a line that was not finished.
        if let Some(at) = line.find(HEADER) {
            last = whole(open.take()).or(last);
            open = Open::new(&line[at + HEADER.len()..]);
        } else if line.trim().is_empty() {
            continue;
        } else if let Some(mut this) = open.take() {
            open = this.line(line).map(|()| this);
            let is_too_long = |open: &Open| {
                open.raw.samples.len() > SAMPLES
                    || open.addresses > ADDRESSES
                    || open.raw.maps.len() > MAPS
            };
            if open.as_ref().is_some_and(is_too_long) {
                return Err(format!("line {number}: the profile is too long"));
            }
        }
        if open.is_none() && why.is_none() {
            why = Some(format!(
                "line {number} cannot be read as one of a heap profile"
            ));
        }
    }
}

/// A profile that is being read.
struct Open {
    raw: Raw,
    /// Its samples are over.
    maps: bool,
    longer: Option<Drawn>,
    /// In its stacks so far.
    addresses: usize,
}

impl Open {
    fn new(header: &str) -> Option<Self> {
        let (_, interval) = header.rsplit_once("@ heap_v2/")?;
        let raw = Raw {
            interval: interval_of(interval.trim())?,
            ..Raw::default()
        };
        Some(Self {
            raw,
            maps: false,
            longer: None,
            addresses: 0,
        })
    }

    fn line(&mut self, line: &str) -> Option<()> {
        if let Some(fields) = line.strip_prefix("# hakmem ") {
            self.raw.read_fields(fields)?;
        } else if let Some(fields) = line.strip_prefix("# at ") {
            self.longer = Some(Drawn::read(fields)?);
        } else if line == "MAPPED_LIBRARIES:" {
            self.maps = true;
        } else if self.maps {
            // The last may be cut. They are in order, and none lies over another.
            let behind = self.raw.maps.last().map_or(0, |m| m.end);
            let map = Map::read(line).filter(|map| map.start >= behind);
            self.raw.maps.extend(map);
        } else {
            let as_read = sample(line, self.raw.interval)?;
            self.addresses += as_read.stack.len();
            self.raw.samples.push(match self.longer.take() {
                Some(drawn) => Sample {
                    interval: drawn.interval,
                    live: drawn.live,
                    all: drawn.all,
                    ..as_read
                },
                None => as_read,
            });
        }
        Some(())
    }
}

/// A number of bytes: of a block, or between samples.
fn interval_of(text: &str) -> Option<u64> {
    text.parse().ok().filter(|n| (1..=MOST).contains(n))
}

/// Samples that are live, of all of a stack.
fn samples(live: u64, all: u64) -> Option<(u64, u64)> {
    (live.max(all) <= MOST_SAMPLES).then_some((live, all))
}

impl Raw {
    fn read_fields(&mut self, fields: &str) -> Option<()> {
        let (schema, fields) = fields.split_once(' ')?;
        if !SCHEMAS.contains(&schema.parse().ok()?) {
            return None;
        }
        let fields: HashMap<_, _> = fields
            .split(' ')
            .filter_map(|f| f.split_once('='))
            .collect();
        self.pid = fields.get("pid")?.parse().ok()?;
        self.event = checked::name(fields.get("event")?);
        self.lost = fields.get("lost")?.parse().ok()?;
        self.own = hex(fields.get("own")?)?;
        Some(())
    }
}

/// Samples that were drawn with a longer interval than the header's. The line after this one has
/// them as if they had been drawn with that.
struct Drawn {
    interval: u64,
    live: u64,
    all: u64,
}

impl Drawn {
    /// `INTERVAL: LIVE [ALL]`
    fn read(fields: &str) -> Option<Self> {
        let (interval, counts) = fields.split_once(": ")?;
        let (live, all) = counts.strip_suffix(']')?.split_once(" [")?;
        let interval = interval_of(interval)?;
        let (live, all) = samples(live.parse().ok()?, all.parse().ok()?)?;
        Some(Self {
            interval,
            live,
            all,
        })
    }
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

fn sample(line: &str, interval: u64) -> Option<Sample> {
    let (counts, stack) = line.split_once('@')?;
    let counts: Vec<u64> = counts
        .split([' ', ':', '[', ']'])
        .filter(|n| !n.is_empty())
        .map(|n| n.parse().ok())
        .collect::<Option<_>>()?;
    let [live, _, all, bytes] = counts[..] else {
        return None;
    };
    let stack = stack.split_whitespace().map(hex);
    let stack = stack.collect::<Option<Vec<_>>>()?;
    let (live, all) = samples(live, all)?;
    let size = bytes.checked_div(all).filter(|&size| size <= MOST)?;
    Some(Sample {
        // A block of no bytes is one of a byte to the sampler.
        size: size.max(1),
        interval,
        live,
        all,
        stack,
    })
}

impl Map {
    /// A line of /proc/PID/maps.
    pub fn read(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let offset = words.nth(1)?;
        let path = words.skip(2).collect::<Vec<_>>().join(" ");
        let map = Self {
            start: hex(start)?,
            end: hex(end)?,
            offset: hex(offset)?,
            path: checked::text(&path, PATH),
        };
        (map.start < map.end && map.end <= MOST && map.offset <= MOST).then_some(map)
    }
}

impl Sample {
    /// How many allocations each sample stands for: one of `size` bytes is a sample with
    /// probability 1 − exp(−size / interval).
    pub fn weight(&self) -> f64 {
        1.0 / -(-(self.size as f64) / self.interval as f64).exp_m1()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
heap profile: 1: 48 [3: 144] @ heap_v2/4096
# hakmem 2 pid=77 event=exit on=1 lost=2 own=0x7f00
# at 16384: 1 [2]
4: 192 [8: 384] @ 0x55aa 0x55bb
1: 48 [3: 144] @ 0x55aa 0x55bb
0: 0 [1: 100] @

MAPPED_LIBRARIES:
5500-5600 r-xp 00001000 fe:00 1234                       /usr/bin/a b
7f00-8000 r-xp 00000000 00:00 0
9000-90
heap profile: 0: 0 [0: 0] @ heap_v2/1
# hakmem 1 pid=78 event=signal on=0 lost=0 own=0x1 later=1

MAPPED_LIBRARIES:
";

    #[test]
    fn profiles_are_read() {
        let read = |pid| last(TEXT.as_bytes(), pid).unwrap();
        let first = &read(Some(77)).unwrap();
        assert_eq!(read(None), read(Some(78)));
        assert_eq!(read(Some(79)), None);
        assert_eq!(
            (
                first.pid,
                &*first.event,
                first.interval,
                first.lost,
                first.own
            ),
            (77, "exit", 4096, 2, 0x7f00)
        );
        let stacks = [
            Sample {
                size: 48,
                interval: 16384,
                live: 1,
                all: 2,
                stack: vec![0x55aa, 0x55bb],
            },
            Sample {
                size: 48,
                interval: 4096,
                live: 1,
                all: 3,
                stack: vec![0x55aa, 0x55bb],
            },
            Sample {
                size: 100,
                interval: 4096,
                live: 0,
                all: 1,
                stack: vec![],
            },
        ];
        assert_eq!(first.samples, stacks);
        let maps = [
            Map {
                start: 0x5500,
                end: 0x5600,
                offset: 0x1000,
                path: "/usr/bin/a b".into(),
            },
            Map {
                start: 0x7f00,
                end: 0x8000,
                offset: 0,
                path: String::new(),
            },
        ];
        assert_eq!(first.maps, maps);
        let second = read(None).unwrap();
        assert_eq!((second.interval, second.samples.len()), (1, 0));
    }

    /// A process was killed while it wrote, or the disk was full.
    #[test]
    fn a_part_of_a_profile_leaves_the_others_readable() {
        let first = TEXT.find("MAPPED").unwrap();
        for cut in 1..first {
            let part = &TEXT[..cut];
            let read = |text: &str| last(text.as_bytes(), Some(77));
            assert_ne!(read(part).map(|found| found.is_some()), Ok(true), "{part}");
            let whole = read(TEXT).unwrap();
            assert!(whole.is_some());
            assert_eq!(read(&format!("{TEXT}{part}")).unwrap(), whole, "{part}");
            assert_eq!(read(&format!("{part}{TEXT}")).unwrap(), whole, "{part}");
        }
    }

    #[test]
    fn what_is_no_profile_is_named() {
        for (text, named) in [
            ("hello\n", "line 1"),
            ("heap profile: 1: 1 [1: 1] @ heap/5\n", "line 1"),
            (
                "heap profile: 0: 0 [0: 0] @ heap_v2/5\n1: 2 @ 0x1\n",
                "line 2",
            ),
            (
                "heap profile: 0: 0 [0: 0] @ heap_v2/5\n# hakmem 3 pid=1\n",
                "line 2",
            ),
            (
                "heap profile: 0: 0 [0: 0] @ heap_v2/5\n1: 1 [0: 0] @ 0x1\n",
                "line 2",
            ),
            (
                "heap profile: 0: 0 [0: 0] @ heap_v2/5\n# at 0: 1 [1]\n",
                "line 2",
            ),
            (
                "heap profile: 0: 0 [0: 0] @ heap_v2/5\n# hakmem 2 pid=1 event=exit on=1 lost=0 own=0\n",
                "line 3",
            ),
        ] {
            let why = last(text.as_bytes(), None).unwrap_err();
            assert!(why.starts_with(named), "{text}: {why}");
        }
        assert_eq!(last(&b""[..], None), Ok(None));
    }

    #[test]
    fn forged_numbers_are_refused_or_left_out() {
        let head = "heap profile: 0: 0 [0: 0] @ heap_v2/5\n";
        for line in [
            "1: 1 [18446744073709551615: 1] @ 0x1",
            "1: 1 [1: 18446744073709551615] @ 0x1",
            "# at 18446744073709551615: 1 [1]",
            "# hakmem 2 pid=1 event=\x1b[2J",
        ] {
            let why = last(format!("{head}{line}\n").as_bytes(), None).unwrap_err();
            assert!(why.starts_with("line 2") && !why.contains('\x1b'), "{why}");
        }
        assert!(last(&b"heap profile: 0: 0 [0: 0] @ heap_v2/0\n"[..], None).is_err());
        let maps = "MAPPED_LIBRARIES:\n5-2 r-xp 0 0 0 /a\n5-9 r-xp ffffffffffffffff 0 0 /b\n\
                    5-9 r-xp 0 0 0 /c\x1b\n6-10 r-xp 0 0 0 /d\nffffffffff600000-ffffffffff601000 --xp 0 0 0 [vsyscall]\n";
        let raw = last(format!("{head}{maps}").as_bytes(), None)
            .unwrap()
            .unwrap();
        let maps: Vec<_> = raw.maps.iter().map(|m| m.path.as_str()).collect();
        assert_eq!(maps, ["/c?"]);
    }

    #[test]
    fn small_blocks_stand_for_many_and_large_ones_for_themselves() {
        let of = |size| {
            Sample {
                size,
                interval: 1 << 19,
                live: 1,
                all: 1,
                stack: vec![],
            }
            .weight()
        };
        assert!((of(16) * 16.0 - 524_296.0).abs() < 1.0, "{}", of(16));
        assert!((of(1 << 19) - 1.582).abs() < 0.001);
        assert!((of(1 << 30) - 1.0).abs() < 1e-9);
    }
}
