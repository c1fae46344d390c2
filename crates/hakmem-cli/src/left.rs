//! The processes that a program leaves running, such as a daemon whose first process ends at once.
//!
//! They run on hakmem, began after this command, and have the names of the files for their reports
//! in their environment. A process may write over its environment, as services do to show what they
//! do: then it has none of these variables.

use crate::named::Named;
use crate::view::Target;
use crate::{checked, proc};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// The longest file on a process that is read, in bytes. An environment has 2 MiB at most, unless
/// somebody raised the limit of the stack.
const MOST: u64 = 4 << 20;

/// How long a process may take to end, or to execute another program.
const MOMENT: Duration = Duration::from_millis(100);

/// The numbers of the processes that go on. Those that are about to end are none, nor those that a
/// shell has just made for another program: what is found is looked at again after a moment.
pub fn by(folder: &Path, served: &Path) -> Vec<u32> {
    let first = found(folder, served);
    if first.is_empty() {
        return first;
    }
    thread::sleep(MOMENT);
    let second = found(folder, served);
    first
        .into_iter()
        .filter(|pid| second.contains(pid))
        .collect()
}

/// The numbers of the processes that have `folder` in their environment, or no environment, and in
/// which `served` is mapped: the library, or the program that has hakmem inside.
fn found(folder: &Path, served: &Path) -> Vec<u32> {
    let own = std::process::id();
    let Some(begun) = begun(own) else {
        return Vec::new();
    };
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut all: Vec<_> = numbers
        .filter(|&pid| pid != own && self::begun(pid).is_some_and(|at| at >= begun))
        .filter(|&pid| has_mapped(pid, served) && is_told(pid, folder.as_os_str()))
        .collect();
    all.sort_unstable();
    all
}

/// Whether a process has `folder` in its environment, or has written over that.
fn is_told(pid: u32, folder: &OsStr) -> bool {
    let environment = read(pid, "environ");
    let has = |part: &[u8]| has(&environment, part);
    let is_whole = has(b"HAKMEM_STATS=") || has(b"LD_PRELOAD=");
    has(folder.as_bytes()) || !environment.is_empty() && !is_whole
}

fn has_mapped(pid: u32, file: &Path) -> bool {
    has(&read(pid, "maps"), file.as_os_str().as_bytes())
}

fn has(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// When a process began, in ticks of the system's clock.
fn begun(pid: u32) -> Option<u64> {
    let stat = read(pid, "stat");
    let stat = String::from_utf8_lossy(&stat);
    proc::behind_name(&stat).nth(19)?.parse().ok()
}

/// A file of /proc on a process. Empty: it cannot be read.
fn read(pid: u32, name: &str) -> Vec<u8> {
    checked::start(Path::new(&format!("/proc/{pid}/{name}")), MOST).unwrap_or_default()
}

/// True if this process is one of the program `executed`, and hakmem has served it. A process that
/// may not be read is taken for one that was not served.
pub fn is_served(pid: u32, executed: &Path) -> bool {
    let file = fs::read_link(format!("/proc/{pid}/exe"));
    if !file.is_ok_and(|file| file == executed) {
        return false;
    }
    let reading = Target::open(pid).and_then(|mut target| target.reading());
    reading.is_ok_and(|reading| reading.moment.allocations > 0)
}

/// The line for these processes, for whose reports `folder` stays.
pub fn message(pids: &[u32], folder: &Path) -> String {
    let folder = checked::name(&folder.to_string_lossy());
    let named: Named = pids.iter().copied().collect();
    match named.is_one() {
        true => format!("{} goes on; {folder} stays, for its report", named.text()),
        false => format!("{} go on; {folder} stays, for their reports", named.text()),
    }
}
