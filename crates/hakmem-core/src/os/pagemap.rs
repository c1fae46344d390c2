//! Which pages of the process's own memory are there, by `/proc/self/pagemap`: eight bytes for each page.
//!
//! mincore would say it in one call, but lists of what services commonly do leave it out, and a filter made from such a
//! list ends the process. Opening, reading and closing a file is on all of them.
//!
//! 1. What cannot be read is not known, and whoever asks goes on without: there is no such file, no descriptor left, or no
//!    right to it.
//! 2. A process that is known to have a filter is not asked (`filter`): not every filter refuses by an error.
//! 3. The file is open for as long as it takes to read it, by the one who asks, so that no descriptor of ours is in the way of
//!    a program that counts its own.

use super::count::{Kind, counted};
use super::filter;
use super::linux::{page_size, succeeded, syscall};

/// The page is in memory.
const PRESENT: u64 = 1 << 63;
/// The page was written to a swap device.
const SWAPPED: u64 = 1 << 62;
/// Pages that are read in one call: a KiB on the stack, which may be a signal handler's.
const AT_ONCE: usize = 128;

/// What [`Pagemap::read`] says of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// It takes no memory, and reads as zero where it may be read.
    Absent,
    /// It is in memory.
    Resident,
    /// It is on a swap device.
    Swapped,
}

/// The open file.
pub struct Pagemap(usize);

impl Pagemap {
    /// None: it cannot be read here.
    pub fn open() -> Option<Self> {
        if filter::is_filtered() {
            return None;
        }
        let name = c"/proc/self/pagemap".as_ptr().expose_provenance();
        let flags = libc::O_CLOEXEC as usize;
        let open = || syscall(libc::SYS_openat, [libc::AT_FDCWD as usize, name, flags, 0, 0, 0]);
        usize::try_from(counted(Kind::Pagemap, open)).ok().map(Self)
    }

    /// Says what the pages of a range are, which begins with one. False: it is not known.
    pub fn read(&self, at: usize, pages: &mut [Page]) -> bool {
        let mut words = [0u64; AT_ONCE];
        let mut first = at / page_size();
        for piece in pages.chunks_mut(AT_ONCE) {
            let words = &mut words[..piece.len()];
            let (to, len) = (words.as_mut_ptr().expose_provenance(), size_of_val(words));
            let call = || syscall(libc::SYS_pread64, [self.0, to, len, first * 8, 0, 0]);
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
}

impl Drop for Pagemap {
    fn drop(&mut self) {
        succeeded(counted(Kind::Pagemap, || syscall(libc::SYS_close, [self.0, 0, 0, 0, 0, 0])));
    }
}
