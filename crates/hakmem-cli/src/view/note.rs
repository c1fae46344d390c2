//! The note in which the allocator says where its figures lie: `hakmem_core::stats::view` has its
//! form.
//!
//! It is looked for in the memory of the process, not in its files: these may have been replaced
//! since, or lie where this process cannot see them. What calls itself our note may be forged:
//! `checked` has the rules.

use super::memory::{END, Memory};
use crate::checked::{self, refuse};
use object::LittleEndian as LE;
use object::elf::{ET_EXEC, FileHeader64, PT_INTERP, PT_LOAD, PT_NOTE, ProgramHeader64};
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader};
use std::collections::HashMap;
use std::io;
use std::ops::RangeInclusive;

/// The type of the notes that this program reads.
const TYPE: u32 = 1;
/// No note of ours is longer, or has more entries or longer names.
const LONGEST: u64 = 1 << 16;
const ENTRIES: usize = 1024;
const NAME: usize = 64;
/// Files that are looked at, notes of one file, and notes that are ours in all.
const FILES: usize = 1 << 16;
const OF_FILE: usize = 8;
const OURS: usize = 64;
/// No struct of the allocator's is larger.
pub const STRUCT: usize = 16 << 10;

/// Names and what they stand for: an address, or a number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Note(HashMap<String, u64>);

impl Note {
    /// The description of a note that lies at `address`.
    pub(super) fn parse(description: &[u8], address: u64) -> Option<Self> {
        let mut entries = HashMap::new();
        let mut at = 0;
        while at < description.len() {
            let length = description[at..].iter().position(|&b| b == 0)?;
            let name = std::str::from_utf8(&description[at..at + length]).ok()?;
            if length > NAME || !name.bytes().all(|b| b.is_ascii_graphic()) {
                return None;
            }
            at += length + 1;
            let value = u64::from_le_bytes(description.get(at..at + 8)?.try_into().ok()?);
            let value = match name.starts_with('@') {
                true => value.wrapping_add(address).wrapping_add(at as u64),
                false => value,
            };
            entries.insert(name.to_owned(), value);
            at += 8;
        }
        (entries.len() <= ENTRIES).then_some(Self(entries))
    }

    fn get(&self, name: &str) -> io::Result<u64> {
        self.0.get(name).copied().ok_or_else(|| {
            let why = format!("its hakmem is another version than this command: no {name}");
            io::Error::new(io::ErrorKind::Unsupported, why)
        })
    }

    /// Where the thing of this name is.
    pub fn place(&self, name: &str) -> io::Result<u64> {
        let place = self.get(&format!("@{name}"))?;
        match place < END {
            true => Ok(place),
            false => Err(refuse(format!("its {name} lie where nothing can"))),
        }
    }

    /// A size, a count or a constant.
    pub fn number(&self, name: &str, range: RangeInclusive<usize>) -> io::Result<usize> {
        checked::within(self.get(name)?, range, name)
    }

    /// The offset of a field of `bytes` bytes in a struct of `whole`.
    pub fn field(&self, name: &str, bytes: usize, whole: usize) -> io::Result<usize> {
        match whole.checked_sub(bytes) {
            Some(last) => self.number(name, 0..=last),
            None => Err(refuse(format!("its {name} has no room"))),
        }
    }

    /// The size of a struct.
    pub fn size(&self, name: &str) -> io::Result<usize> {
        self.number(name, 8..=STRUCT)
    }

    /// Pairs of what comes behind `prefix` and the number, of those whose number is one of the
    /// first `most`.
    pub fn all<'a>(&'a self, prefix: &str, most: usize) -> Vec<(&'a str, usize)> {
        let behind =
            |(name, &n): (&'a String, &u64)| Some((name.strip_prefix(prefix)?, n as usize));
        let found = self.0.iter().filter_map(behind);
        let mut found: Vec<_> = found.filter(|&(_, n)| n < most).collect();
        found.sort_by_key(|&(name, n)| (n, name));
        found
    }
}

