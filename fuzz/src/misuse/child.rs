//! The child process that an error is made in, and what may become of it.

use super::HARDENED;
use crate::sequence::wait;
use libc::{c_int, c_void, siginfo_t};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsRawFd, FromRawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// What is promised for an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Promise {
    /// The process ends in that very call, by SIGABRT with one report.
    Refused = 1,
    /// Nothing happens: not to the blocks of the same page either.
    Harmless = 2,
    /// One or the other.
    RefusedOrHarmless = 3,
    /// The process ends by SIGABRT with one report, now or later, or it goes on, and only blocks of
    /// the same page are handed out twice or written to.
    Confined = 4,
    /// As `Confined`, but the allocator may also follow what the program wrote over a link, and
    /// fault there.
    Followed = 5,
}

/// Where the child was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Phase {
    Before = 0,
    Error = 1,
    After = 2,
}

/// Counters of the fuzzer's instrumentation that the child can hand back.
const COUNTERS: usize = 1 << 16;
/// CPU seconds after which a child hangs.
const SECONDS: i64 = 20;

/// What child and parent share.
struct Shared {
    promise: AtomicU32,
    phase: AtomicU32,
    /// `Promise::Followed`: the address that may fault.
    wild: AtomicUsize,
    /// Where the program writes although it may not. 0: nowhere.
    written: AtomicUsize,
    /// 1 if a page had blocks of a size that only `GlobalAlloc` has, after others.
    odd: AtomicU32,
    signal: AtomicI32,
    fault: AtomicUsize,
    /// The instruction, from the beginning of the program.
    at: AtomicUsize,
    counters: [AtomicU8; COUNTERS],
}

fn shared() -> &'static Shared {
    static SHARED: OnceLock<&Shared> = OnceLock::new();
    SHARED.get_or_init(|| {
        // SAFETY: a fresh mapping, zero, which is a valid value, and for ever.
        unsafe {
            let (read_write, flags) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            );
            let size = size_of::<Shared>();
            let memory = libc::mmap(std::ptr::null_mut(), size, read_write, flags, -1, 0);
            assert_ne!(memory, libc::MAP_FAILED);
            &*memory.cast()
        }
    })
}

/// Says what will be expected. To be called before the error is made; `wild` is the address that
/// may fault.
pub fn promise(promise: Promise, wild: usize) {
    shared().promise.store(promise as u32, Relaxed);
    shared().wild.store(wild, Relaxed);
}

/// Says that the program writes to `at`, where its block was. In the hardened build this may fault:
/// the place may be part of a block by now that was fenced after its free.
pub fn note_write(at: usize) {
    shared().written.store(at, Relaxed);
}

/// Says that there are blocks whose size is no multiple of 16 where others were. What one of those
/// holds besides a link, on its way to another thread although its page has ended, may then lie
/// where a link is looked for: no address, which faults when it is followed.
pub fn note_odd_page() {
    shared().odd.store(1, Relaxed);
}

/// Says where the child is.
pub fn enter(phase: Phase) {
    shared().phase.store(phase as u32, Relaxed);
}

#[cfg(fuzzing)]
unsafe extern "C" {
    // The linker's names for the section of the counters.
    static __start___sancov_cntrs: AtomicU8;
    static __stop___sancov_cntrs: AtomicU8;
}

#[cfg(fuzzing)]
fn counters() -> &'static [AtomicU8] {
    let (start, stop) = (
        &raw const __start___sancov_cntrs,
        &raw const __stop___sancov_cntrs,
    );
    // SAFETY: the section's bytes, which any thread may write.
    unsafe { std::slice::from_raw_parts(start, stop.addr() - start.addr()) }
}

/// There are none without the fuzzer.
#[cfg(not(fuzzing))]
fn counters() -> &'static [AtomicU8] {
    &[]
}

/// In the child: hands back what was reached. By plain loads and stores, as a signal handler does
/// it.
fn hand_back() {
    for (from, to) in counters().iter().zip(&shared().counters) {
        to.store(from.load(Relaxed), Relaxed);
    }
}

extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let shared = shared();
    // SAFETY: the kernel's description of the signal and of what it interrupted.
    unsafe {
        let context = &*context.cast::<libc::ucontext_t>();
        let kernel = (*info).si_code == 128; // SI_KERNEL: the address is no address.
        let fault = if kernel {
            usize::MAX
        } else {
            (*info).si_addr().addr()
        };
        let at = context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
        let mut program: libc::Dl_info = std::mem::zeroed();
        libc::dladdr(on_signal as *const c_void, &mut program);
        shared
            .at
            .store(at.wrapping_sub(program.dli_fbase.addr()), Relaxed);
        shared.fault.store(fault, Relaxed);
        shared.signal.store(signal, Relaxed);
    }
    hand_back();
    // The handler is gone: a fault comes again and ends the process. The scavenger would send
    // SIGABRT again only after seconds, in which this process might end as if nothing had happened.
    if signal == libc::SIGABRT {
        // SAFETY: a signal to this thread, which takes it once this handler returns.
        unsafe { libc::raise(signal) };
    }
}

