//! The heaps that the program itself made, and their names.

use super::memory::{Memory, u32_at, u64_at};
use super::note::Note;
use crate::checked::{self, refuse};
use crate::stat::figures::ProgramHeap;
use std::collections::HashSet;
use std::io;

/// Heaps that are looked at, those that have ended among them.
const MOST: usize = 1 << 16;
/// States of a heap: `program` of the core.
const FREE: u32 = 0;
const ORPHAN: u32 = 2;
/// Bytes of a name.
pub const NAME: usize = 32;

/// All program heaps that have not ended, newest first.
pub struct Programs {
    pub heaps: Vec<ProgramHeap>,
    /// Bytes of blocks that pages have handed out, of all of them.
    pub bytes_in_pages: Vec<u64>,
}

impl Programs {
    /// None are read of a hakmem that has no such heaps.
    pub fn read(memory: Memory, note: &Note) -> io::Result<Self> {
        let mut this = Self {
            heaps: Vec::new(),
            bytes_in_pages: Vec::new(),
        };
        let Ok(first) = note.place("program_heaps") else {
            return Ok(this);
        };
        let bytes = note.size("program_heap_bytes")?;
        let word = |name: &str| note.field(name, 8, bytes);
        let (next, state) = (
            word("program.next")?,
            note.field("program.state", 4, bytes)?,
        );
        let (limit, name) = (
            word("program.limit")?,
            note.field("program.name", NAME, bytes)?,
        );
        let (live, peak) = (word("program.live")?, word("program.peak")?);
        let (allocations, frees) = (word("program.allocations")?, word("program.frees")?);
        let (refused, held) = (word("program.refused")?, word("program.held")?);
        let (reserved, in_pages) = (word("program.reserved")?, word("program.in_pages")?);
        let (mut at, mut seen) = (memory.word(first)?, HashSet::new());
        while at != 0 {
            if !seen.insert(at) || seen.len() > MOST {
                return Err(refuse("its list of program heaps does not end"));
            }
            let read = memory.bytes(at, bytes)?;
            let of = |field: usize| u64_at(&read, field);
            let now = u32_at(&read, state);
            if now != FREE {
                this.heaps.push(ProgramHeap {
                    name: text_of(&read[name..name + NAME]),
                    dropped: u64::from(now == ORPHAN),
                    live_bytes: of(live),
                    peak_live_bytes: of(peak),
                    limit_bytes: if of(limit) == u64::MAX { 0 } else { of(limit) },
                    allocations: of(allocations),
                    frees: of(frees),
                    refused: of(refused),
                    held_bytes: of(held),
                    reserved_bytes: of(reserved),
                });
                this.bytes_in_pages.push(of(in_pages));
            }
            at = of(next);
        }
        Ok(this)
    }
}

/// A name for people, of its bytes.
pub fn text_of(bytes: &[u8]) -> String {
    let len = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    checked::name(&String::from_utf8_lossy(&bytes[..len]))
}
