//! The memory of another process, read without its help. `checked` has the rules.

use crate::checked::{Budget, refuse};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;

/// The unit that the kernel maps memory in, at least.
const PAGE: u64 = 4096;
/// Blocks of a list that have room in one: they are at multiples of 8.
const BLOCKS: usize = PAGE as usize / 8;
/// The half of the address space that programs have ends here at the latest.
pub const END: u64 = 1 << 56;
/// Bytes that are read at once, and in one reading.
const AT_ONCE: usize = 16 << 20;
pub const IN_ALL: u64 = 2 << 30;

/// Reads entries of 8 bytes, one for each page of 4 KiB, from that of an address on.
pub type PageMap = Box<dyn Fn(u64, &mut [u8]) -> io::Result<()>>;

/// Where memory is read from: a process, or in tests what stands for one.
pub trait Source {
    /// Fills `to` with what is at `address`; an error if any of it is not mapped.
    fn read(&self, address: u64, to: &mut [u8]) -> io::Result<()>;
    /// Calls `each` with where the beginning of a file is mapped.
    fn each_file(&self, each: &mut dyn FnMut(u64)) -> io::Result<()>;
    fn page_map(&self) -> io::Result<PageMap>;
}

/// Another process's memory, for one reading. What is there may change between two reads, and
/// within a long one.
#[derive(Clone, Copy)]
pub struct Memory<'a> {
    pub source: &'a dyn Source,
    pub budget: &'a Budget,
}

impl Memory<'_> {
    /// Fills `to` with what is at `address`; an error if any of it is not mapped.
    pub fn read(self, address: u64, to: &mut [u8]) -> io::Result<()> {
        let len = to.len() as u64;
        // A short read takes its time, too.
        self.budget.take(len.max(1024))?;
        match address.checked_add(len) {
            Some(end) if end <= END => self.source.read(address, to),
            _ => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        }
    }

    pub fn bytes(self, address: u64, len: usize) -> io::Result<Vec<u8>> {
        if len > AT_ONCE {
            return Err(refuse("a table of it is too long"));
        }
        let mut bytes = vec![0; len];
        self.read(address, &mut bytes)?;
        Ok(bytes)
    }

    pub fn word(self, address: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub fn words(self, address: u64, n: usize) -> io::Result<Vec<u64>> {
        let bytes = self.bytes(address, n.saturating_mul(8))?;
        Ok((0..n).map(|i| u64_at(&bytes, i * 8)).collect())
    }
}

/// Numbers in bytes that were read. What lies outside reads as zero.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let eight = at.checked_add(8).and_then(|end| bytes.get(at..end));
    eight.map_or(0, |b| {
        u64::from_le_bytes(b.try_into().expect("eight bytes"))
    })
}

/// See [`u64_at`].
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let four = at.checked_add(4).and_then(|end| bytes.get(at..end));
    four.map_or(0, |b| u32::from_le_bytes(b.try_into().expect("four bytes")))
}

/// See [`u64_at`].
pub fn u8_at(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// Follows lists of free blocks. Only pages in which a listed block lies are read, so that memory
/// which was given back is not brought in; each of them is read once for a list.
pub struct Lists<'a> {
    memory: Memory<'a>,
    budget: Budget,
    /// The secret by which links are encoded; 0, 0 and 1 if they are not.
    key: [u64; 3],
}

/// The most pages of one list, which are kept until its end: 16 MiB. A list of hakmem's has fewer.
const LONGEST_LIST: usize = 1 << 12;

/// Those of one list that were read.
type Pages = HashMap<u64, Box<[u8; PAGE as usize]>>;

impl<'a> Lists<'a> {
    /// Reads no more than `budget` pages.
    pub fn new(memory: Memory<'a>, budget: u64, key: [u64; 3]) -> Self {
        Self {
            memory,
            budget: Budget::new(budget, "pages of lists"),
            key,
        }
    }

    /// What the word of a link in the block at `at` stands for (`harden::key` in the core).
    fn decoded(&self, at: u64, word: u64) -> u64 {
        word.wrapping_mul(self.key[2]) ^ (at ^ self.key[0]).wrapping_mul(self.key[1])
    }

    /// The block after `block`. None: it cannot be read, or it is one more than the pages so far
    /// have room for.
    fn next(&self, block: u64, found: usize, pages: &mut Pages) -> Option<u64> {
        let (page, offset) = (block / PAGE * PAGE, (block % PAGE) as usize);
        let read = pages.len();
        match pages.entry(page) {
            Entry::Occupied(_) if found >= read * BLOCKS => None,
            Entry::Occupied(bytes) => Some(u64_at(&bytes.get()[..], offset)),
            Entry::Vacant(place) => {
                if read == LONGEST_LIST || !self.budget.has(1) {
                    return None;
                }
                let mut bytes = Box::new([0; PAGE as usize]);
                self.memory.read(page, &mut bytes[..]).ok()?;
                Some(u64_at(&place.insert(bytes)[..], offset))
            }
        }
    }

    /// Calls `each` with the blocks of the list whose first one stands at `head`, each at a
    /// multiple of 8. Returns how many there are, and whether they are all: the list may be
    /// changing, may lead in a circle, or there is no more to be spent. What was found first of
    /// such a list is near the truth.
    pub fn blocks(&self, head: u64, mut each: impl FnMut(u64)) -> (u64, bool) {
        let mut pages = Pages::new();
        let mut next = self.memory.word(head).ok();
        let mut found = 0;
        loop {
            match next {
                Some(0) => return (found as u64, true),
                Some(block) if block.is_multiple_of(8) => {
                    let word = self.next(block, found, &mut pages);
                    next = word.map(|word| self.decoded(block, word));
                    if next.is_some() {
                        each(block);
                        found += 1;
                    }
                }
                _ => return (found as u64, false),
            }
        }
    }
}
