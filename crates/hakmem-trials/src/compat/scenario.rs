//! One run of one script on one side, in a folder of its own, as a user without rights.

use super::proof::Served;
use super::results::{DEADLINE, Run};
use super::runner::{self, Line};
use super::table::{self, Program};
use super::tree;
use crate::executables::find;
use crate::inputs;
use crate::libraries::Side;
use crate::outcome::sha256_into;
use hakmem_bench::child::{Capture, ending};
use hakmem_bench::probes::library::HAKMEM;
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Who the programs run as when this program runs as root, which some servers refuse: nobody.
const NOBODY: u32 = 65534;

/// Where scripts, inputs and copies of the libraries lie; removed when dropped.
#[derive(Debug)]
pub struct Stage {
    folder: tempfile::TempDir,
    user: Option<u32>,
}

/// A run, and what it wrote.
pub struct Finished {
    /// The figures.
    pub run: Run,
    /// Standard output.
    pub output: String,
}

impl Stage {
    /// Sets everything up that the programs share. Libraries are copied: the user may not see where
    /// they come from.
    pub fn new(sides: &mut [Side]) -> io::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("hakmem-compat-")
            .tempdir()?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        // SAFETY: takes and returns numbers.
        let user = (unsafe { libc::geteuid() } == 0).then_some(NOBODY);
        let stage = Self { folder, user };
        fs::copy(std::env::current_exe()?, stage.path("runner"))?;
        for side in sides.iter_mut() {
            if let Some(library) = &mut side.library {
                let copy = stage.path(&format!("lib-{}", side.name));
                fs::create_dir(&copy)?;
                let copy = copy.join(library.file_name().unwrap_or_default());
                fs::copy(&*library, &copy)?;
                *library = copy;
            }
        }
        fs::create_dir(stage.path("files"))?;
        for (name, content) in table::FILES {
            fs::write(stage.path("files").join(name), content)?;
        }
        fs::create_dir(stage.path("in"))?;
        let git = find("git");
        inputs::write(&stage.path("in"), git.as_deref())?;
        stage.give(&stage.path("in"))?;
        Ok(stage)
    }

    /// Where everything lies.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes the user the owner of a folder with all in it.
    fn give(&self, folder: &Path) -> io::Result<()> {
        let Some(user) = self.user else { return Ok(()) };
        chown(folder, Some(user), Some(user))?;
        if folder.is_dir() && !folder.is_symlink() {
            for entry in fs::read_dir(folder)? {
                self.give(&entry?.path())?;
            }
        }
        Ok(())
    }

    /// Writes the script and runs its `setup`, without a library.
    pub fn set_up(&self, program: &Program) -> Result<(), String> {
        let fail = |e: io::Error| e.to_string();
        let here = self.path(program.name);
        fs::create_dir(&here).map_err(fail)?;
        let text = format!("{}\n{}\n\"$1\"\n", table::PRELUDE, program.script);
        fs::write(self.path(&format!("{}.sh", program.name)), text).map_err(fail)?;
        self.give(&here).map_err(fail)?;
        let errors = Capture::new().map_err(fail)?;
        let mut command = self.command(program, "setup", &here);
        command
            .stdout(Stdio::null())
            .stderr(errors.stdio().map_err(fail)?);
        match run_until(&mut command, Duration::from_secs(program.deadline)).map_err(fail)? {
            Some((status, _)) if status.success() => Ok(()),
            Some((status, _)) => {
                let words = errors.text().map_err(fail)?;
                Err(format!(
                    "its setup failed: {}: {}",
                    ending(status),
                    words.trim()
                ))
            }
            None => Err("its setup did not end".to_owned()),
        }
    }

    fn command(&self, program: &Program, part: &str, here: &Path) -> Command {
        let mut command = Command::new("bash");
        command
            .arg(self.path(&format!("{}.sh", program.name)))
            .arg(part)
            .current_dir(here)
            .stdin(Stdio::null())
            .env_clear()
            .env(
                "PATH",
                "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
            )
            .env("IN", self.path("in"))
            .env("FILES", self.path("files"))
            .env("HERE", self.path(program.name))
            .env("COMPAT_RUNNER", self.path("runner"))
            .env("COMPAT_REPORT", here.join(".report"));
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        runner::with_fresh_signals(&mut command);
        command
    }

    /// One run.
    pub fn run(&self, program: &Program, side: &Side, round: u32) -> io::Result<Finished> {
        let here = tempfile::Builder::new()
            .prefix("run-")
            .tempdir_in(self.folder())?;
        self.give(here.path())?;
        let (stdout, stderr) = (Capture::new()?, Capture::new()?);
        let mut command = self.command(program, "run", here.path());
        command.stdout(stdout.stdio()?).stderr(stderr.stdio()?);
        let account = here.path().join(".served");
        serve(&mut command, side, &account);
        let deadline = Duration::from_secs(program.deadline);
        let start = Instant::now();
        let ended = run_until(&mut command, deadline)?;
        let seconds = ended
            .map_or(start.elapsed(), |(_, wall)| wall)
            .as_secs_f64();
        let lines = reported(here.path());
        let (served, mut unserved) = self.account(side, &account, &lines);
        unserved.sort();
        let mut endings: Vec<String> = lines
            .iter()
            .map(|l| format!("{}: {}", l.program, l.ending))
            .collect();
        endings.sort();
        let output = stdout.text()?;
        let mut hash = Sha256::new();
        sha256_into(&mut hash, output.as_bytes())?;
        let seen = lines.iter().any(|l| l.seen > 0);
        let run = Run {
            program: program.name.to_owned(),
            side: side.name.clone(),
            round,
            script: script(program),
            library: String::new(),
            ending: ended.map_or(DEADLINE.to_owned(), |(status, _)| ending(status)),
            endings,
            output: hex(hash),
            seconds,
            cpu_seconds: lines.iter().map(|l| l.cpu_micros).sum::<u64>() as f64 / 1e6,
            peak_rss_kib: lines.iter().map(|l| l.peak_rss_kib).max().unwrap_or(0),
            maps: lines.iter().map(|l| l.maps).max().unwrap_or(0),
            mapped: (seen && side.library.is_some()).then(|| lines.iter().any(|l| l.mapped)),
            served,
            unserved,
            note: self.last_words(&stderr.text()?, here.path()),
        };
        // What a program leaves behind may belong to others, or still be written to.
        let _ = here.close();
        Ok(Finished { run, output })
    }

    fn account(&self, side: &Side, file: &Path, lines: &[Line]) -> (Option<Served>, Vec<String>) {
        if side.name != HAKMEM {
            return (None, Vec::new());
        }
        let text = fs::read_to_string(file).unwrap_or_default();
        let programs: Vec<(&str, u32)> =
            lines.iter().map(|l| (l.program.as_str(), l.pid)).collect();
        let (served, unserved) = Served::read(&text, &programs);
        (Some(served), unserved)
    }

    /// The last lines of standard error, without the names of folders.
    fn last_words(&self, text: &str, here: &Path) -> String {
        let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(3)..].join(" / ");
        let last = last.replace(&here.display().to_string(), "");
        let last = last.replace(&self.folder().display().to_string(), "");
        last.chars().take(400).collect()
    }
}

