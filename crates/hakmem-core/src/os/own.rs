//! Memory for tables, safe copies of the process's own memory, and the kernel's files.

use core::ffi::CStr;

/// Maps fresh memory outside of the arenas, for tables. It reads as zero. None: the system refuses.
pub fn map_memory(len: usize) -> Option<usize> {
    let at = super::reserve(len)?;
    if super::commit(at, len) {
        return Some(at);
    }
    super::unreserve(at, len);
    None
}

/// Copies the process's own memory from address `from` into `to`. Stops at the first system page
/// that cannot be read, at the end of `to`, or after 12 KiB. Returns how many bytes it copied.
///
/// Any `from` is safe: the kernel copies, so nothing faults. Returns 0 where a sandbox refuses. In
/// a process that is known to have made a filter it returns 0 without a call. One that inherited a
/// filter reads `/proc/self/mem`, which gives pages without access, too. If there is no `/proc`, it
/// returns 0.
#[cfg(not(miri))]
pub fn copy_readable(from: usize, to: &mut [u8]) -> usize {
    use super::count::{Kind, counted};
    const PAGE: usize = 4096;
    const PIECES: usize = 4;
    if super::is_filtered() {
        return 0;
    }
    let room = to.len().min((PIECES - 1) * PAGE).min(usize::MAX - from);
    if super::is_careful() {
        let copied = counted(Kind::Query, || copy_by_file(from, &mut to[..room]));
        return usize::try_from(copied).unwrap_or(0);
    }
    // The kernel copies whole entries of the list or none. So each system page has an entry.
    let mut pieces = [[0usize; 2]; PIECES];
    let (mut count, mut at) = (0, from);
    while at < from + room {
        let next = (at | (PAGE - 1)).saturating_add(1).min(from + room);
        pieces[count] = [at, next - at];
        (count, at) = (count + 1, next);
    }
    let local = [to.as_mut_ptr().expose_provenance(), room];
    let (local, remote) =
        ((&raw const local).expose_provenance(), (&raw const pieces).expose_provenance());
    let me = super::linux::raw(libc::SYS_getpid, [0; 6]) as usize;
    let call =
        || super::linux::syscall(libc::SYS_process_vm_readv, [me, local, 1, remote, count, 0]);
    let copied = counted(Kind::Query, call);
    #[cfg(any(test, feature = "fault-injection"))]
    if copied == -(libc::ENOSYS as isize) {
        return copy_by_pipe(&pieces[..count], to);
    }
    usize::try_from(copied).unwrap_or(0)
}

/// [`copy_readable`] by calls that the loader makes, too. Negative: an error's number.
#[cfg(not(miri))]
fn copy_by_file(from: usize, to: &mut [u8]) -> isize {
    // Emulated system pages change no call for a file that is read as it is.
    use super::linux::raw as syscall;
    let name = c"/proc/self/mem".as_ptr().expose_provenance();
    let flags = libc::O_CLOEXEC as usize;
    let file = syscall(libc::SYS_openat, [libc::AT_FDCWD as usize, name, flags, 0, 0, 0]);
    let Ok(fd) = usize::try_from(file) else { return file };
    let (at, len) = (to.as_mut_ptr().expose_provenance(), to.len());
    let copied = syscall(libc::SYS_pread64, [fd, at, len, from, 0, 0]);
    syscall(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
    copied
}

/// The same for tests under an emulator that has no such call.
#[cfg(all(not(miri), any(test, feature = "fault-injection")))]
fn copy_by_pipe(pieces: &[[usize; 2]], to: &mut [u8]) -> usize {
    use super::linux::raw;
    let mut ends = [0i32; 2];
    raw(libc::SYS_pipe2, [(&raw mut ends).expose_provenance(), 0, 0, 0, 0, 0]);
    let [from, into] = ends.map(|end| end as usize);
    let mut len = 0;
    for [at, bytes] in pieces {
        // The pipe has room for more than all pieces. What cannot be read is not written.
        if raw(libc::SYS_write, [into, *at, *bytes, 0, 0, 0]) != *bytes as isize {
            break;
        }
        raw(libc::SYS_read, [from, to[len..].as_mut_ptr().expose_provenance(), *bytes, 0, 0, 0]);
        len += bytes;
    }
    for end in [from, into] {
        raw(libc::SYS_close, [end, 0, 0, 0, 0, 0]);
    }
    len
}

/// Copies nothing: Miri has no such call.
#[cfg(miri)]
pub fn copy_readable(_: usize, _: &mut [u8]) -> usize {
    0
}

/// Reads a file from its beginning, as much as fits. Returns how many bytes it read: 0 if it cannot
/// open the file, or if the process is known to have made a filter. Not for a terminal or a pipe: a
/// signal can interrupt their reads.
#[cfg(all(test, not(any(miri, loom, shuttle, sanitizer, feature = "fault-injection"))))]
pub fn read_file(name: &CStr, to: &mut [u8]) -> usize {
    let mut len = 0;
    with_file(name, |read| {
        loop {
            match read(&mut to[len..]) {
                // The end of the file, the end of `to`, or an error.
                0 => break,
                n => len += n,
            }
        }
    });
    len
}

/// Calls `f` with a function that reads the next bytes of a file, and returns how many: 0 at its
/// end or after an error. Does not call it if it cannot open the file, or if the process is known
/// to have made a filter.
#[cfg(not(miri))]
pub fn with_file(name: &CStr, f: impl FnOnce(&mut dyn FnMut(&mut [u8]) -> usize)) {
    use super::linux::syscall;
    if super::is_filtered() {
        return;
    }
    // O_RDONLY is 0.
    let flags = libc::O_CLOEXEC as usize;
    let name = name.as_ptr().expose_provenance();
    let Ok(file) =
        usize::try_from(syscall(libc::SYS_openat, [libc::AT_FDCWD as usize, name, flags, 0, 0, 0]))
    else {
        return;
    };
    f(&mut |to| {
        let read =
            syscall(libc::SYS_read, [file, to.as_mut_ptr().expose_provenance(), to.len(), 0, 0, 0]);
        usize::try_from(read).unwrap_or(0)
    });
    syscall(libc::SYS_close, [file, 0, 0, 0, 0, 0]);
}

/// Opens nothing: under Miri the files would be the host's.
#[cfg(miri)]
pub fn with_file(_: &CStr, _: impl FnOnce(&mut dyn FnMut(&mut [u8]) -> usize)) {}
