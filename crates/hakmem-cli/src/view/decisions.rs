//! The learner's decisions: `hakmem_core::decisions` keeps them, and `hakmem_core::proto::journal`
//! has the rules of reading.

use super::memory::{Memory, u64_at};
use super::note::Note;
use crate::checked;
use crate::stat::figures;
use std::io;

/// What was decided while the program ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// From 0 on.
    pub number: u64,
    /// In coarse milliseconds of the monotonic clock, whose 32 bits wrap.
    pub at: u32,
    pub what: figures::Decision,
}

impl Decision {
    /// Milliseconds ago.
    pub fn age(&self, now: u32) -> u32 {
        now.wrapping_sub(self.at)
    }
}

/// Now, on the clock of the decisions.
pub fn now() -> u32 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a live timespec; the clock is there since Linux 2.6.32.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut now) };
    (now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000) as u32
}

/// No offset in the journal is larger.
const MOST: usize = 1 << 20;

/// Those that are kept, oldest first.
pub fn read(memory: Memory, note: &Note) -> io::Result<Vec<Decision>> {
    let journal = note.place("decisions")?;
    let within = |name| {
        let offset = note.number(name, 0..=MOST)? as u64;
        Ok::<_, io::Error>(journal.saturating_add(offset))
    };
    if memory.word(within("decisions.made")?)? == 0 {
        return Ok(Vec::new());
    }
    let layout = Layout::of(note)?;
    let kept = note.number("decisions_kept", 1..=1024)?;
    let records = || memory.bytes(within("decisions.records")?, layout.bytes * kept);
    // What is read at once may be read in any order: so the numbers before it, and those after it.
    let (before, between, after) = (records()?, records()?, records()?);
    Ok(layout.parse([&before, &between, &after]))
}

/// Where things are in a record.
struct Layout {
    bytes: usize,
    number: usize,
    time: usize,
    /// Of the option, and then in the order of [`figures::Decision`].
    fields: [usize; 11],
    /// By their number.
    options: Vec<(String, u64)>,
}

impl Layout {
    fn of(note: &Note) -> io::Result<Self> {
        let bytes = note.number("decision_bytes", 8..=1024)?;
        let at = |name: &str| note.field(&format!("decision.{name}"), 8, bytes);
        let options = note.all("learnt.", 64).into_iter();
        Ok(Self {
            bytes,
            number: at("number")?,
            time: at("time")?,
            fields: [
                at("option")?,
                at("at_ms")?,
                at("from")?,
                at("to")?,
                at("round_ms")?,
                at("from_fault_us")?,
                at("from_hold_us")?,
                at("to_fault_us")?,
                at("to_hold_us")?,
                at("from_rating")?,
                at("to_rating")?,
            ],
            options: options
                .map(|(name, n)| (checked::name(name), n as u64))
                .collect(),
        })
    }

    /// The whole records among those of the second of three readings: a number was there before and
    /// after it, and is even.
    fn parse(&self, [before, between, after]: [&[u8]; 3]) -> Vec<Decision> {
        let mut all: Vec<_> = (0..between.len() / self.bytes)
            .map(|i| i * self.bytes)
            .filter_map(|at| {
                let number = u64_at(before, at + self.number);
                // 0: never written. Odd: it changes.
                if number == 0 || number % 2 == 1 || number != u64_at(after, at + self.number) {
                    return None;
                }
                Some(Decision {
                    number: number / 2 - 1,
                    at: u64_at(between, at + self.time) as u32,
                    what: self.figures(&between[at..at + self.bytes]),
                })
            })
            .collect();
        all.sort_by_key(|d| d.number);
        all
    }

    fn figures(&self, record: &[u8]) -> figures::Decision {
        let [option, fields @ ..] = self.fields.map(|at| u64_at(record, at));
        let name = self.options.iter().find(|(_, n)| *n == option);
        figures::Decision {
            option: name.map_or_else(|| format!("option {option}"), |(name, _)| name.clone()),
            at_ms: fields[0],
            from: fields[1],
            to: fields[2],
            round_ms: fields[3],
            from_fault_us: fields[4],
            from_hold_us: fields[5],
            to_fault_us: fields[6],
            to_hold_us: fields[7],
            from_rating: fields[8],
            to_rating: fields[9],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout {
            bytes: 104,
            number: 0,
            time: 8,
            fields: std::array::from_fn(|i| 16 + 8 * i),
            options: vec![("DECAY_MS".into(), 0), ("HUGE_CACHE_MIB".into(), 2)],
        }
    }

    /// A record that holds `n`, `n` + 1 and so on, and an option.
    fn record(number: u64, n: u64, option: u64) -> Vec<u8> {
        let words = [number, n, option].into_iter().chain(n + 1..n + 11);
        words.flat_map(u64::to_le_bytes).collect()
    }

    #[test]
    fn whole_records_are_shown_in_their_order() {
        let ring = [
            record(130, 700, 2),
            record(4, 500, 0),
            record(7, 600, 0),
            record(0, 0, 0),
            record(10, 800, 0),
            record(12, 900, 9),
        ]
        .concat();
        let mut later = ring.clone();
        later[4 * 104] = 138;
        let seen = layout().parse([&ring, &ring, &later]);
        let lines: Vec<_> = seen
            .iter()
            .map(|d| (d.number, d.at, d.what.option.as_str(), d.what.to_rating))
            .collect();
        let expected = [
            (1, 500, "DECAY_MS", 510),
            (5, 900, "option 9", 910),
            (64, 700, "HUGE_CACHE_MIB", 710),
        ];
        assert_eq!(
            lines, expected,
            "neither the one that is written nor the one that changed"
        );
        assert_eq!(
            (seen[0].what.at_ms, seen[0].what.from, seen[0].what.to),
            (501, 502, 503)
        );
        assert_eq!(seen[0].age(20), 20u32.wrapping_sub(500));
    }
}
