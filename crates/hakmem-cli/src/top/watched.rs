//! Whom `hakmem top` watches: a process that is there, or a program that it starts; and the signals
//! meanwhile.

use crate::child::{self, Child, End};
use crate::prepared::Prepared;
use crate::program::NotStarted;
use crate::run;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// What happened in a short time.
pub enum Turn {
    Nothing,
    /// The program that was started has ended.
    Ended(End),
    /// This process is to end.
    Signal(i32),
    /// The terminal has another size.
    Resized,
}

/// A program that was started, and where what it writes goes.
pub struct Started {
    child: Child,
    output: Option<[File; 2]>,
    /// Holds the link to the library, where its path cannot be preloaded as it is.
    _prepared: Prepared,
}

pub enum Watched {
    /// A process that was there already. This process has blocked all signals by the time that it
    /// asks for a `turn`.
    Found,
    Started(Started),
}

impl Started {
    /// Runs the program on hakmem. `kept`: what it writes is kept for later, for the terminal shows
    /// something else.
    pub fn new(command: &[OsString], lib: Option<&Path>, kept: bool) -> Result<Self, NotStarted> {
        let prepared = Prepared::new(command, lib)?;
        let file = || {
            let folder = prepared.scratch().folder();
            tempfile::tempfile_in(folder).map_err(|e| NotStarted {
                why: format!("cannot make a file in {}: {e}", folder.display()),
                status: run::OWN_FAILURE,
            })
        };
        let output = if kept { Some([file()?, file()?]) } else { None };
        let child = prepared.start(&prepared.environment(), output.as_ref())?;
        Ok(Self {
            child,
            output,
            _prepared: prepared,
        })
    }

    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Whether what the program writes is kept for later.
    pub fn keeps_output(&self) -> bool {
        self.output.is_some()
    }

    /// Passes on what the program has written, once it has ended.
    pub fn pass_output_on(&self) {
        let Some([output, errors]) = &self.output else {
            return;
        };
        // A reader that is gone is no failure of the program's.
        let _ = copy(output, &mut io::stdout());
        let _ = copy(errors, &mut io::stderr());
    }

    /// Waits for the program's end, passing signals on.
    pub fn wait(&self) -> End {
        self.child.wait()
    }

    pub fn interrupt(&self) {
        self.child.kill(libc::SIGINT);
    }
}

/// Reads at places of its own: the program's next write goes to where the file stands.
fn copy(file: &File, to: &mut dyn Write) -> io::Result<()> {
    let (mut at, mut piece) = (0, [0; 1 << 16]);
    loop {
        let n = file.read_at(&mut piece, at)?;
        if n == 0 {
            return to.flush();
        }
        to.write_all(&piece[..n])?;
        at += n as u64;
    }
}

impl Watched {
    /// Waits up to `time` for a signal.
    pub fn turn(&self, time: Duration) -> Turn {
        match self {
            Self::Started(started) => match started.child.step(time) {
                child::Step::Ended(end) => Turn::Ended(end),
                child::Step::Signal(libc::SIGWINCH) => Turn::Resized,
                _ => Turn::Nothing,
            },
            Self::Found => match child::take_signal(time) {
                Some(libc::SIGWINCH) => Turn::Resized,
                Some(
                    signal @ (libc::SIGINT
                    | libc::SIGTERM
                    | libc::SIGHUP
                    | libc::SIGQUIT
                    | libc::SIGALRM
                    | libc::SIGPIPE
                    | libc::SIGUSR1
                    | libc::SIGUSR2),
                ) => Turn::Signal(signal),
                Some(signal @ (libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU)) => {
                    child::stop_by(signal);
                    Turn::Resized
                }
                _ => Turn::Nothing,
            },
        }
    }
}
