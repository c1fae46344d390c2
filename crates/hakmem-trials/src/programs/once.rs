//! One run of one program on one library.

use super::server;
use super::table::{Program, Style};
use crate::libraries::Side;
use crate::outcome::{self, outcome, sha256_into};
use hakmem_bench::child;
use hakmem_bench::child::Capture;
use hakmem_bench::sample::{Outcome, Sample, Trace};
use hakmem_bench::tracer::{self, TraceError, Window};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Seconds after which a run is ended: a program that hangs on a library must not hang the
/// comparison. Tracing makes runs several times as long.
const LIMIT: u32 = 600;

/// A program that is installed, and where it works.
#[derive(Debug)]
pub struct Ready<'a> {
    /// The program.
    pub program: &'static Program,
    /// Its executable.
    pub executable: PathBuf,
    /// The folder that holds the folder of inputs.
    pub folder: &'a Path,
}

/// What a run gave before it was summed up.
struct Ran<T> {
    status: ExitStatus,
    figures: T,
    outcome: Outcome,
}

impl Ready<'_> {
    /// A timed run.
    pub fn sample(&self, side: &Side, round: u32) -> Result<Sample, String> {
        let ran = self.run(side, |command| {
            let finished = child::run(command)?;
            Ok((finished.status, finished))
        })?;
        let (usage, wall) = (ran.figures.usage, ran.figures.wall.as_nanos() as u64);
        let nanos = match self.program.style {
            Style::Server => (usage.user_us + usage.system_us) * 1000,
            Style::Alone | Style::OnCopy(..) => wall,
        };
        let name = self.program.name;
        Ok(outcome::sample(
            name,
            side,
            round,
            nanos,
            &ran.figures,
            ran.outcome,
        ))
    }

    /// A run that counts system calls and sees that the library is mapped in the program itself.
    /// `Ok(None)` if this process may not trace.
    pub fn trace(&self, side: &Side) -> Result<Option<(Trace, Outcome)>, String> {
        let library = side.library.as_deref();
        let ran = self.run(side, |command| {
            match tracer::trace(command, Window::Whole, library) {
                Ok(traced) => Ok((traced.status, Some(traced))),
                Err(TraceError::Refused) => Ok((ExitStatus::default(), None)),
                Err(TraceError::Failed(error)) => Err(error),
            }
        })?;
        let Some(traced) = ran.figures else {
            return Ok(None);
        };
        if library.is_some() && !traced.library_seen && ran.status.code().is_some() {
            return Err("ran without the library (is it a static or setuid program?)".to_owned());
        }
        let trace = Trace {
            workload: self.program.name.to_owned(),
            allocator: side.name.clone(),
            ops: 1,
            calls: traced.calls,
        };
        Ok(Some((trace, ran.outcome)))
    }

    fn run<T>(
        &self,
        side: &Side,
        how: impl FnOnce(&mut Command) -> io::Result<(ExitStatus, T)>,
    ) -> Result<Ran<T>, String> {
        self.try_run(side, how).map_err(|e| e.to_string())
    }

    fn try_run<T>(
        &self,
        side: &Side,
        how: impl FnOnce(&mut Command) -> io::Result<(ExitStatus, T)>,
    ) -> io::Result<Ran<T>> {
        let here = tempfile::Builder::new()
            .prefix("run-")
            .tempdir_in(self.folder)?;
        if let Style::OnCopy(input, _) = self.program.style {
            copy(
                &self.folder.join("inputs").join(input),
                &here.path().join(input),
            )?;
        }
        let (stdout, stderr) = (Capture::new()?, Capture::new()?);
        let mut command = self.command(side, here.path());
        command.stdout(stdout.stdio()?).stderr(stderr.stdio()?);
        let started =
            |e| io::Error::other(format!("cannot run {}: {e}", self.executable.display()));
        let (status, figures) = match self.program.style {
            Style::Server => server::drive(here.path(), || how(&mut command).map_err(started))?,
            Style::Alone | Style::OnCopy(..) => how(&mut command).map_err(started)?,
        };
        let mut outcome = outcome(status, stdout, stderr)?;
        if let Style::OnCopy(_, ending) = self.program.style {
            outcome.stdout_sha256 = hash_files(here.path(), ending)?;
        }
        here.close()?;
        Ok(Ran {
            status,
            figures,
            outcome,
        })
    }

    fn command(&self, side: &Side, here: &Path) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .args(self.program.arguments)
            .current_dir(here)
            .stdin(Stdio::null())
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .env("HOME", here)
            .env("TMPDIR", here)
            .env("PYTHONHASHSEED", "0")
            .envs(self.program.environment.iter().copied());
        match &side.library {
            Some(path) => command.env("LD_PRELOAD", path),
            None => command.env_remove("LD_PRELOAD"),
        };
        let limit = || {
            let processor = libc::rlimit {
                rlim_cur: LIMIT.into(),
                rlim_max: LIMIT.into(),
            };
            // SAFETY: two system calls, one with a number and one with a live structure, that are
            // allowed between fork and exec. The alarm stays set over exec; the limit holds for
            // children, too.
            match unsafe {
                libc::alarm(LIMIT);
                libc::setrlimit(libc::RLIMIT_CPU, &raw const processor)
            } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        // SAFETY: the closure makes two system calls, and an error from a number is made without
        // allocating.
        unsafe { command.pre_exec(limit) };
        command
    }
}

/// Copies a folder with all in it.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// The hash of the names and contents of all files below `folder` whose names end in `.ending`.
fn hash_files(folder: &Path, ending: &str) -> io::Result<String> {
    let mut files = Vec::new();
    collect(folder, ending, &mut files)?;
    files.sort();
    let mut hash = Sha256::new();
    for file in &files {
        hash.update(file.file_name().unwrap_or_default().as_encoded_bytes());
        sha256_into(&mut hash, File::open(file)?)?;
    }
    Ok(hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

fn collect(folder: &Path, ending: &str, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), ending, files)?;
        } else if entry.path().extension().is_some_and(|e| e == ending) {
            files.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_folder_has_the_same_product_and_a_changed_one_has_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("deep")).expect("writable");
        fs::write(from.join("deep/a.pack"), "one").expect("writable");
        fs::write(from.join("b.other"), "two").expect("writable");
        copy(&from, &to).expect("copied");
        let hash = |folder: &Path| hash_files(folder, "pack").expect("readable");
        assert_eq!(hash(&from), hash(&to));
        fs::write(to.join("b.other"), "three").expect("writable");
        assert_eq!(hash(&from), hash(&to), "of another ending");
        fs::write(to.join("deep/a.pack"), "four").expect("writable");
        assert_ne!(hash(&from), hash(&to));
    }
}
