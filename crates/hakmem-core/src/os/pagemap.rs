//! Which system pages of the process are resident. `/proc/self/pagemap` has eight bytes for each.
//!
//! mincore would answer in one call. But lists of calls that services commonly make leave mincore
//! out, and a filter made from such a list would end the process. All such lists allow a process to
//! open, read and close a file.
//!
//! Rules
//! 1. If the file cannot be opened or read, the caller goes on without the answer. Reasons: no such
//!    file, no descriptor left, no right to it.
//! 2. A process that is known to have a filter does not open the file (`filter`): a filter may end
//!    the process instead of refusing the call.
//! 3. Each caller opens the file, reads it and closes it. So a program that counts its descriptors
//!    finds none of hakmem's.

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

/// The open file.
pub struct Pagemap(usize);

impl Pagemap {
    /// Opens the file. None: it cannot be opened here (rules 1, 2).
    pub fn open() -> Option<Self> {
        if filter::is_filtered() {
            return None;
        }
        let name = c"/proc/self/pagemap".as_ptr().expose_provenance();
        let flags = libc::O_CLOEXEC as usize;
        let open = || syscall(libc::SYS_openat, [libc::AT_FDCWD as usize, name, flags, 0, 0, 0]);
        usize::try_from(counted(Kind::Pagemap, open)).ok().map(Self)
    }

    /// Fills in `pages` for the system pages from address `at`, the first byte of one. False:
    /// unknown.
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
