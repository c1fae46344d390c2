//! Settings of the machine that a test changes and puts back.

use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A setting of the whole machine, put back when this is dropped. Other programs are disturbed
/// meanwhile, so it is changed only where `TEST_HAKMEM_MACHINE=1` says that the machine is the
/// tests' own.
pub struct Setting {
    file: PathBuf,
    before: String,
}

impl Setting {
    pub fn change(file: &str, to: &str) -> Result<Self> {
        if std::env::var_os("TEST_HAKMEM_MACHINE").is_none_or(|v| v != "1") {
            let why = "changed for the whole machine only with TEST_HAKMEM_MACHINE=1";
            return Err(Error::new(ErrorKind::PermissionDenied, why));
        }
        let text = std::fs::read_to_string(file)?;
        // One of several words is in brackets, or there is one alone.
        let chosen = text
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'));
        let before = chosen.map_or(text.trim(), |(word, _)| word).to_owned();
        std::fs::write(file, to)?;
        let file = file.into();
        Ok(Self { file, before })
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        std::fs::write(&self.file, &self.before).expect("the setting can be put back");
    }
}

/// A memory cgroup below the test's own, removed when this is dropped.
pub struct Cgroup {
    directory: PathBuf,
    /// The second version of the interface.
    unified: bool,
}

impl Cgroup {
    pub fn new(bytes: u64) -> Result<Self> {
        let (own, unified) = own_group()?;
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Relaxed);
        let directory = own.join(format!("hakmem-{}-{number}", std::process::id()));
        std::fs::create_dir(&directory)?;
        let group = Self { directory, unified };
        let limit = if unified {
            "memory.max"
        } else {
            "memory.limit_in_bytes"
        };
        std::fs::write(group.directory.join(limit), bytes.to_string())?;
        Ok(group)
    }

    /// The file that a process writes its number to, to become a member.
    pub fn members(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }

    /// The most memory that its members have had.
    pub fn peak(&self) -> u64 {
        let file = if self.unified {
            "memory.peak"
        } else {
            "memory.max_usage_in_bytes"
        };
        let text = std::fs::read_to_string(self.directory.join(file)).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Members that have ended leave it a moment later.
        while let Err(e) = std::fs::remove_dir(&self.directory) {
            if e.kind() != ErrorKind::ResourceBusy {
                eprintln!("{}: {e}", self.directory.display());
                return;
            }
            std::thread::yield_now();
        }
    }
}

/// The directory of the test's own memory group, and whether its interface is the second version's.
fn own_group() -> Result<(PathBuf, bool)> {
    let text = std::fs::read_to_string("/proc/self/cgroup")?;
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let path = path.trim_start_matches('/');
        if controllers.split(',').any(|name| name == "memory") {
            return Ok((Path::new("/sys/fs/cgroup/memory").join(path), false));
        }
        let unified = Path::new("/sys/fs/cgroup").join(path);
        let enabled = std::fs::read_to_string(unified.join("cgroup.subtree_control"));
        if controllers.is_empty() && enabled.is_ok_and(|names| names.contains("memory")) {
            return Ok((unified, true));
        }
    }
    Err(Error::new(
        ErrorKind::NotFound,
        "the controller is not here",
    ))
}
