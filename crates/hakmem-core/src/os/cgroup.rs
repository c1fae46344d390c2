//! What the system says of the memory that the process may use: the limits of its cgroups, and the
//! pressure. Nothing here allocates.
//!
//! `/proc/self/cgroup` has the path of the process's cgroup, `/proc/self/mountinfo` the folder
//! where the tree of cgroups is mounted. A cgroup has at most what each of its ancestors has. So
//! the limit is the least of all, up to the mount point. A namespace of cgroups may have a mount
//! that was made outside: what is known then is the limit of the mount point alone. In version 2 of
//! cgroups a limit is `memory.high` or `memory.max`, in version 1 it is `memory.limit_in_bytes`.

use core::ffi::CStr;

/// Files by name. Tests have their own.
pub trait Files {
    /// Calls `f` for each line of a file, without its end. For none, if it cannot be read.
    fn each_line(&self, name: &CStr, f: &mut dyn FnMut(&[u8]));
}

/// The system's own files.
pub struct Real;

impl Files for Real {
    fn each_line(&self, name: &CStr, f: &mut dyn FnMut(&[u8])) {
        super::lines::each_line_of(name, f);
    }
}

/// The name of a file.
struct Name {
    /// Ends with a NUL, at the latest in the last byte.
    bytes: [u8; 1024],
    len: usize,
}

impl Name {
    const fn new() -> Self {
        Self { bytes: [0; 1024], len: 0 }
    }

    /// Appends to the name. None: there is no room.
    fn push(&mut self, more: &[u8]) -> Option<()> {
        let end = self.len + more.len();
        if end >= self.bytes.len() {
            return None;
        }
        self.bytes[self.len..end].copy_from_slice(more);
        self.len = end;
        Some(())
    }

    fn cut(&mut self, len: usize) {
        self.bytes[len..self.len].fill(0);
        self.len = len;
    }

    fn text(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Calls `f` with the name and `/file` behind it.
    fn with<R>(&mut self, file: &[u8], f: impl FnOnce(&CStr) -> R) -> Option<R> {
        let len = self.len;
        let pushed = self.push(b"/").and_then(|()| self.push(file));
        let result = pushed.and_then(|()| CStr::from_bytes_until_nul(&self.bytes).ok()).map(f);
        self.cut(len);
        result
    }
}

/// How well a mount of cgroups serves to find a cgroup. The best comes first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// The cgroup lies in it.
    Has,
    /// The cgroup does not lie in it, by its path.
    Other,
    /// Its own path leads out of the process's namespace of cgroups.
    Outside,
}

/// The folder of the process's cgroup.
struct Cgroup {
    folder: Name,
    /// The bytes of the name that are the mount point.
    mount: usize,
    /// False: it is one of version 1.
    is_second: bool,
}

impl Cgroup {
    /// The cgroup that limits the process's memory. None: the files do not say.
    fn find(files: &impl Files) -> Option<Self> {
        let (mut first, mut second) = (Name::new(), Name::new());
        files.each_line(c"/proc/self/cgroup", &mut |line| {
            let mut fields = line.splitn(3, |&byte| byte == b':');
            let (_, Some(kinds), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
                return;
            };
            let name = match kinds {
                b"" => &mut second,
                _ if has_word(kinds, b"memory") => &mut first,
                _ => return,
            };
            name.cut(0);
            let _ = name.push(path);
        });
        let is_second = first.len == 0;
        let path = if is_second { second } else { first };
        let mut found: Option<(Fit, Self)> = None;
        files.each_line(c"/proc/self/mountinfo", &mut |line| {
            if let Some(other) = Self::of_mount(line, path.text(), is_second)
                && found.as_ref().is_none_or(|(fit, _)| other.0 < *fit)
            {
                found = Some(other);
            }
        });
        found.map(|(_, cgroup)| cgroup).filter(|_| path.len > 0)
    }

    /// The folder of the cgroup at `path`, if a line of `mountinfo` is that of its tree.
    fn of_mount(line: &[u8], path: &[u8], is_second: bool) -> Option<(Fit, Self)> {
        let mut words = line.split(|&byte| byte == b' ');
        let root = words.nth(3)?;
        let mount = words.next()?;
        let mut behind = words.skip_while(|&word| word != b"-").skip(1);
        let (kind, options) = (behind.next()?, behind.nth(1)?);
        let is_it = if is_second {
            kind == b"cgroup2"
        } else {
            kind == b"cgroup" && has_word(options, b"memory")
        };
        if !is_it {
            return None;
        }
        let mut folder = Name::new();
        folder.push(mount)?;
        // A container may see a part of the tree only, under another name.
        let root = root.strip_suffix(b"/").unwrap_or(root);
        let leads_out = |path: &[u8]| path.windows(3).any(|three| three == b"/..");
        let inside = path
            .strip_prefix(root)
            .filter(|rest| rest.is_empty() || rest.starts_with(b"/"))
            .filter(|rest| !leads_out(rest));
        let fit = match inside {
            Some(_) => Fit::Has,
            None if leads_out(root) => Fit::Outside,
            None => Fit::Other,
        };
        let inside = inside.unwrap_or(b"");
        folder.push(inside.strip_suffix(b"/").unwrap_or(inside))?;
        Some((fit, Self { folder, mount: mount.len(), is_second }))
    }

