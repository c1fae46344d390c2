//! Where `hakmem doctor` reads from. Everything that it knows of the system and of a process comes
//! through here, so that tests can put a folder in the place of the system.

use crate::build::Build;
use crate::checked::{self, Lines};
use crate::view::{Target, Trouble};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

/// Longer files are read up to here.
const MOST: u64 = 1 << 20;

/// A system call that hakmem uses where it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Populate,
    Membarrier,
    ReadMemory,
}

pub struct Root {
    folder: PathBuf,
    is_real: bool,
}

impl Root {
    /// The system itself, or a folder that stands for it. In such a folder, `calls/NAME` has the
    /// number of the error that a system call fails with, and `calls/PID` what looking into a
    /// process comes to: `served`, `served hardened`, `served filtered`, `forbidden`, `others`, or
    /// `without`.
    pub fn new(folder: Option<&Path>) -> Self {
        Self {
            folder: folder.unwrap_or(Path::new("/")).into(),
            is_real: folder.is_none(),
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path.trim_start_matches('/'))
    }

    /// A file's text, without the white space around it. None: it cannot be read.
    pub fn read(&self, path: &str) -> Option<String> {
        let bytes = checked::start(&self.path(path), MOST).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    pub fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.parse().ok()
    }

    /// Whether there is a file or a folder of this name.
    pub fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Whether /proc is mounted.
    pub fn has_proc(&self) -> bool {
        self.has("/proc/self")
    }

    /// The number of lines.
    pub fn lines(&self, path: &str) -> Option<u64> {
        let mut lines = Lines::new(
            BufReader::new(checked::open(&self.path(path)).ok()?),
            1 << 16,
        );
        let mut n = 0;
        while lines.next().ok()?.is_some() {
            n += 1;
        }
        Some(n)
    }

    /// Where a process finds a file: it may be in a container. In a folder that stands for the
    /// system, files of programs are those of the system itself.
    pub fn of_process(&self, process: &str, path: &str) -> PathBuf {
        let place = format!("/proc/{process}/root/{}", path.trim_start_matches('/'));
        let places = [self.path(&place), self.path(path)];
        let found = places.into_iter().find(|place| place.exists());
        found.unwrap_or_else(|| path.into())
    }

    /// Where a link leads.
    pub fn link(&self, path: &str) -> Option<PathBuf> {
        std::fs::read_link(self.path(path)).ok()
    }

    /// A value behind its name in a file of lines `Name: value`.
    pub fn field(&self, path: &str, name: &str) -> Option<String> {
        let text = self.read(path)?;
        let value = |line: &str| {
            Some(
                line.strip_prefix(name)?
                    .strip_prefix(':')?
                    .trim()
                    .to_owned(),
            )
        };
        text.lines().find_map(value)
    }

    /// The same, of a value in KiB: in bytes.
    pub fn kib_field(&self, path: &str, name: &str) -> Option<u64> {
        let value = self.field(path, name)?;
        let kib: u64 = value.strip_suffix(" kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    }

    /// The bytes of a system page.
    pub fn page_size(&self) -> Option<u64> {
        match self.is_real {
            // SAFETY: only asks for a constant of the system.
            true => u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok(),
            false => self.number("calls/page_size"),
        }
    }

    /// Tries a system call on this process.
    pub fn call(&self, call: Call) -> io::Result<()> {
        if self.is_real {
            return tried(call);
        }
        let name = match call {
            Call::Populate => "calls/madvise",
            Call::Membarrier => "calls/membarrier",
            Call::ReadMemory => "calls/process_vm_readv",
        };
        match self.number(name) {
            Some(error) => Err(io::Error::from_raw_os_error(error as i32)),
            None => Ok(()),
        }
    }

    /// Looks into a process as `hakmem top` does. The build of its hakmem, if that is known.
    pub fn look(&self, pid: u32) -> Result<Option<Build>, Trouble> {
        if self.is_real {
            let mut target = Target::open(pid)?;
            target.reading()?;
            return target.build();
        }
        match self.read(&format!("calls/{pid}")).as_deref() {
            Some("served" | "served filtered") => Ok(Some(Build::Default)),
            Some("served hardened") => Ok(Some(Build::Hardened)),
            Some("forbidden") => Err(Trouble::Forbidden),
            Some("others") => Err(Trouble::Others {
                owner: "root".into(),
                own: "nobody".into(),
            }),
            Some("kernel") => Err(Trouble::Kernel),
            Some("without") => Err(Trouble::Without {
                name: "prog".into(),
            }),
            _ => Err(Trouble::Missing),
        }
    }

    /// Whether `hakmem profile --pid` refuses a process that runs on hakmem, because of its filter.
    pub fn refuses_profile(&self, pid: u32) -> bool {
        if self.is_real {
            let target = Target::open(pid);
            return target.is_ok_and(|mut target| target.refuses_profile().unwrap_or(false));
        }
        self.read(&format!("calls/{pid}")).as_deref() == Some("served filtered")
    }
}

fn tried(call: Call) -> io::Result<()> {
    match call {
        Call::Populate => populate(),
        Call::Membarrier => {
            // SAFETY: registers this process and touches no memory.
            let result = unsafe {
                libc::syscall(
                    libc::SYS_membarrier,
                    libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
                    0,
                    0,
                )
            };
            said(result as i64)
        }
        Call::ReadMemory => {
            let (from, mut to) = ([1u8; 8], [0u8; 8]);
            let part = |base: *mut u8| libc::iovec {
                iov_base: base.cast(),
                iov_len: 8,
            };
            let (local, remote) = (part(to.as_mut_ptr()), part(from.as_ptr().cast_mut()));
            // SAFETY: both parts are live arrays of eight bytes; the kernel only reads `from`.
            let result =
                unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
            said(result as i64)
        }
    }
}

/// Faults in a fresh map.
fn populate() -> io::Result<()> {
    const LEN: usize = 1 << 16;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh map at a place of the kernel's choice.
    let map = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            LEN,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        )
    };
    if map == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the map made above, which nobody else knows.
    unsafe {
        let result = said(libc::madvise(map, LEN, libc::MADV_POPULATE_WRITE).into());
        libc::munmap(map, LEN);
        result
    }
}

fn said(result: i64) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
