//! A process that runs on hakmem, looked at from outside.
//!
//! The allocator keeps its figures in its own memory and says by a note where they are (`note`);
//! they are read from there by `process_vm_readv` (`memory`). So the process need not have been
//! started to be watched, pays nothing for it, and is seen as it is even when it is idle or
//! stopped. It takes the right to trace the process.
//!
//! Nothing keeps the process still meanwhile. A word that was read is one that stood there, but two
//! of them may be of different moments: of a busy program figures may differ by what it did in the
//! millisecond of the reading, of one at rest they are exact. Nothing of it is believed: what the
//! process says of itself is checked by the rules of `checked`.

mod decisions;
pub mod heap_profile;
mod heaps;
mod memory;
mod note;
mod options;
mod process;
mod programs;
mod reading;
pub mod segments;

pub use decisions::{Decision, now};
pub use options::Set;
pub use reading::{Reading, reading as look_at};

use crate::build::Build;
use crate::checked::Budget;
use crate::{proc, users};
use heaps::Heaps;
use memory::{IN_ALL, Memory, u32_at};
use note::Note;
use process::Process;
pub use process::Usage;
pub use programs::text_of;
use segments::{Resident, Segment};
use std::io;

/// What a process is read from.
#[cfg(any(test, fuzzing))]
pub mod source {
    pub use super::memory::{IN_ALL, Memory, PageMap, Source};
    pub use super::note::Note;
}

/// How often a reading is taken anew that fails while the process goes on: it may just be changing
/// what is read.
const TRIES: usize = 3;

/// Why there is nothing to see.
#[derive(Debug)]
pub enum Trouble {
    /// No such process.
    Missing,
    /// It has ended.
    Ended,
    /// It may not be read.
    Forbidden,
    /// It is another user's: who that is, and who this process is.
    Others { owner: String, own: String },
    /// It keeps others out itself.
    Hidden,
    /// It runs another program than before.
    Changed,
    /// It is one of the kernel's, without memory of its own.
    Kernel,
    /// It has no hakmem in it.
    Without { name: String },
    /// Anything else.
    Other(io::Error),
}

impl Trouble {
    /// For the user to read.
    pub fn say(&self, pid: u32) -> String {
        match self {
            Self::Missing => format!("there is no process {pid}"),
            Self::Ended => format!("process {pid} has ended"),
            Self::Kernel => format!("process {pid} is a thread of the kernel: it has no allocator"),
            // SAFETY: `geteuid` has no preconditions.
            Self::Forbidden if unsafe { libc::geteuid() } == 0 => format!(
                "process {pid} may not be read, not even by root: the system keeps processes \
                 apart (kernel.yama.ptrace_scope, a missing CAP_SYS_PTRACE, or another namespace)"
            ),
            Self::Forbidden => format!(
                "process {pid} may not be read: the system keeps processes apart \
                 (kernel.yama.ptrace_scope, or another namespace); use sudo, as root may read it"
            ),
            Self::Others { owner, own } => format!(
                "process {pid} may not be read: it is {owner}'s, and you are {own}; use sudo, or \
                 ask as {owner}"
            ),
            Self::Hidden => format!(
                "process {pid} may not be read: it keeps others out (prctl PR_SET_DUMPABLE, or an \
                 executable that its user \
                 may not read); root may"
            ),
            Self::Changed => format!("process {pid} runs another program than before"),
            Self::Without { name } => format!(
                "process {pid} ({name}) does not run on hakmem: start it by `hakmem run PROG`, or \
                 watch it from its beginning by `hakmem top PROG`"
            ),
            Self::Other(e) if e.raw_os_error() == Some(libc::EFAULT) => format!(
                "cannot look into process {pid}: what its hakmem names lies where it has no memory"
            ),
            Self::Other(e) => format!("cannot look into process {pid}: {}", proc::why(e)),
        }
    }
}

/// A process and where its figures lie, for as long as it runs the same program.
pub struct Target {
    process: Process,
    image: Vec<u8>,
    note: Option<Note>,
}

impl Target {
    pub fn open(pid: u32) -> Result<Self, Trouble> {
        let process = Process::open(pid).map_err(|e| match e.raw_os_error() {
            Some(libc::ESRCH | libc::EINVAL | libc::ENOENT) => Trouble::Missing,
            _ => Trouble::Other(e),
        })?;
        if process.is_kernels() {
            return Err(Trouble::Kernel);
        }
        Ok(Self {
            process,
            image: Vec::new(),
            note: None,
        })
    }

    pub fn pid(&self) -> u32 {
        self.process.pid
    }

    pub fn has_ended(&self) -> bool {
        self.process.has_ended()
    }

    /// Runs `f` on where the figures lie, which is found again if the process executes another
    /// program.
    fn with<R>(&mut self, f: impl Fn(Memory, &Note) -> io::Result<R>) -> Result<R, Trouble> {
        let mut tries = 0;
        loop {
            let result = self.try_with(&f);
            tries += 1;
            return match result {
                Ok(Some(found)) => Ok(found),
                // Its memory goes a moment before it counts as ended.
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Err(Trouble::Ended),
                _ if self.has_ended() => Err(Trouble::Ended),
                Ok(None) => Err(Trouble::Without {
                    name: self.process.usage().name,
                }),
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Err(self.forbidden()),
                Err(e) if e.raw_os_error().is_some() && tries < TRIES => {
                    self.note = None;
                    continue;
                }
                Err(e) => Err(Trouble::Other(e)),
            };
        }
    }

