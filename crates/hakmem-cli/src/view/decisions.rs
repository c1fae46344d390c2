//! The ring of decisions: `hakmem_core::decisions` has its rules.

use super::memory::{Memory, u32_at, u64_at};
use super::note::Note;
use std::io;

/// What was decided while the program ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// From 0 on.
    pub number: u64,
    /// In coarse milliseconds of the monotonic clock, whose 32 bits wrap.
    pub at: u32,
    pub text: String,
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

/// Those that are kept, oldest first. A record that is being written, or has changed between two looks, is left out.
pub fn read(memory: Memory, note: &Note) -> io::Result<Vec<Decision>> {
    let (records, bytes) = (
        note.number("decision_records")?.min(4096),
        note.number("decision_bytes")?.min(4096),
    );
    if memory.word(note.place("decisions_made")?)? == 0 {
        return Ok(Vec::new());
    }
    let at = note.place("decisions")?;
    let (one, two) = (
        memory.bytes(at, records * bytes)?,
        memory.bytes(at, records * bytes)?,
    );
    Ok(parse(&one, &two, bytes))
}

fn parse(one: &[u8], two: &[u8], bytes: usize) -> Vec<Decision> {
    let records = one.chunks_exact(bytes).zip(two.chunks_exact(bytes));
    let mut all: Vec<_> = records
        .filter_map(|(record, again)| {
            let number = u64_at(record, 0);
            if number == 0 || number % 2 == 1 || record != again {
                return None;
            }
            let len = (u32_at(record, 12) as usize).min(bytes - 16);
            let text = String::from_utf8_lossy(&record[16..16 + len]);
            Some(Decision {
                number: number / 2 - 1,
                at: u32_at(record, 8),
                // Text of another process must not reach the terminal as anything but text.
                text: text
                    .chars()
                    .map(|c| if c.is_control() { ' ' } else { c })
                    .collect(),
            })
        })
        .collect();
    all.sort_by_key(|d| d.number);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64, at: u32, text: &str) -> Vec<u8> {
        let mut bytes = number.to_le_bytes().to_vec();
        bytes.extend(at.to_le_bytes());
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.resize(128, 0);
        bytes
    }

    #[test]
    fn whole_records_are_shown_in_their_order() {
        let ring = [
            record(130, 7, "the 65th"),
            record(4, 5, "the\x1b second"),
            record(7, 6, "being written"),
            record(0, 0, ""),
            record(10, 8, "changed meanwhile"),
        ]
        .concat();
        let mut later = ring.clone();
        later[4 * 128 + 20] ^= 1;
        let seen = parse(&ring, &later, 128);
        let lines: Vec<_> = seen.iter().map(|d| (d.number, d.text.as_str())).collect();
        assert_eq!(lines, [(1, "the  second"), (64, "the 65th")]);
        assert_eq!(seen[0].age(u32::MAX.wrapping_add(10)), 4);
    }
}