    /// The least limit of the cgroup and of its ancestors.
    fn limit(mut self, files: &impl Files) -> Option<u64> {
        let names: &[&[u8]] = if self.is_second {
            &[b"memory.high", b"memory.max"]
        } else {
            &[b"memory.limit_in_bytes"]
        };
        let mut least = u64::MAX;
        loop {
            for file in names {
                self.folder.with(file, |name| {
                    files.each_line(name, &mut |line| {
                        least = least.min(number(line).unwrap_or(u64::MAX))
                    });
                });
            }
            let slash = self.folder.text().iter().rposition(|&byte| byte == b'/');
            match slash.filter(|&slash| slash >= self.mount) {
                Some(slash) => self.folder.cut(slash),
                None => break,
            }
        }
        // Version 1 says the largest multiple of a system page if there is no limit.
        (least < 1 << 60).then_some(least)
    }
}

/// The bytes of memory that the process's cgroups allow. None: they set no limit, or the files
/// cannot be read. O(ancestors), and the mounts of the system.
pub fn memory_limit(files: &impl Files) -> Option<u64> {
    Cgroup::find(files)?.limit(files)
}

/// The share of the last ten seconds in which some task waited for memory, in hundredths of a per
/// cent: in the process's cgroup, or in the whole system if cgroups do not say. None: the system
/// does not say.
pub fn pressure(files: &impl Files) -> Option<u32> {
    let mut found = None;
    let mut note = |line: &[u8]| found = found.or_else(|| avg10(line));
    let cgroup = Cgroup::find(files).filter(|cgroup| cgroup.is_second);
    cgroup.and_then(|mut cgroup| {
        cgroup.folder.with(b"memory.pressure", |name| files.each_line(name, &mut note))
    });
    if found.is_none() {
        files
            .each_line(c"/proc/pressure/memory", &mut |line| found = found.or_else(|| avg10(line)));
    }
    found
}

/// The first average in a line such as `some avg10=1.23 avg60=0.50 avg300=0.10 total=12345`.
fn avg10(line: &[u8]) -> Option<u32> {
    let text = line.strip_prefix(b"some avg10=")?;
    let mut parts = text.split(|&byte| byte == b' ').next()?.split(|&byte| byte == b'.');
    let (whole, part) = (number(parts.next()?)?, parts.next().and_then(number).unwrap_or(0));
    u32::try_from(whole.checked_mul(100)?.checked_add(part)?).ok()
}

/// The number that a text of digits stands for. None: it has other bytes (`max`), or none.
fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |n, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        n.checked_mul(10)?.checked_add(digit)
    })
}

