//! The note in which the allocator says where its figures lie: `hakmem_core::stats::view` has its form.
//!
//! It is looked for in the memory of the process, not in its files: these may have been replaced since, or lie where this
//! process cannot see them.

use super::memory::Memory;
use object::LittleEndian as LE;
use object::elf::{FileHeader64, PT_LOAD, PT_NOTE, ProgramHeader64};
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader};
use std::collections::HashMap;
use std::io;

/// The type of the notes that this program reads.
const TYPE: u32 = 1;
/// No note of ours is longer.
const LONGEST: u64 = 1 << 16;

/// Names and what they stand for: an address, or a number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Note(HashMap<String, u64>);

impl Note {
    /// The description of a note that lies at `address`.
    fn parse(description: &[u8], address: u64) -> Option<Self> {
        let mut entries = HashMap::new();
        let mut at = 0;
        while at < description.len() {
            let length = description[at..].iter().position(|&b| b == 0)?;
            let name = std::str::from_utf8(&description[at..at + length]).ok()?;
            at += length + 1;
            let value = u64::from_le_bytes(description.get(at..at + 8)?.try_into().ok()?);
            let value = match name.starts_with('@') {
                true => value.wrapping_add(address + at as u64),
                false => value,
            };
            entries.insert(name.to_owned(), value);
            at += 8;
        }
        Some(Self(entries))
    }

    fn get(&self, name: &str) -> io::Result<u64> {
        self.0.get(name).copied().ok_or_else(|| {
            let why = format!("its hakmem is another version than this command: no {name}");
            io::Error::new(io::ErrorKind::Unsupported, why)
        })
    }

    /// Where the thing of this name is.
    pub fn place(&self, name: &str) -> io::Result<u64> {
        self.get(&format!("@{name}"))
    }

    /// A size, an offset or a constant. What would be beyond reason, as memory, counts as missing.
    pub fn number(&self, name: &str) -> io::Result<usize> {
        let value = self.get(name)?;
        if value > 1 << 32 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("its {name} makes no sense"),
            ));
        }
        Ok(value as usize)
    }

    /// Pairs of what comes behind `prefix` and the number.
    pub fn all<'a>(&'a self, prefix: &str) -> Vec<(&'a str, usize)> {
        let behind =
            |(name, &n): (&'a String, &u64)| Some((name.strip_prefix(prefix)?, n as usize));
        let mut found: Vec<_> = self.0.iter().filter_map(behind).collect();
        found.sort_by_key(|&(_, n)| n);
        found
    }
}

/// The notes of the files that are mapped, in the order of their addresses.
pub fn find_all(memory: Memory) -> io::Result<Vec<Note>> {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", memory.pid))?;
    let mut notes = Vec::new();
    for line in maps.lines() {
        if let Some(base) = start_of_file(line) {
            notes.extend(of_image(memory, base));
        }
    }
    Ok(notes)
}

/// The address at which a line of /proc/PID/maps maps the beginning of a file.
fn start_of_file(line: &str) -> Option<u64> {
    let mut words = line.split_ascii_whitespace();
    let (range, _rights, offset) = (words.next()?, words.next()?, words.next()?);
    let inode = words.nth(1)?;
    let is_start = inode != "0" && offset.bytes().all(|b| b == b'0');
    let start = range.split('-').next()?;
    is_start.then(|| u64::from_str_radix(start, 16).ok())?
}

/// The note of the executable or library that is mapped from `base` on, if it has one.
fn of_image(memory: Memory, base: u64) -> Option<Note> {
    let head = memory.bytes(base, 4096).ok()?;
    let header = FileHeader64::<LE>::parse(head.as_slice()).ok()?;
    let segments = header.program_headers(LE, head.as_slice()).ok()?;
    let first = segments.iter().find(|s| s.p_type(LE) == PT_LOAD)?;
    let bias = base.wrapping_sub(first.p_vaddr(LE) / 4096 * 4096);
    let notes = segments.iter().filter(|s| s.p_type(LE) == PT_NOTE);
    notes
        .into_iter()
        .find_map(|segment| in_segment(memory, bias, segment))
}

fn in_segment(memory: Memory, bias: u64, segment: &ProgramHeader64<LE>) -> Option<Note> {
    let (address, len) = (
        bias.wrapping_add(segment.p_vaddr(LE)),
        segment.p_memsz(LE).min(LONGEST),
    );
    let bytes = memory.bytes(address, len as usize).ok()?;
    let mut notes = NoteIterator::<FileHeader64<LE>>::new(LE, segment.p_align(LE), &bytes).ok()?;
    while let Ok(Some(note)) = notes.next() {
        if note.name() == b"hakmem" && note.n_type(LE).0 == TYPE {
            let at = note.desc().as_ptr().addr() - bytes.as_ptr().addr();
            return Note::parse(note.desc(), address + at as u64);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_counted_from_their_own_place() {
        let mut bytes = b"@heaps\0".to_vec();
        bytes.extend((-7i64).to_le_bytes());
        bytes.extend(b"classes\0");
        bytes.extend(48u64.to_le_bytes());
        let note = Note::parse(&bytes, 0x1000).unwrap();
        assert_eq!(note.place("heaps").unwrap(), 0x1000);
        assert_eq!(note.number("classes").unwrap(), 48);
        assert_eq!(
            note.place("arenas").unwrap_err().kind(),
            io::ErrorKind::Unsupported
        );
        assert_eq!(note.all("cl"), [("asses", 48)]);
        assert_eq!(
            Note::parse(&bytes[..bytes.len() - 1], 0),
            None,
            "one that is cut off"
        );
    }

    #[test]
    fn files_are_found_where_their_beginning_is_mapped() {
        let line = |offset: &str, inode: &str| {
            format!("7f00aa000000-7f00aa001000 r--p {offset} fe:01 {inode}     /a/b c.so")
        };
        assert_eq!(
            start_of_file(&line("00000000", "12")),
            Some(0x7f00_aa00_0000)
        );
        assert_eq!(start_of_file(&line("00001000", "12")), None);
        assert_eq!(start_of_file(&line("00000000", "0")), None, "not of a file");
    }
}
