//! What the library writes: the text form of gperftools' heap profiles, with a line of our own. A file may hold several, one
//! after the other.

use std::collections::HashMap;
use std::ops::RangeInclusive;

/// The versions of our own line that this program reads. The first had no samples at longer intervals.
const SCHEMAS: RangeInclusive<u32> = 1..=2;

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

/// All profiles of a file. What cannot be read is named in the error.
pub fn parse(text: &str) -> Result<Vec<Raw>, String> {
    let mut all = Vec::new();
    let mut maps = false;
    let mut longer = None;
    for (i, line) in text.lines().enumerate() {
        let bad = || format!("line {} cannot be read: {line}", i + 1);
        if let Some(header) = line.strip_prefix("heap profile:") {
            let interval = header
                .rsplit_once("@ heap_v2/")
                .and_then(|(_, n)| n.trim().parse().ok());
            all.push(Raw {
                interval: interval.ok_or_else(bad)?,
                ..Raw::default()
            });
            maps = false;
            longer = None;
            continue;
        }
        if line.trim().is_empty() {
            continue;
        }
        let profile: &mut Raw = all.last_mut().ok_or_else(bad)?;
        if let Some(fields) = line.strip_prefix("# hakmem ") {
            profile.read_fields(fields).ok_or_else(bad)?;
        } else if let Some(fields) = line.strip_prefix("# at ") {
            longer = Some(Drawn::read(fields).ok_or_else(bad)?);
        } else if line == "MAPPED_LIBRARIES:" {
            maps = true;
        } else if maps {
            // The last may be cut.
            profile.maps.extend(map(line));
        } else {
            let as_read = sample(line, profile.interval).ok_or_else(bad)?;
            profile.samples.push(match longer.take() {
                Some(drawn) => Sample {
                    interval: drawn.interval,
                    live: drawn.live,
                    all: drawn.all,
                    ..as_read
                },
                None => as_read,
            });
        }
    }
    Ok(all)
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
        self.event = (*fields.get("event")?).into();
        self.lost = fields.get("lost")?.parse().ok()?;
        self.own = hex(fields.get("own")?)?;
        Some(())
    }
}

/// Samples that were drawn with a longer interval than the header's. The line after this one has them as if they had been drawn
/// with that.
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
        let interval = interval.parse().ok().filter(|&n| n > 0)?;
        let (live, all) = (live.parse().ok()?, all.parse().ok()?);
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
    let stack = stack.split_whitespace().map(hex).collect::<Option<_>>()?;
    Some(Sample {
        size: bytes.checked_div(all)?,
        interval,
        live,
        all,
        stack,
    })
}

fn map(line: &str) -> Option<Map> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let offset = words.nth(1)?;
    let path = words.skip(2).collect::<Vec<_>>().join(" ");
    Some(Map {
        start: hex(start)?,
        end: hex(end)?,
        offset: hex(offset)?,
        path,
    })
}

impl Sample {
    /// How many allocations each sample stands for: one of `size` bytes is a sample with probability 1 − exp(−size / interval).
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
";

    #[test]
    fn profiles_are_read() {
        let all = parse(TEXT).unwrap();
        assert_eq!(all.len(), 2);
        let first = &all[0];
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
        assert_eq!(
            (all[1].pid, all[1].interval, all[1].samples.len()),
            (78, 1, 0)
        );
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
        ] {
            assert!(parse(text).unwrap_err().starts_with(named), "{text}");
        }
        assert_eq!(parse(""), Ok(vec![]));
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