/// In the child: ends by the signals themselves, without the fuzzer's handlers, and not by waiting
/// for ever.
fn prepare(stderr: &File) {
    // SAFETY: settings of this process, by valid arguments.
    unsafe {
        libc::dup2(stderr.as_raw_fd(), 2);
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        for signal in [
            libc::SIGABRT,
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGILL,
            libc::SIGFPE,
        ] {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESETHAND | libc::SA_ONSTACK;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
        libc::signal(libc::SIGPROF, libc::SIG_DFL);
        let mut timer: libc::itimerval = std::mem::zeroed();
        timer.it_value.tv_sec = SECONDS;
        libc::setitimer(libc::ITIMER_PROF, &timer, std::ptr::null_mut());
    }
}

/// How a child ended.
#[derive(Debug)]
#[expect(dead_code, reason = "all of it is printed")]
pub struct Ending {
    promise: u32,
    phase: u32,
    wild: usize,
    written: usize,
    odd: bool,
    status: c_int,
    fault: usize,
    at: usize,
    stderr: String,
}

/// Runs `f` in a child process.
pub fn run(f: impl FnOnce()) -> Ending {
    static STDERR: OnceLock<File> = OnceLock::new();
    let mut stderr = STDERR.get_or_init(|| {
        // SAFETY: a descriptor that is nobody else's.
        let file =
            unsafe { File::from_raw_fd(libc::memfd_create(c"stderr".as_ptr(), libc::MFD_CLOEXEC)) };
        assert!(file.as_raw_fd() >= 0);
        file
    });
    stderr.set_len(0).unwrap();
    stderr.rewind().unwrap();
    let shared = shared();
    promise(Promise::Harmless, 0);
    enter(Phase::Before);
    shared.odd.store(0, Relaxed);
    shared.written.store(0, Relaxed);
    for counter in &shared.counters {
        counter.store(0, Relaxed);
    }
    // SAFETY: the child ends by `_exit` or a signal. The fuzzer's other threads hold nothing that
    // it needs.
    let child = unsafe { libc::fork() };
    if child == 0 {
        prepare(stderr);
        if catch_unwind(AssertUnwindSafe(f)).is_err() {
            std::process::abort();
        }
        hand_back();
        // The scavenger may have found the error, and be about to end the process. A report that
        // begins only now is lost, and the run fails. The gap is microseconds long.
        if stderr.metadata().is_ok_and(|report| report.len() > 0) {
            std::thread::sleep(Duration::from_secs(10));
        }
        // SAFETY: nothing is to run here that the parent will run.
        unsafe { libc::_exit(0) };
    }
    assert!(child > 0, "{}", std::io::Error::last_os_error());
    let status = wait(child);
    for (to, from) in counters().iter().zip(&shared.counters) {
        to.store(to.load(Relaxed).max(from.load(Relaxed)), Relaxed);
    }
    let mut text = vec![];
    stderr.rewind().unwrap();
    stderr.read_to_end(&mut text).unwrap();
    Ending {
        promise: shared.promise.load(Relaxed),
        phase: shared.phase.load(Relaxed),
        wild: shared.wild.load(Relaxed),
        written: shared.written.load(Relaxed),
        odd: shared.odd.load(Relaxed) != 0,
        status,
        fault: shared.fault.load(Relaxed),
        at: shared.at.load(Relaxed),
        stderr: String::from_utf8_lossy(&text).into_owned(),
    }
}

impl Ending {
    fn survived(&self) -> bool {
        self.status == 0 && self.stderr.is_empty()
    }

    /// By SIGABRT, with one report of ours and nothing else: what was seen, the place, the thread
    /// and its stack.
    fn refused(&self) -> bool {
        let is_ours = |line: &str| line.starts_with("hakmem: ");
        libc::WIFSIGNALED(self.status)
            && libc::WTERMSIG(self.status) == libc::SIGABRT
            && self.stderr.lines().all(is_ours)
            && self.stderr.ends_with('\n')
            && self.stderr.starts_with("hakmem: ")
    }

    /// By a fault at this address.
    fn faulted_at(&self, address: usize) -> bool {
        libc::WIFSIGNALED(self.status)
            && libc::WTERMSIG(self.status) == libc::SIGSEGV
            && self.fault.wrapping_sub(address) < 16
    }

    /// True if the promise was kept.
    pub fn is_as_promised(&self) -> bool {
        let at_once = self.phase == Phase::Error as u32;
        let later = at_once || self.phase == Phase::After as u32;
        let odd = self.odd && self.faulted_at(usize::MAX);
        match self.promise {
            1 => self.refused() && at_once,
            2 => self.survived(),
            3 => self.survived() || self.refused() && at_once,
            4 | 5 if HARDENED && at_once && self.written != 0 && self.faulted_at(self.written) => {
                true
            }
            4 => self.survived() || (self.refused() || odd) && later,
            5 => {
                let followed = self.faulted_at(self.wild);
                self.survived() || (self.refused() || odd || followed) && later
            }
            _ => false,
        }
    }
}
