//! A process as the system sees it: whether it is still there and still runs the same program, and
//! what it uses.

use super::memory::{PageMap, Source};
use super::note;
use crate::checked::{self, Lines};
use crate::proc;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A process that cannot be mistaken for another that got its number.
pub struct Process {
    pub pid: u32,
    handle: OwnedFd,
}

/// What the system says about it.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    pub name: String,
    pub threads: u64,
    /// Of the whole process, the allocator's memory and all other.
    pub resident_bytes: u64,
    pub peak_resident_kib: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub cpu_nanos: u64,
}

impl Process {
    pub fn open(pid: u32) -> io::Result<Self> {
        // SAFETY: a system call with two numbers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor, which nobody else knows.
        let handle = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        Ok(Self { pid, handle })
    }

    /// Whether it has ended, waited for or not.
    pub fn has_ended(&self) -> bool {
        let mut poll = libc::pollfd {
            fd: self.handle.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one live pollfd.
        unsafe { libc::poll(&mut poll, 1, 0) > 0 }
    }

    /// What the kernel gave the program when it was executed, with addresses drawn at random:
    /// another after each exec.
    pub fn image(&self) -> io::Result<Vec<u8>> {
        fs::read(format!("/proc/{}/auxv", self.pid))
    }

    /// Whose it is; None: that cannot be read.
    pub fn user(&self) -> Option<u32> {
        let status = fs::read_to_string(self.status()).ok()?;
        let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        users.split_ascii_whitespace().nth(1)?.parse().ok()
    }

    /// Whether it keeps others out: then its files in /proc are not its user's.
    pub fn is_hidden(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let owner = fs::metadata(self.status()).map(|of| of.uid());
        matches!((self.user(), owner), (Some(user), Ok(owner)) if user != owner)
    }

    fn status(&self) -> String {
        format!("/proc/{}/status", self.pid)
    }

    /// Whether a thread of it has a filter for system calls that this process has not.
    pub fn is_filtered(&self) -> bool {
        let status = |of: &Path| fs::read_to_string(of.join("status")).unwrap_or_default();
        let own = Filters::of(&status(Path::new("/proc/self")));
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid));
        let mut tasks = tasks.into_iter().flatten().flatten();
        tasks.any(|task| Filters::of(&status(&task.path())).are_more_than(&own))
    }

    /// Whether it is a thread of the kernel.
    pub fn is_kernels(&self) -> bool {
        const PF_KTHREAD: u64 = 0x0020_0000;
        let stat = fs::read(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let stat = String::from_utf8_lossy(&stat);
        let flags = proc::behind_name(&stat).nth(6);
        let flags = flags.and_then(|flags| flags.parse::<u64>().ok());
        flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
    }

    pub fn usage(&self) -> Usage {
        let read = |what: &str| {
            let bytes = fs::read(format!("/proc/{}/{what}", self.pid)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (status, stat) = (read("status"), read("stat"));
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(str::trim).unwrap_or_default().to_owned()
        };
        let number = |name: &str| {
            let value = field(name);
            value
                .split(' ')
                .next()
                .and_then(|n| n.parse().ok())
                .unwrap_or(0)
        };
        // SAFETY: only asks for a constant of the system.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
        let words: Vec<u64> = proc::behind_name(&stat)
            .map(|word| word.parse().unwrap_or(0))
            .collect();
        let word = |i: usize| words.get(i).copied().unwrap_or(0);
        let ticks = word(11).saturating_add(word(12));
        Usage {
            name: checked::name(&field("Name:")),
            threads: number("Threads:"),
            resident_bytes: number("VmRSS:") << 10,
            peak_resident_kib: number("VmHWM:"),
            minor_faults: word(7),
            major_faults: word(9),
            cpu_nanos: ticks.saturating_mul(1_000_000_000 / per_second),
        }
    }
}

/// What a thread's status says of its filters for system calls.
struct Filters {
    /// 0: none. 1: only four calls are allowed. 2: filters.
    mode: u64,
    /// Kernels before 5.9 do not tell.
    number: Option<u64>,
}

impl Filters {
    fn of(status: &str) -> Self {
        let number = |name: &str| {
            let mut lines = status.lines();
            let value = lines.find_map(|line| line.strip_prefix(name));
            value.and_then(|n| n.trim().parse().ok())
        };
        Self {
            mode: number("Seccomp:").unwrap_or(0),
            number: number("Seccomp_filters:"),
        }
    }

    /// True for a filter that the other one has not, as far as the system tells.
    fn are_more_than(&self, other: &Self) -> bool {
        match (self.mode, self.number, other.number) {
            (0, ..) => false,
            (2, Some(number), Some(others)) => number > others,
            (2, ..) => other.mode != 2,
            _ => true,
        }
    }
}

/// Bytes for which a reader of [`PageMap`] gets an entry.
const PIECE: u64 = 4096;

fn system_page() -> u64 {
    // SAFETY: only asks for a constant of the system.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(PIECE)
}

impl Source for Process {
    fn read(&self, address: u64, to: &mut [u8]) -> io::Result<()> {
        let local = libc::iovec {
            iov_base: to.as_mut_ptr().cast(),
            iov_len: to.len(),
        };
        let remote = libc::iovec {
            iov_base: std::ptr::without_provenance_mut(address as usize),
            iov_len: to.len(),
        };
        // SAFETY: the local part is a live slice; the remote one is the kernel's to check.
        let read =
            unsafe { libc::process_vm_readv(self.pid as libc::pid_t, &local, 1, &remote, 1, 0) };
        match usize::try_from(read) {
            Ok(n) if n == to.len() => Ok(()),
            Ok(_) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }

    fn each_file(&self, each: &mut dyn FnMut(u64)) -> io::Result<()> {
        // A path has 4 KiB, and four characters for each of its bytes.
        const LINE: usize = 1 << 16;
        let maps = File::open(format!("/proc/{}/maps", self.pid))?;
        let mut lines = Lines::new(BufReader::new(maps), LINE);
        while let Some(line) = lines.next()? {
            note::start_of_file(line).into_iter().for_each(&mut *each);
        }
        Ok(())
    }

    fn page_map(&self) -> io::Result<PageMap> {
        let file = File::open(format!("/proc/{}/pagemap", self.pid))?;
        Ok(Box::new(move |address, to| {
            let page = system_page();
            if page <= PIECE {
                return file.read_exact_at(to, address / PIECE * 8);
            }
            // Each piece of a larger page is as the page.
            let mut pieces = to
                .chunks_exact_mut(8)
                .zip((address..).step_by(PIECE as usize));
            pieces.try_for_each(|(piece, at)| file.read_exact_at(piece, at / page * 8))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_found_by_mode_and_number() {
        let own = Filters::of("Seccomp:\t2\nSeccomp_filters:\t1\n");
        let none = Filters::of("Name:\tx\nSeccomp:\t0\nSeccomp_filters:\t0\n");
        let strict = Filters::of("Seccomp:\t1\nSeccomp_filters:\t0\n");
        let two = Filters::of("Seccomp:\t2\nSeccomp_filters:\t2\n");
        let untold = Filters::of("Seccomp:\t2\n");
        let more = |them: &Filters| (them.are_more_than(&own), them.are_more_than(&none));
        assert_eq!(more(&none), (false, false));
        assert_eq!(more(&own), (false, true));
        assert_eq!(more(&strict), (true, true));
        assert_eq!(more(&two), (true, true));
        assert_eq!(more(&untold), (false, true));
    }
}
