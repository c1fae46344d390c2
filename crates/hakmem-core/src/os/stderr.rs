//! Standard error, for lines of a process that goes on.
//!
//! A program may close its standard error. Then the next file that it opens has this number, and a
//! line of hakmem would be in the program's data. So hakmem notes which file it was when the first
//! option is set, mostly at the start. A line is written if the descriptor is that file still, a
//! terminal or another character device, or a file to which is appended: a log. The line of an
//! error that ends the process is written in any case.

use super::linux::syscall;
use super::quietly::write_now;
use crate::base::sync::Ordering::{Acquire, Relaxed, Release};
use crate::base::sync::plain::{AtomicBool, AtomicU64};
use core::mem::MaybeUninit;

const STDERR: usize = 2;

/// Which file it was: its device, and its number there. 0 and 0: it was closed.
static FILE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static IS_NOTED: AtomicBool = AtomicBool::new(false);

/// Notes which file standard error is. The first call counts.
pub fn note_stderr() {
    if super::is_filtered() || IS_NOTED.load(Acquire) {
        return;
    }
    if let Some(file) = file() {
        FILE[0].store(file.st_dev, Relaxed);
        FILE[1].store(file.st_ino, Relaxed);
    }
    // Pairs with the load above and in `is_ours`, which then finds both numbers.
    IS_NOTED.store(true, Release);
}

/// Writes a line, if standard error is the program's still. Leaves errno alone. If the descriptor
/// takes no more now, the rest of the line is lost. In a process that made a filter for its system
/// calls, a write that fails leaves signals blocked (`quietly` rule 2).
pub fn write_line(line: &[u8]) {
    if is_ours() {
        let _ = write_now(STDERR as core::ffi::c_int, line);
    }
}

/// A process that made a filter for its system calls asks nothing.
fn is_ours() -> bool {
    super::is_filtered()
        || file().is_some_and(|file| {
            let kind = file.st_mode & libc::S_IFMT;
            let is_noted = IS_NOTED.load(Acquire)
                && [file.st_dev, file.st_ino] == [0, 1].map(|i: usize| FILE[i].load(Relaxed));
            is_noted || kind == libc::S_IFCHR || kind == libc::S_IFREG && is_appended_to()
        })
}

fn file() -> Option<libc::stat> {
    let mut file = MaybeUninit::<libc::stat>::zeroed();
    let to = file.as_mut_ptr().expose_provenance();
    let name = c"".as_ptr().expose_provenance();
    let flags = libc::AT_EMPTY_PATH as usize;
    let result = syscall(libc::SYS_newfstatat, [STDERR, name, to, flags, 0, 0]);
    // SAFETY: the system has filled it in. All zero bytes are one, too.
    (result == 0).then(|| unsafe { file.assume_init() })
}

/// False where a filter may end the process for the question.
fn is_appended_to() -> bool {
    let flags = |fd| syscall(libc::SYS_fcntl, [fd, libc::F_GETFL as usize, 0, 0, 0, 0]);
    !super::is_careful()
        && usize::try_from(flags(STDERR)).is_ok_and(|flags| flags & libc::O_APPEND as usize != 0)
}
