//! What lies at places of a file: by its debug information and its symbol tables.
//!
//! Which files are read is said by a profile, and what they hold by whoever made them. Parsing
//! debug information takes memory and time by what it says, and looks for more files. So each file
//! is read by a process of its own, with an end to its memory and time, and what that finds is read
//! as a text from outside. A file that is too much for it goes without names.

use crate::checked::{self, Lines};
use hakmem_pprof::tool::module::{BUILD_ID, Module, Named};
use hakmem_pprof::tool::symbols::Frame;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// The process's memory that is not of files, its time, and bytes that it may say.
const MEMORY: u64 = 1 << 30;
const TIME: Duration = Duration::from_secs(60);
const SAID: u64 = 32 << 20;
/// No place has more functions in each other.
const FRAMES: usize = 64;
/// Characters of a function's name and of a path, bytes of what is said of a place.
const NAME: usize = 1024;
const LINE: usize = 1 << 20;

/// What lies at these offsets of a file.
pub fn of_file(path: &Path, offsets: &[u64]) -> Named {
    of_places(path, offsets, Module::frames)
}

/// What lies at these addresses that a file is linked for.
pub fn of_linked(path: &Path, addresses: &[u64]) -> Named {
    of_places(path, addresses, Module::frames_at)
}

fn of_places(path: &Path, places: &[u64], frames: fn(&Module, u64) -> Vec<Frame>) -> Named {
    of(|to| {
        let opened = checked::open(path);
        let module = opened.map_or_else(|_| Module::default(), |file| Module::new(file, path));
        writeln!(to, "{}", module.build_id)?;
        for &place in places {
            serde_json::to_writer(&mut *to, &frames(&module, place))?;
            writeln!(to)?;
        }
        Ok(())
    })
}

/// Reads what `work` says in another process.
fn of(work: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Named {
    let mut named = Named::default();
    let Ok(mut child) = Child::start(work) else {
        return named;
    };
    let mut lines = Lines::new(BufReader::new((&mut child).take(SAID)), LINE);
    if let Ok(Some(build_id)) = lines.next() {
        named.build_id = checked::text(build_id, 2 * BUILD_ID);
    }
    while let Ok(Some(line)) = lines.next() {
        let Ok(mut frames) = serde_json::from_str::<Vec<Frame>>(line) else {
            break;
        };
        frames.truncate(FRAMES);
        for frame in &mut frames {
            frame.function = checked::text(&frame.function, NAME);
            frame.linked = checked::text(&frame.linked, NAME);
            frame.file = frame.file.as_ref().map(|f| checked::text(f, NAME));
        }
        named.frames.push(frames);
    }
    named
}

/// A process that says something.
struct Child {
    pid: libc::pid_t,
    said: File,
    until: Instant,
}

impl Child {
    fn start(work: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: fresh descriptors, which nobody else knows.
        let [said, to] = ends.map(|fd| unsafe { File::from_raw_fd(fd) });
        // SAFETY: this program has one thread, so the child may do what this one may.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(said);
                let worked = confine().and_then(|()| {
                    let mut to = BufWriter::new(to);
                    work(&mut to)?;
                    to.flush()
                });
                // SAFETY: ends the child, which leaves nothing to be run at its end.
                unsafe { libc::_exit(worked.is_err().into()) }
            }
            pid => Ok(Self {
                pid,
                said,
                until: Instant::now() + TIME,
            }),
        }
    }
}

/// Gives this process an end, whatever it is led to do.
fn confine() -> io::Result<()> {
    for (what, most) in [
        (libc::RLIMIT_DATA, MEMORY),
        (libc::RLIMIT_CPU, TIME.as_secs()),
        (libc::RLIMIT_CORE, 0),
    ] {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: a live rlimit, twice.
        let set = unsafe {
            libc::getrlimit(what, &mut limit);
            limit.rlim_max = limit.rlim_max.min(most);
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(what, &limit)
        };
        if set != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    let nothing = File::options().write(true).open("/dev/null")?;
    // SAFETY: what it says of its own failure is for nobody; it ends with its parent.
    unsafe {
        libc::dup2(nothing.as_raw_fd(), libc::STDERR_FILENO);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
    Ok(())
}

impl Read for Child {
    /// Nothing more once its time is over: it may wait for somebody.
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        let mut poll = libc::pollfd {
            fd: self.said.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one live pollfd.
        match unsafe { libc::poll(&mut poll, 1, left.as_millis() as libc::c_int) } {
            0 => Ok(0),
            _ => self.said.read(to),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: the child is not reaped, so the pid is its own.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_goes_wrong_goes_without_names() {
        let said = |work: fn(&mut dyn Write) -> io::Result<()>| of(work);
        let all = said(|to| writeln!(to, "a\x1bb\n[]\n[]"));
        assert_eq!((all.build_id.as_str(), all.frames.len()), ("a?b", 2));
        let evil = said(|to| {
            writeln!(
                to,
                "\n[{{\"function\":\"\\u001b\",\"linked\":\"l\",\"file\":null,\"line\":1}}]"
            )?;
            to.flush()?;
            std::process::abort()
        });
        assert_eq!(evil.frames[0][0].function, "?");
        assert_eq!(evil.frames.len(), 1);
        let greedy = said(|to| {
            let all = vec![1u8; 2 << 30];
            writeln!(to, "{}\n[]", all.iter().map(|&n| u64::from(n)).sum::<u64>())
        });
        assert_eq!(greedy, Named::default());
        for path in ["/dev/zero", "/nowhere", "/proc/self/status"] {
            let none = of_file(Path::new(path), &[1, u64::MAX]);
            assert_eq!(none.frames, [vec![], vec![]], "{path}");
        }
    }
}
