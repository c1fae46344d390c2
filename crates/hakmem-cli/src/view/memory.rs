//! The memory of another process, read without its help.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;

/// The unit that the kernel maps memory in, at least.
const PAGE: u64 = 4096;

/// Another process's memory. What is there may change between two reads, and within a long one.
#[derive(Clone, Copy)]
pub struct Memory {
    pub pid: u32,
}

impl Memory {
    /// Fills `to` with what is at `address`; an error if any of it is not mapped.
    pub fn read(self, address: u64, to: &mut [u8]) -> io::Result<()> {
        let local = libc::iovec {
            iov_base: to.as_mut_ptr().cast(),
            iov_len: to.len(),
        };
        let remote = libc::iovec {
            iov_base: std::ptr::without_provenance_mut(address as usize),
            iov_len: to.len(),
        };
        // SAFETY: the local part is a live slice; the remote one is the kernel's to check.
        let read =
            unsafe { libc::process_vm_readv(self.pid as libc::pid_t, &local, 1, &remote, 1, 0) };
        match usize::try_from(read) {
            Ok(n) if n == to.len() => Ok(()),
            Ok(_) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }

    pub fn bytes(self, address: u64, len: usize) -> io::Result<Vec<u8>> {
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
        let bytes = self.bytes(address, n * 8)?;
        Ok((0..n).map(|i| u64_at(&bytes, i * 8)).collect())
    }
}

/// Numbers in bytes that were read. Offsets come from the process, so what lies outside reads as zero.
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

/// Follows lists of free blocks. Only pages in which a listed block lies are read, so that memory which was given back
/// is not brought in; each of them is read once for a list.
pub struct Lists {
    memory: Memory,
    budget: Cell<usize>,
}

impl Lists {
    /// Reads no more than `budget` pages.
    pub fn new(memory: Memory, budget: usize) -> Self {
        Self {
            memory,
            budget: budget.into(),
        }
    }

    fn next(&self, block: u64, pages: &mut HashMap<u64, [u8; PAGE as usize]>) -> Option<u64> {
        let (page, offset) = (block / PAGE * PAGE, (block % PAGE) as usize);
        let bytes = match pages.entry(page) {
            Entry::Occupied(read) => read.into_mut(),
            Entry::Vacant(place) => {
                self.budget.set(self.budget.get().checked_sub(1)?);
                let mut bytes = [0; PAGE as usize];
                self.memory.read(page, &mut bytes).ok()?;
                place.insert(bytes)
            }
        };
        Some(u64_at(bytes, offset))
    }

    /// The blocks of the list whose first one stands at `head`, each at a multiple of 8 and in no more than `most`; and
    /// whether they are all: the list may be changing, or there is no more to be spent. What was found first of such a list
    /// is near the truth.
    pub fn blocks(&self, head: u64, most: usize) -> (Vec<u64>, bool) {
        let (mut blocks, mut pages) = (Vec::new(), HashMap::new());
        let mut next = self.memory.word(head).ok();
        loop {
            match next {
                Some(0) => return (blocks, true),
                Some(block) if blocks.len() < most && block.is_multiple_of(8) => {
                    next = self.next(block, &mut pages);
                    if next.is_some() {
                        blocks.push(block);
                    }
                }
                _ => return (blocks, false),
            }
        }
    }
}