/// True if `word` is one of the words between commas.
fn has_word(list: &[u8], word: &[u8]) -> bool {
    list.split(|&byte| byte == b',').any(|one| one == word)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::super::lines::{LINE, each_line};
    use super::*;
    use std::string::{String, ToString};
    use std::vec::Vec;

    /// Files with a text each.
    struct Fake(Vec<(&'static str, String)>);

    impl Files for Fake {
        fn each_line(&self, name: &CStr, f: &mut dyn FnMut(&[u8])) {
            let name = name.to_str().unwrap();
            if let Some((_, text)) = self.0.iter().find(|(known, _)| *known == name) {
                let mut rest = text.as_bytes();
                // Small pieces: lines lie across them. Miri takes seconds for a hundred pieces.
                let piece = if cfg!(miri) { 61 } else { 7 };
                let mut read = |to: &mut [u8]| {
                    let n = rest.len().min(to.len()).min(piece);
                    to[..n].copy_from_slice(&rest[..n]);
                    rest = &rest[n..];
                    n
                };
                each_line(&mut read, f);
            }
        }
    }

    fn fake(files: &[(&'static str, &str)]) -> Fake {
        Fake(files.iter().map(|(name, text)| (*name, (*text).to_string())).collect())
    }

    const SECOND: &str = "22 1 0:20 / /proc rw - proc proc rw\n\
        31 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
    const FIRST: &str = "40 39 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
        41 39 0:31 /docker/abc /sys/fs/cgroup/memory rw shared:1 master:2 - \
        cgroup cgroup rw,memory\n\
        42 39 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_least_limit_of_all_ancestors_counts() {
        let with = |own: &str, high: &str, above: &str| {
            memory_limit(&fake(&[
                ("/proc/self/cgroup", "0::/a.slice/b\n"),
                ("/proc/self/mountinfo", SECOND),
                ("/sys/fs/cgroup/a.slice/b/memory.max", own),
                ("/sys/fs/cgroup/a.slice/b/memory.high", high),
                ("/sys/fs/cgroup/a.slice/memory.max", above),
            ]))
        };
        assert_eq!(with("1000\n", "max\n", "max\n"), Some(1000));
        assert_eq!(with("1000\n", "900\n", "max\n"), Some(900));
        assert_eq!(with("1000\n", "900\n", "800\n"), Some(800));
        assert_eq!(with("max\n", "max\n", "max\n"), None);
        assert_eq!(with("", "x\n", "99999999999999999999\n"), None, "nonsense is no limit");
    }

    #[test]
    fn the_mount_point_itself_counts_and_nothing_above_it() {
        let mut files = fake(&[
            ("/proc/self/cgroup", "0::/\n"),
            ("/proc/self/mountinfo", SECOND),
            ("/sys/fs/cgroup/memory.max", "5000\n"),
            ("/sys/fs/memory.max", "1\n"),
        ]);
        assert_eq!(memory_limit(&files), Some(5000));
        files.0[0].1 = "0::/../other\n".to_string();
        assert_eq!(memory_limit(&files), Some(5000), "the path leads out of what is mounted");
        files.0[1].1 = "22 1 0:20 / /proc rw - proc proc rw\n".to_string();
        assert_eq!(memory_limit(&files), None, "no cgroups are mounted");
    }

    /// A namespace of cgroups that has the mount from outside, too.
    #[test]
    fn a_mount_that_has_the_cgroup_comes_before_one_from_outside() {
        const OUTSIDE: &str = "31 22 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        const INSIDE: &str = "32 31 0:26 / /in rw - cgroup2 cgroup2 rw\n";
        let with = |path: &str, mounts: &[&str]| {
            let files = fake(&[
                ("/proc/self/cgroup", path),
                ("/proc/self/mountinfo", &mounts.concat()),
                ("/sys/fs/cgroup/memory.max", "9000\n"),
                ("/sys/fs/cgroup/b/memory.max", "8000\n"),
                ("/in/memory.max", "700\n"),
                ("/in/a/memory.max", "600\n"),
            ]);
            memory_limit(&files)
        };
        for mounts in [[OUTSIDE, INSIDE], [INSIDE, OUTSIDE]] {
            assert_eq!(with("0::/\n", &mounts), Some(700));
            assert_eq!(with("0::/a\n", &mounts), Some(600));
            // Of another namespace: what the mount from outside has.
            assert_eq!(with("0::/../../b\n", &mounts), Some(8000));
        }
        assert_eq!(with("0::/\n", &[OUTSIDE]), Some(9000), "that of an ancestor is known");
    }

    #[test]
    fn the_first_version_in_a_container() {
        let mut files = fake(&[
            ("/proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/docker/abc/in\n0::/\n"),
            ("/proc/self/mountinfo", FIRST),
            ("/sys/fs/cgroup/memory/in/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600\n"),
        ]);
        assert_eq!(memory_limit(&files), Some(100 << 20));
        files.0[3].1 = "9223372036854771712\n".to_string();
        assert_eq!(memory_limit(&files), None, "that is how it says none");
        files.0[0].1 = "4:memory:/elsewhere\n".to_string();
        files.0[3].1 = "77\n".to_string();
        assert_eq!(memory_limit(&files), Some(77), "what is mounted is the whole that is known");
    }

    #[test]
    fn long_lines_are_left_out() {
        let mut files = fake(&[
            ("/proc/self/cgroup", "0::/a\n"),
            ("/proc/self/mountinfo", ""),
            ("/sys/fs/cgroup/a/memory.max", "12"),
        ]);
        files.0[1].1 = "x".repeat(3 * LINE + 5) + "\n" + SECOND;
        assert_eq!(memory_limit(&files), Some(12));
        files.0[0].1 = String::from("0::/") + &"long/".repeat(300);
        assert_eq!(memory_limit(&files), None);
    }

    #[test]
    fn pressure_is_the_cgroups_or_the_systems() {
        let mut files = fake(&[
            ("/proc/self/cgroup", "0::/a\n"),
            ("/proc/self/mountinfo", SECOND),
            (
                "/proc/pressure/memory",
                "some avg10=1.05 avg60=2.00 avg300=0.00 total=1\nfull avg10=9.00 x\n",
            ),
        ]);
        assert_eq!(pressure(&files), Some(105));
        files.0.push((
            "/sys/fs/cgroup/a/memory.pressure",
            "some avg10=12.34 avg60=2.00\n".to_string(),
        ));
        assert_eq!(pressure(&files), Some(1234));
        assert_eq!(pressure(&fake(&[])), None);
        for bad in [
            "some",
            "some avg10=",
            "some avg10=x.y",
            "full avg10=1.00",
            "some avg10=99999999999.00",
        ] {
            assert_eq!(avg10(bad.as_bytes()), None, "{bad}");
        }
    }
}