    /// Why the process may not be read.
    fn forbidden(&self) -> Trouble {
        // SAFETY: `geteuid` has no preconditions.
        let own = unsafe { libc::geteuid() };
        match self.process.user() {
            _ if self.process.is_hidden() => Trouble::Hidden,
            Some(owner) if owner != own && own != 0 => Trouble::Others {
                owner: users::name(owner),
                own: users::name(own),
            },
            _ => Trouble::Forbidden,
        }
    }

    fn try_with<R>(&mut self, f: impl Fn(Memory, &Note) -> io::Result<R>) -> io::Result<Option<R>> {
        let budget = Budget::new(IN_ALL, "bytes");
        let image = self.process.image()?;
        let memory = Memory {
            source: &self.process,
            budget: &budget,
        };
        if self.note.is_none() || image != self.image {
            self.note = best_note(memory)?;
            self.image = image;
        }
        self.note.as_ref().map(|note| f(memory, note)).transpose()
    }

    /// Everything that `hakmem top` shows.
    pub fn reading(&mut self) -> Result<Reading, Trouble> {
        let usage = self.process.usage();
        let pid = self.pid();
        self.with(|memory, note| look_at(memory, note, pid, &usage))
    }

    /// What `hakmem map` draws.
    pub fn segments(&mut self) -> Result<(Vec<Segment>, Usage), Trouble> {
        let usage = self.process.usage();
        let segments = self.with(segments_of)?;
        Ok((segments, usage))
    }

    /// What its options are set to, as far as they can be read.
    pub fn options(&mut self) -> Result<Vec<Set>, Trouble> {
        self.with(options::read)
    }

    /// The build that is in it; None: it does not say.
    pub fn build(&mut self) -> Result<Option<Build>, Trouble> {
        self.with(|_, note| Ok(build_of(note)))
    }

    /// Who has its heap profile on, and where that is switched.
    pub fn profile_state(
        &mut self,
    ) -> Result<(heap_profile::State, heap_profile::Switch), Trouble> {
        self.with(|memory, note| {
            let switch = heap_profile::Switch::of(note)?;
            Ok((heap_profile::state(memory, note)?, switch))
        })
    }

    /// What is in the books of its heap profile.
    pub fn books(&mut self) -> Result<heap_profile::Books, Trouble> {
        self.with(heap_profile::read)
    }

    /// What the system gave the program that was last looked at: another after each exec.
    pub fn image(&self) -> &[u8] {
        &self.image
    }

    /// Whether it has executed another program since it was last read.
    pub fn has_changed(&self) -> bool {
        self.process.image().is_ok_and(|image| image != self.image)
    }

    /// Whether it has a filter for system calls that this process has not, and that may end it for
    /// a call of hakmem's. Under filters that it inherited, hakmem makes the loader's calls alone.
    pub fn may_be_ended_by_filter(&mut self) -> Result<bool, Trouble> {
        if !self.process.is_filtered() {
            return Ok(false);
        }
        self.with(|memory, note| {
            let is_on = |name| Ok::<_, io::Error>(memory.bytes(note.place(name)?, 1)? != [0]);
            // Then the program's own code made a filter, which hakmem did not see.
            let none = note.number("filter.none_inherited", 1..=8)? as u32;
            let inherited = u32_at(&memory.bytes(note.place("filter.inherited")?, 4)?, 0);
            Ok(!is_on("filter.seen")? || is_on("filter.made")? || inherited == none)
        })
    }

    /// Whether `hakmem profile --pid` refuses it because of its filter: a profile that the program
    /// has on itself is read in any case.
    pub fn refuses_profile(&mut self) -> Result<bool, Trouble> {
        let (state, _) = self.profile_state()?;
        Ok(state != heap_profile::State::Program && self.may_be_ended_by_filter()?)
    }

    pub fn usage(&self) -> Usage {
        self.process.usage()
    }

    pub fn resident(&self) -> io::Result<Resident> {
        Resident::of(&self.process)
    }
}

/// The build that a note is of; None: it does not say.
fn build_of(note: &Note) -> Option<Build> {
    match note.number("hardened", 0..=1).ok()? {
        0 => Some(Build::Default),
        _ => Some(Build::Hardened),
    }
}

/// The same of a note's description as a file has it.
pub fn build_in_file(description: &[u8]) -> Option<Build> {
    build_of(&Note::parse(description, 0)?)
}

/// What there is in a process, for `hakmem map`.
pub fn segments_of(memory: Memory, note: &Note) -> io::Result<Vec<Segment>> {
    let heaps = Heaps::read(memory, note)?;
    Ok(reading::pages(memory, note, &heaps)?.0)
}

/// A plug-in may carry another hakmem. That of the program is meant, or the library that serves the
/// process; of two such ones the one that made more heaps, or the first.
pub fn best_note(memory: Memory) -> io::Result<Option<Note>> {
    let mut best: Option<((bool, u64), Note)> = None;
    note::each(memory, |note, is_program| {
        // Only the library that replaces the C library's functions sees filters.
        let serves = note.place("filter.seen").and_then(|at| memory.bytes(at, 1));
        let made = note.place("heaps_made").and_then(|at| memory.word(at));
        let rank = (
            is_program || serves.is_ok_and(|seen| seen != [0]),
            made.unwrap_or(0),
        );
        if best.as_ref().is_none_or(|(highest, _)| rank > *highest) {
            best = Some((rank, note));
        }
    })?;
    Ok(best.map(|(_, note)| note))
}
