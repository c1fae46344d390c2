//! The processes that a program leaves running, such as a daemon whose first process ends at once.
//!
//! They have the names of the files for their reports in their environment, and write there when
//! they end. A process may write over its environment, as services do to show what they do. Such a
//! process counts if it has the library mapped and is not older than this command.

use crate::checked;
use crate::view::Target;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The numbers of the processes that have `folder` in their environment, or run on `library` and
/// have none.
pub fn by(folder: &Path, library: Option<&Path>) -> Vec<u32> {
    let own = std::process::id();
    let begun = begun(own);
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_left = |&pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        has(&environment, folder.as_os_str().as_bytes())
            || !has(&environment, b"HAKMEM_STATS=")
                && begun.is_some_and(|begun| self::begun(pid).is_some_and(|at| at >= begun))
                && library.is_some_and(|library| has_mapped(pid, library))
    };
    let mut all: Vec<_> = numbers.filter(|&pid| pid != own).filter(is_left).collect();
    all.sort_unstable();
    all
}

fn has(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn has_mapped(pid: u32, library: &Path) -> bool {
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    has(&maps, library.as_os_str().as_bytes())
}

/// When a process began, in ticks of the system's clock.
fn begun(pid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name, in parentheses, may have any character in it. The 20th word behind it is the time.
    stat.rsplit(')')
        .next()?
        .split_ascii_whitespace()
        .nth(19)?
        .parse()
        .ok()
}

/// True if hakmem has served this process.
pub fn is_served(pid: u32) -> bool {
    let reading = Target::open(pid).and_then(|mut target| target.reading());
    reading.is_ok_and(|reading| reading.moment.allocations > 0)
}

/// The line for these processes, for whose reports `folder` stays.
pub fn message(pids: &[u32], folder: &Path) -> String {
    let folder = checked::name(&folder.to_string_lossy());
    match pids {
        [pid] => format!("process {pid} goes on; {folder} stays, for its report"),
        [first, ..] => format!(
            "{} processes go on, of which {first} is one; {folder} stays, for their reports",
            pids.len()
        ),
        [] => String::new(),
    }
}
