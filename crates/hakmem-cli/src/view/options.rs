//! The options of another process: numbers in its memory, by the names of their note.

use super::heaps;
use super::memory::{Memory, u32_at};
use super::note::Note;
use hakmem_core::options::{Entry, TABLE, Values};
use std::io;

/// An option and what it is set to there, as the environment could have it.
pub struct Set {
    pub entry: &'static Entry,
    pub value: String,
}

/// The options of this version that the process has, too.
pub fn read(memory: Memory, note: &Note) -> io::Result<Vec<Set>> {
    let mut found = Vec::new();
    for entry in TABLE.iter() {
        // Those that are read at start alone have no place; nor have those of another version.
        let Ok(place) = note.place(&format!("option.{}", entry.name())) else {
            continue;
        };
        let value = match entry.is_by_class() {
            true => by_class(memory, note, place)?,
            false => shown(entry, u32_at(&memory.bytes(place, 4)?, 0)),
        };
        found.push(Set { entry, value });
    }
    match found.is_empty() {
        true => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "its hakmem is another version than this command: it does not say what its options are",
        )),
        false => Ok(found),
    }
}

fn shown(entry: &Entry, number: u32) -> String {
    match entry.values() {
        Values::Word(words) => words.get(number as usize).copied().unwrap_or("?").into(),
        _ => number.to_string(),
    }
}

/// The value of all classes, and those that differ, by the size of their blocks.
fn by_class(memory: Memory, note: &Note, place: u64) -> io::Result<String> {
    let sizes = heaps::sizes(memory, note)?;
    let values = memory.bytes(place, (sizes.len() + 1) * 4)?;
    let all = u32_at(&values, 0);
    let mut text = all.to_string();
    for (class, size) in sizes.iter().enumerate() {
        let value = u32_at(&values, (class + 1) * 4);
        if value != all {
            text += &format!(",{size}:{value}");
        }
    }
    Ok(text)
}
