//! Writing without allocating: text is formatted into a fixed buffer and leaves in one `write`.

use super::cancel;
use super::errno::Reason;
use crate::api::c;
use core::ffi::c_int;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};

/// A text of at most `N` bytes; what goes beyond is cut off and remembered.
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
    cut: bool,
}

#[allow(clippy::new_without_default, reason = "nobody is generic over it")]
impl<const N: usize> Text<N> {
    pub const fn new() -> Self {
        Self { bytes: [0; N], len: 0, cut: false }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// What was written, if no name in it was cut or odd.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or("")
    }

    /// An empty text in memory of its own, fresh from the system. Null: there is none.
    pub fn map() -> *mut Self {
        // SAFETY: a fresh mapping touches nothing that exists.
        let page = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                size_of::<Self>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        // Aligned to a page; all zero bytes are an empty text.
        if page == libc::MAP_FAILED { core::ptr::null_mut() } else { page.cast() }
    }

    /// Gives it back.
    ///
    /// # Safety
    /// It was made by [`Text::map`], and nobody refers to it any more.
    pub unsafe fn unmap(this: *mut Self) {
        // SAFETY: a mapping of this length, which the caller does not refer to any more.
        unsafe { libc::munmap(this.cast(), size_of::<Self>()) };
    }

    /// Forgets what was written.
    pub fn clear(&mut self) {
        (self.len, self.cut) = (0, false);
    }

    /// Whether everything fitted.
    pub fn is_whole(&self) -> bool {
        !self.cut
    }

    /// Appends bytes, for names that need not be UTF-8.
    pub fn push(&mut self, bytes: &[u8]) {
        let n = bytes.len().min(N - self.len);
        self.bytes[self.len..][..n].copy_from_slice(&bytes[..n]);
        self.len += n;
        self.cut |= n < bytes.len();
    }
}

impl<const N: usize> Write for Text<N> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.push(s.as_bytes());
        Ok(())
    }
}

/// Bytes for people: not always UTF-8, and never a line break.
pub struct Lossy<'a>(pub &'a [u8]);

impl fmt::Display for Lossy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&b| match b {
            b' '..=b'~' => f.write_char(char::from(b)),
            _ => f.write_char('?'),
        })
    }
}

/// What a write that fails sends to its own thread.
const SIGNALS: [c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

/// Writes all of `bytes`, in one system call if it takes as much. False if it did not take everything. Neither a pipe that
/// nobody reads nor a limit on a file's size ends the program, which did not ask for the write.
pub fn write_all(fd: c_int, bytes: &[u8]) -> bool {
    write(fd, bytes).is_ok()
}

/// [`write_all`], and why it did not take everything.
pub fn write(fd: c_int, bytes: &[u8]) -> Result<(), Reason> {
    cancel::held_off(|| {
        if c::is_filtered() {
            blocking_signals(|| write_rest(fd, bytes))
        } else {
            without_signals(&SIGNALS, || write_rest(fd, bytes))
        }
    })
}

/// Waits until a descriptor takes more, a second at most. One that does not wait by itself is a pipe or a terminal that we opened
/// so, and whoever reads there may have stopped.
fn takes_more(fd: c_int) -> bool {
    let mut wanted = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one struct, valid for the write.
    !c::is_filtered() && unsafe { libc::poll(&raw mut wanted, 1, 1000) } == 1
}

fn write_rest(fd: c_int, mut rest: &[u8]) -> Result<(), Reason> {
    while !rest.is_empty() {
        // SAFETY: the pointer and length are those of a slice.
        let written = unsafe { libc::write(fd, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(0) => return Err(Reason(libc::EIO)),
            Ok(n) => rest = &rest[n..],
            Err(_) => match Reason::last() {
                Reason(libc::EINTR) => {}
                Reason(libc::EAGAIN) if takes_more(fd) => {}
                reason => return Err(reason),
            },
        }
    }
    Ok(())
}

/// Runs `f`; these signals, which it sends to its own thread if it fails, do not come through.
fn without_signals<R>(signals: &[c_int], f: impl FnOnce() -> R) -> R {
    let mut before = core::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    let mut pending = core::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    let mut ours = core::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    let no_time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the sets are live, and initialised by sigemptyset, sigpending and pthread_sigmask before they are read.
    unsafe {
        libc::sigemptyset(ours.as_mut_ptr());
        libc::sigpending(pending.as_mut_ptr());
        for &signal in signals {
            // One that was pending already is the program's.
            if libc::sigismember(pending.as_ptr(), signal) == 0 {
                libc::sigaddset(ours.as_mut_ptr(), signal);
            }
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, ours.as_ptr(), before.as_mut_ptr());
        let result = f();
        super::errno::preserved(|| while libc::sigtimedwait(ours.as_ptr(), core::ptr::null_mut(), &no_time) > 0 {});
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), core::ptr::null_mut());
        result
    }
}

/// A write in a process with a filter has left its signals blocked, and maybe pending.
static LEFT_BLOCKED: AtomicBool = AtomicBool::new(false);

/// [`without_signals`] in a process that has a filter, which may end it for asking what is pending: if `f` fails, they stay
/// blocked.
fn blocking_signals<E>(f: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    let mut before = core::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    let mut ours = core::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the sets are live, and initialised by sigemptyset and pthread_sigmask before they are read.
    unsafe {
        libc::sigemptyset(ours.as_mut_ptr());
        for signal in SIGNALS {
            libc::sigaddset(ours.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, ours.as_ptr(), before.as_mut_ptr());
        let done = f();
        if done.is_ok() {
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), core::ptr::null_mut());
        } else {
            LEFT_BLOCKED.store(true, Relaxed);
        }
        done
    }
}

/// At the end of a signal's handler: what a write of its thread has left blocked stays so where it returns to.
///
/// # Safety
/// `context` is what the system gave the handler.
pub unsafe fn leave_blocked(context: *mut libc::ucontext_t) {
    if LEFT_BLOCKED.load(Relaxed) {
        for signal in SIGNALS {
            // SAFETY: the system gave the handler this context, and reads it again when the handler
            // returns.
            unsafe { libc::sigaddset(&raw mut (*context).uc_sigmask, signal) };
        }
    }
}

/// One line on stderr, under our name.
#[cold]
pub fn stderr_line(message: fmt::Arguments<'_>) {
    let mut line = Text::<512>::new();
    // Writing into a Text never fails; too long a line is cut, its end is kept free for the line break.
    let _ = write!(line, "hakmem: {message}");
    line.len = line.len.min(511);
    line.push(b"\n");
    super::errno::preserved(|| write_all(libc::STDERR_FILENO, line.as_bytes()));
}

/// Says on stderr that something asked for is lost, and why. Once in a process, however much it is.
#[cold]
pub fn say_lost(message: fmt::Arguments<'_>) {
    /// Who has said it. The child of a fork is another.
    static SAID: AtomicI32 = AtomicI32::new(0);
    // SAFETY: no preconditions.
    let pid = unsafe { libc::getpid() };
    if SAID.swap(pid, Relaxed) != pid {
        stderr_line(message);
    }
}