/// The notes of the files that are mapped, in the order of their addresses, and whether the file is
/// the program. An error: there are none, but one that cannot be read as ours.
pub fn each(memory: Memory, mut each: impl FnMut(Note, bool)) -> io::Result<()> {
    let (mut files, mut ours, mut bad) = (0, 0, 0);
    memory.source.each_file(&mut |base| {
        files += 1;
        if files > FILES || ours + bad >= OURS {
            return;
        }
        of_image(memory, base, &mut |note, is_program| match note {
            Some(note) => {
                ours += 1;
                each(note, is_program);
            }
            None => bad += 1,
        });
    })?;
    match (ours, bad) {
        (0, 1..) => Err(refuse("the note of its hakmem cannot be read")),
        _ => Ok(()),
    }
}

/// The address at which a line of /proc/PID/maps maps the beginning of a file.
pub fn start_of_file(line: &str) -> Option<u64> {
    let mut words = line.split_ascii_whitespace();
    let (range, _rights, offset) = (words.next()?, words.next()?, words.next()?);
    let inode = words.nth(1)?;
    let is_start = inode != "0" && offset.bytes().all(|b| b == b'0');
    let start = range.split('-').next()?;
    is_start.then(|| u64::from_str_radix(start, 16).ok())?
}

/// The note of the program or library that is mapped from `base` on, if it has one; None is one
/// that makes no sense.
fn of_image(memory: Memory, base: u64, each: &mut dyn FnMut(Option<Note>, bool)) {
    let Some(image) = image(memory, base) else {
        return;
    };
    for segment in image.notes.iter().take(OF_FILE) {
        if let Some(note) = in_segment(memory, image.bias, segment) {
            return each(note, image.is_program);
        }
    }
}

/// A program or a library that is mapped.
struct Image {
    /// How far it is mapped from where it is linked for.
    bias: u64,
    /// Its segments of notes.
    notes: Vec<ProgramHeader64<LE>>,
    /// It names a loader, or is linked for a fixed address. Libraries with hakmem do neither.
    is_program: bool,
}

fn image(memory: Memory, base: u64) -> Option<Image> {
    // Most files that are mapped are no programs.
    if memory.bytes(base, 4).ok()? != b"\x7fELF" {
        return None;
    }
    let head = memory.bytes(base, 4096).ok()?;
    let header = FileHeader64::<LE>::parse(head.as_slice()).ok()?;
    let segments = header.program_headers(LE, head.as_slice()).ok()?;
    let first = segments.iter().find(|s| s.p_type(LE) == PT_LOAD)?;
    let bias = base.wrapping_sub(first.p_vaddr(LE) / 4096 * 4096);
    let of_type = |kind| segments.iter().filter(move |s| s.p_type(LE) == kind);
    Some(Image {
        bias,
        notes: of_type(PT_NOTE).copied().collect(),
        is_program: header.e_type(LE) == ET_EXEC || of_type(PT_INTERP).next().is_some(),
    })
}

/// The first note of ours; `Some(None)`: it makes no sense.
fn in_segment(memory: Memory, bias: u64, segment: &ProgramHeader64<LE>) -> Option<Option<Note>> {
    let (address, len) = (
        bias.wrapping_add(segment.p_vaddr(LE)),
        segment.p_memsz(LE).min(LONGEST),
    );
    let bytes = memory.bytes(address, len as usize).ok()?;
    let mut notes = NoteIterator::<FileHeader64<LE>>::new(LE, segment.p_align(LE), &bytes).ok()?;
    while let Ok(Some(note)) = notes.next() {
        if note.name() == b"hakmem" && note.n_type(LE).0 == TYPE {
            let at = note.desc().as_ptr().addr() - bytes.as_ptr().addr();
            return Some(Note::parse(note.desc(), address.wrapping_add(at as u64)));
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
        assert_eq!(note.number("classes", 1..=48).unwrap(), 48);
        assert!(note.number("classes", 1..=47).is_err());
        assert_eq!(note.field("classes", 8, 56).unwrap(), 48);
        assert!(note.field("classes", 8, 55).is_err() && note.field("classes", 8, 7).is_err());
        assert_eq!(
            note.place("arenas").unwrap_err().kind(),
            io::ErrorKind::Unsupported
        );
        assert_eq!(note.all("cl", 49), [("asses", 48)]);
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