/// Tells the runner which library the programs get, and hakmem where to leave its account.
fn serve(command: &mut Command, side: &Side, account: &Path) {
    if let Some(library) = &side.library {
        command.env(runner::LIBRARY, library);
    }
    if side.name == HAKMEM {
        let wish = format!("HAKMEM_STATS=json:{}", account.display());
        command.env(runner::VARIABLE, wish);
    }
}

/// What the runner reported in the folder of a run.
fn reported(here: &Path) -> Vec<Line> {
    let text = fs::read_to_string(here.join(".report")).unwrap_or_default();
    let lines = text.lines().filter_map(|l| serde_json::from_str(l).ok());
    lines.collect()
}

/// The hash of all that a program's result depends on here.
pub fn script(program: &Program) -> String {
    let mut hash = Sha256::new();
    hash.update(table::PRELUDE);
    hash.update(program.script);
    for (name, content) in table::FILES
        .iter()
        .filter(|(name, _)| program.script.contains(name))
    {
        hash.update(name);
        hash.update(content);
    }
    hex(hash)
}

/// A hash in words.
pub fn hex(hash: Sha256) -> String {
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Runs a command to its end, but no longer than `deadline`; then nothing of it is left. `None`
/// after the deadline.
fn run_until(
    command: &mut Command,
    deadline: Duration,
) -> io::Result<Option<(ExitStatus, Duration)>> {
    let start = Instant::now();
    let mut child = tree::start(command)?;
    let ended = loop {
        let status = child.try_wait().inspect_err(|_| {
            // Whoever ends everything waits for the child, too.
            tree::stay_if_stopping();
        })?;
        if let Some(status) = status {
            break Some((status, start.elapsed()));
        }
        if start.elapsed() > deadline {
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    tree::end_all();
    // A run that was ended from outside is no result.
    tree::stay_if_stopping();
    Ok(ended)
}
