//! Which system pages of the process are resident.
//!
//! mincore says so in one call. But lists of calls that services commonly make leave mincore out,
//! and a filter made from such a list would end the process. All such lists allow a process to
//! open, read and close a file: `/proc/self/pagemap` has eight bytes for each system page. So
//! mincore is called only in a process that is known to have no filter.
//!
//! Rules
//! 1. If the file cannot be opened or read, the caller goes on without the answer. Reasons: no such
//!    file, no descriptor left, no right to it.
//! 2. A process that is known to have made a filter does not open the file (`filter`): a filter may
//!    end the process instead of refusing the call.
//! 3. Each caller opens the file, reads it and closes it. So a program that counts its descriptors
//!    finds none of hakmem's. For that moment other threads find the lowest descriptor taken, and a
//!    fork copies it.

use super::count::{Kind, counted};
use super::filter;
use super::linux::{page_size, succeeded, syscall};

/// Set if the system page is in memory.
const PRESENT: u64 = 1 << 63;
/// Set if the system page is on a swap device.
const SWAPPED: u64 = 1 << 62;
/// System pages that one call reads: a KiB on the stack, which may be a signal handler's small
/// stack.
const AT_ONCE: usize = 128;

/// What [`Pagemap::read`] says of a system page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// It takes no memory, and reads as zero where it may be read.
    Absent,
    /// It is in memory.
    Resident,
    /// It is on a swap device.
    Swapped,
}

/// The open file. None: mincore answers.
pub struct Pagemap(Option<usize>);

impl Pagemap {
    /// Opens the file, unless mincore can answer. None: it cannot be opened here (rules 1, 2).
    pub fn open() -> Option<Self> {
        if filter::is_filtered() {
            return None;
        }
        if filter::sees_filters() && filter::inherits_filter() == Some(false) {
            return Some(Self(None));
        }
        Self::open_file()
    }

    /// Opens the file, for a report: a program that makes a filter in assembly may allow the calls
    /// that reports always made. None: it cannot be opened here (rules 1, 2).
    pub fn open_file() -> Option<Self> {
        if filter::is_filtered() {
            return None;
        }
        let name = c"/proc/self/pagemap".as_ptr().expose_provenance();
        let flags = libc::O_CLOEXEC as usize;
        let open = || syscall(libc::SYS_openat, [libc::AT_FDCWD as usize, name, flags, 0, 0, 0]);
        usize::try_from(counted(Kind::Pagemap, open)).ok().map(|fd| Self(Some(fd)))
    }

    /// Fills in `pages` for the system pages from address `at`, the first byte of one. False:
    /// unknown. mincore does not tell a page on a swap device from an absent one.
    pub fn read(&self, at: usize, pages: &mut [Page]) -> bool {
        match self.0 {
            Some(fd) => read_file(fd, at, pages),
            None => ask(at, pages),
        }
    }
}

fn read_file(fd: usize, at: usize, pages: &mut [Page]) -> bool {
    let mut words = [0u64; AT_ONCE];
    let mut first = at / page_size();
    for piece in pages.chunks_mut(AT_ONCE) {
        let words = &mut words[..piece.len()];
        let (to, len) = (words.as_mut_ptr().expose_provenance(), size_of_val(words));
        let call = || syscall(libc::SYS_pread64, [fd, to, len, first * 8, 0, 0]);
        if counted(Kind::Pagemap, call) != len as isize {
            return false;
        }
        for (page, &word) in piece.iter_mut().zip(words.iter()) {
            *page = match word {
                _ if word & PRESENT != 0 => Page::Resident,
                _ if word & SWAPPED != 0 => Page::Swapped,
                _ => Page::Absent,
            };
        }
        first += piece.len();
    }
    true
}

/// The same by mincore: a byte for each system page, whose lowest bit says that it is resident.
fn ask(mut at: usize, pages: &mut [Page]) -> bool {
    let mut bytes = [0u8; AT_ONCE];
    for piece in pages.chunks_mut(AT_ONCE) {
        let (to, len) = (bytes.as_mut_ptr().expose_provenance(), piece.len() * page_size());
        let call = || syscall(libc::SYS_mincore, [at, len, to, 0, 0, 0]);
        if !succeeded(counted(Kind::Pagemap, call)) {
            return false;
        }
        for (page, byte) in piece.iter_mut().zip(bytes) {
            *page = if byte & 1 != 0 { Page::Resident } else { Page::Absent };
        }
        at += len;
    }
    true
}

impl Drop for Pagemap {
    fn drop(&mut self) {
        if let Some(fd) = self.0 {
            succeeded(counted(Kind::Pagemap, || syscall(libc::SYS_close, [fd, 0, 0, 0, 0, 0])));
        }
    }
}
