//! Stacks in reports: return addresses, each with the loaded object that has it.
//!
//! Rule: `TAKEN` guards the scratch of the unwinder. A thread that finds it taken records no
//! frames: another thread, or code that its signal interrupted, is recording.

use crate::base::renew::Renew;
use crate::base::sync::Ordering::{Acquire, Relaxed, Release};
use crate::base::sync::plain::{AtomicBool, AtomicU32, AtomicUsize};
use crate::os::{self, Registers};
use crate::unwind::stack::Scratch;
use core::cell::UnsafeCell;
use core::fmt::Write;

/// Return addresses that are kept, nearest first.
const DEPTH: usize = 24;

struct Shared(UnsafeCell<Scratch>);
// SAFETY: `TAKEN` lets one user in at a time (rule).
unsafe impl Sync for Shared {}

static SCRATCH: Shared = Shared(UnsafeCell::new(Scratch::new()));
#[unsafe(link_section = ".data.hakmem")]
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The stack of a thread at some moment.
pub struct Stack {
    thread: AtomicU32,
    len: AtomicU32,
    frames: [AtomicUsize; DEPTH],
}

impl Stack {
    /// Without frames.
    pub const fn new() -> Self {
        Self {
            thread: AtomicU32::new(0),
            len: AtomicU32::new(0),
            frames: [const { AtomicUsize::new(0) }; DEPTH],
        }
    }

    /// Records the calling thread's stack. O(frames).
    #[inline(never)]
    pub fn record(&self) {
        self.record_by(|scratch| self.keep(scratch.follow()));
    }

    /// Records the stack of the code that was interrupted in these registers.
    pub fn record_from(&self, registers: &Registers) {
        self.record_by(|scratch| self.keep(scratch.follow_from(*registers)));
    }

    fn record_by(&self, follow: impl FnOnce(&mut Scratch)) {
        // What an earlier block left is forgotten in any case.
        self.thread.store(0, Relaxed);
        self.len.store(0, Relaxed);
        // A filter may end the process for the calls that this makes.
        if os::is_filtered() {
            return;
        }
        self.thread.store(os::numbers().1, Relaxed);
        if !TAKEN.swap(true, Acquire) {
            // SAFETY: the flag was not set, so nobody else uses the scratch.
            let scratch = unsafe { &mut *SCRATCH.0.get() };
            scratch.forget();
            follow(scratch);
            TAKEN.store(false, Release);
        }
    }

    /// Keeps the frames beyond those of this library.
    fn keep(&self, frames: &[usize]) {
        let here = (Self::record as fn(&Self) as *const ()).addr();
        let own = if os::in_program(here) { None } else { os::object_of(here) };
        let is_own = |pc: &&usize| own.is_some_and(|own| (own.start..own.end).contains(*pc));
        let beyond = frames.iter().skip_while(is_own).take(DEPTH);
        let kept = self.frames.iter().zip(beyond).map(|(to, pc)| to.store(*pc, Relaxed)).count();
        self.len.store(kept as u32, Relaxed);
    }

    /// " by thread N", with the number that the system gives it. Empty if it is not known.
    pub fn by(&self) -> By {
        By(self.thread.load(Relaxed))
    }

    /// Writes a line for each frame.
    pub fn show(&self) {
        let len = self.len.load(Relaxed) as usize;
        for (i, pc) in self.frames.iter().take(len).map(|pc| pc.load(Relaxed)).enumerate() {
            match os::place_of(pc) {
                Some((name, offset)) => {
                    os::detail(format_args!("    #{i} {pc:#x} ({}+{offset:#x})", Name(name)))
                }
                None => os::detail(format_args!("    #{i} {pc:#x}")),
            }
        }
        if len == 0 {
            os::detail(format_args!("    no stack is known"));
        }
    }
}

/// A thread in a report. 0: none is known.
pub struct By(u32);

impl core::fmt::Display for By {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            0 => Ok(()),
            thread => write!(f, " by thread {thread}"),
        }
    }
}

/// The process in a report: its number, and the program's name without its folder. Several
/// processes may append to one file.
pub struct Process;

impl core::fmt::Display for Process {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "process {}", os::process())?;
        match os::program().rsplit(|&byte| byte == b'/').next() {
            None | Some([]) => Ok(()),
            Some(name) => write!(f, " ({})", Name(name)),
        }
    }
}

/// A file's name, cut at its beginning if it is long. It cannot break the line that it is in.
struct Name(&'static [u8]);

impl core::fmt::Display for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let name = &self.0[self.0.len().saturating_sub(160)..];
        let chars = name.utf8_chunks().flat_map(|chunk| chunk.valid().chars());
        chars.map(|c| if c.is_control() { '?' } else { c }).try_for_each(|c| f.write_char(c))
    }
}

/// For the child of a fork: the thread that had the scratch is not there.
pub fn after_fork() {
    TAKEN.renew(false);
}

/// Writes the calling thread's stack, behind the line of an error. The work has a stack of its own:
/// the error may be a signal handler's. Signals wait meanwhile: one would begin at the top of the
/// handler's stack, as the kernel sees that the thread is not on it. Under a filter the work is
/// little, as no stack is recorded.
pub fn show_own() {
    #[cfg(not(any(miri, shuttle)))]
    if !os::is_filtered() {
        let here = crate::unwind::here();
        let signals = os::block_signals();
        os::on_own_stack(|| show_recorded(|stack| stack.record_from(&here)));
        return os::restore_signals(signals);
    }
    show_recorded(Stack::record);
}

fn show_recorded(record: impl FnOnce(&Stack)) {
    let stack = Stack::new();
    record(&stack);
    match stack.by() {
        By(0) => os::detail(format_args!("a thread of {Process}:")),
        By(thread) => os::detail(format_args!("thread {thread} of {Process}:")),
    }
    stack.show();
}
