//! What a process asks about itself: its own memory, as far as it is there, and what the kernel tells in files.

use core::ffi::CStr;

/// Fresh memory, readable and writable, which reads as zero: for books that do not lie in an arena. None: there is none.
pub fn map_memory(len: usize) -> Option<usize> {
    let at = super::reserve(len)?;
    if super::commit(at, len) {
        return Some(at);
    }
    super::unreserve(at, len);
    None
}

/// Copies the process's own memory from `from` on, up to the first page that cannot be read or the end of `to`. Returns how
/// many bytes. Nothing faults, whatever `from` is; some sandboxes refuse it, which copies nothing, and a process that is known
/// to have a filter is not asked.
#[cfg(not(miri))]
pub fn copy_readable(from: usize, to: &mut [u8]) -> usize {
    use super::count::{Kind, counted};
    const PAGE: usize = 4096;
    const PIECES: usize = 4;
    if super::is_filtered() {
        return 0;
    }
    let room = to.len().min((PIECES - 1) * PAGE).min(usize::MAX - from);
    // What is there is copied by whole pieces: one for each page.
    let mut pieces = [[0usize; 2]; PIECES];
    let (mut count, mut at) = (0, from);
    while at < from + room {
        let next = (at | (PAGE - 1)).saturating_add(1).min(from + room);
        pieces[count] = [at, next - at];
        (count, at) = (count + 1, next);
    }
    let local = [to.as_mut_ptr().expose_provenance(), room];
    let (local, remote) = ((&raw const local).expose_provenance(), (&raw const pieces).expose_provenance());
    let me = super::linux::raw(libc::SYS_getpid, [0; 6]) as usize;
    let call = || super::linux::syscall(libc::SYS_process_vm_readv, [me, local, 1, remote, count, 0]);
    usize::try_from(counted(Kind::Query, call)).unwrap_or(0)
}

/// Its interpreter has no such call.
#[cfg(miri)]
pub fn copy_readable(_: usize, _: &mut [u8]) -> usize {
    0
}

/// Reads a file from its beginning, as much as fits. Returns how many bytes; 0 also if it cannot be read, and in a process that
/// is known to have a filter. Not for what a signal
/// may interrupt, as a terminal.
#[cfg(not(miri))]
pub fn read_file(name: &CStr, to: &mut [u8]) -> usize {
    use super::linux::syscall;
    if super::is_filtered() {
        return 0;
    }
    // For reading: without a flag of its own.
    let flags = libc::O_CLOEXEC as usize;
    let name = name.as_ptr().expose_provenance();
    let Ok(file) = usize::try_from(syscall(libc::SYS_openat, [libc::AT_FDCWD as usize, name, flags, 0, 0, 0])) else {
        return 0;
    };
    let mut len = 0;
    loop {
        let rest = &mut to[len..];
        let read = syscall(libc::SYS_read, [file, rest.as_mut_ptr().expose_provenance(), rest.len(), 0, 0, 0]);
        match usize::try_from(read) {
            Ok(1..) => len += read as usize,
            // The end of the file or of the room; or an error.
            _ => break,
        }
    }
    syscall(libc::SYS_close, [file, 0, 0, 0, 0, 0]);
    len
}

/// Its files are the host's.
#[cfg(miri)]
pub fn read_file(_: &CStr, _: &mut [u8]) -> usize {
    0
}
