//! The memory limits of a process's control groups, of both versions.
//!
//! A limit of any group above the process counts, as far as this process can see them: in a
//! container the groups outside are hidden. Paths of groups begin at the root of this process's
//! namespace of groups, and lead out of it by "..".

use super::finding::{Finding, Verdict};
use super::root::Root;
use crate::checked;
use crate::summary::bytes;

/// Version 1 writes "no limit" as a number near 2⁶³.
const UNLIMITED: u64 = 1 << 60;
/// A group that uses more than so many per cent of its limit is near it.
const NEAR: u64 = 90;
/// Groups above one another.
const DEPTH: usize = 32;

/// A version.
struct Version {
    /// The words that mount it, before the folder.
    mount: &'static str,
    /// A limit beyond which the kernel ends processes.
    hard: &'static str,
    /// One beyond which it slows them down.
    soft: Option<&'static str>,
    used: &'static str,
    /// Where the number of ended processes stands, in a line `oom_kill N`.
    events: &'static str,
}

const V1: Version = Version {
    mount: "mount -t cgroup -o memory none",
    hard: "memory.limit_in_bytes",
    soft: None,
    used: "memory.usage_in_bytes",
    events: "memory.oom_control",
};
const V2: Version = Version {
    mount: "mount -t cgroup2 none",
    hard: "memory.max",
    soft: Some("memory.high"),
    used: "memory.current",
    events: "memory.events",
};

pub fn findings(root: &Root, process: &str) -> Vec<Finding> {
    const SUBJECT: &str = "control group";
    let (version, mount, group) = match place(root, process) {
        Place::Known(version, mount, group) => (version, mount, group),
        Place::None => {
            return vec![Finding::ok(
                SUBJECT,
                "none for memory",
                "No group limits the memory.",
            )];
        }
        Place::Elsewhere(version, mount) => {
            return vec![Finding::unknown(
                SUBJECT,
                format!(
                    "The process is in one namespace of control groups, and the groups at {} are \
                     another one's. A group may limit the memory. HAKMEM_LIMIT_PERCENT does not \
                     find the group's limit either.",
                    checked::name(&mount)
                ),
                format!(
                    "In the process's namespace, mount the groups: {} {}. Or set \
                     HAKMEM_SOFT_LIMIT_MIB.",
                    version.mount,
                    checked::name(&mount)
                ),
            )];
        }
        Place::Unknown => {
            return vec![Finding::unknown(
                SUBJECT,
                "The group of the process, or where groups are mounted, cannot be read. A group \
                 may limit the memory.",
                "Look from where /proc and /sys/fs/cgroup are mounted.",
            )];
        }
    };
    let folders = folders(&mount, &group);
    let mut all = vec![limit(
        root,
        version,
        &folders,
        version.hard,
        "The kernel ends a process of the group when the group needs more.",
    )];
    if let Some(soft) = version.soft {
        let what = "The kernel slows the processes of the group down when the group needs more.";
        all.push(limit(root, version, &folders, soft, what));
    }
    all.extend(folders.first().and_then(|own| killed(root, version, own)));
    all
}

/// Whether a group that can be seen from here limits the memory of the process, or whether there is
/// one is not known.
pub fn may_be_limited(root: &Root, process: &str) -> bool {
    let (version, mount, group) = match place(root, process) {
        Place::Known(version, mount, group) => (version, mount, group),
        Place::None => return false,
        Place::Elsewhere(..) | Place::Unknown => return true,
    };
    let folders = folders(&mount, &group);
    let names = [Some(version.hard), version.soft];
    let mut names = names.into_iter().flatten();
    names.any(|name| least(root, &folders, name).is_some())
}

/// Where the memory of a process is counted.
enum Place {
    /// The mounted hierarchy and the group in it.
    Known(&'static Version, String, String),
    /// In no group below what is mounted at this folder, which is of another namespace of groups.
    Elsewhere(&'static Version, String),
    /// Nowhere.
    None,
    /// What tells it cannot be read.
    Unknown,
}

fn place(root: &Root, process: &str) -> Place {
    let path = format!("/proc/{process}/cgroup");
    let Some(groups) = root.read(&path) else {
        // A kernel without control groups has no such file.
        return match root.has(&format!("/proc/{process}/status")) && !root.has(&path) {
            true => Place::None,
            false => Place::Unknown,
        };
    };
    let mounts = root.read("/proc/self/mountinfo").unwrap_or_default();
    let v1 = groups.lines().find_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        controllers
            .split(',')
            .any(|c| c == "memory")
            .then_some(group)
    });
    if let Some(group) = v1 {
        let is_memory = |kind: &str, options: &str| {
            kind == "cgroup" && options.split(',').any(|option| option == "memory")
        };
        return mounted(&mounts, is_memory, &V1, group);
    }
    let Some(group) = groups.lines().find_map(|line| line.strip_prefix("0::")) else {
        return Place::None;
    };
    mounted(&mounts, |kind, _| kind == "cgroup2", &V2, group)
}

/// The group below a mount whose kind and options fit. A mount that has the group comes before
/// others, and one from outside of the namespace comes last.
fn mounted(
    mounts: &str,
    fits: impl Fn(&str, &str) -> bool,
    version: &'static Version,
    group: &str,
) -> Place {
    let fitting = mounts.lines().filter_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let (kind, _source, options) = (kind.next()?, kind.next()?, kind.next()?);
        let mut place = place.split(' ').skip(3);
        let found = (place.next()?, place.next()?);
        fits(kind, options).then_some(found)
    });
    let has = |top| below(group, top).is_some();
    match fitting.min_by_key(|&(top, _)| (!has(top), leads_out(top))) {
        None => Place::Unknown,
        Some((top, mount)) => match below(group, top) {
            Some(rest) => Place::Known(version, mount.to_owned(), rest.to_owned()),
            None if leads_out(top) || leads_out(group) => {
                Place::Elsewhere(version, mount.to_owned())
            }
            None => Place::Known(version, mount.to_owned(), "/".to_owned()),
        },
    }
}

/// A group as it is seen below the group at the top of a mount. None: it is not below that.
fn below<'a>(group: &'a str, top: &str) -> Option<&'a str> {
    let rest = group.strip_prefix(top.trim_end_matches('/'))?;
    let is_whole = rest.is_empty() || rest.starts_with('/');
    (is_whole && !leads_out(rest)).then_some(rest)
}

fn leads_out(group: &str) -> bool {
    group.split('/').any(|part| part == "..")
}

/// The folder of the group, and of those above it.
fn folders(mount: &str, group: &str) -> Vec<String> {
    let mut group = group.trim_matches('/');
    let mut all = Vec::new();
    while !group.is_empty() && all.len() < DEPTH {
        all.push(format!("{mount}/{group}"));
        group = group.rsplit_once('/').map_or("", |(above, _)| above);
    }
    all.push(mount.to_owned());
    all
}

/// The least limit of this name, and the folder that has it.
fn least<'a>(root: &Root, folders: &'a [String], name: &str) -> Option<(u64, &'a String)> {
    let value = |folder: &String| root.number(&format!("{folder}/{name}"));
    folders
        .iter()
        .filter_map(|folder| Some((value(folder).filter(|&v| v < UNLIMITED)?, folder)))
        .min()
}

/// The least limit of this name, and how much of it is used.
fn limit(
    root: &Root,
    version: &Version,
    folders: &[String],
    name: &'static str,
    what: &str,
) -> Finding {
    let Some((most, folder)) = least(root, folders, name) else {
        return Finding::ok(
            name,
            "no limit",
            "No group that can be seen from here has one.",
        );
    };
    let used = root
        .number(&format!("{folder}/{}", version.used))
        .unwrap_or(0);
    let found = format!("{} of {} are used", bytes(used), bytes(most));
    let meaning = format!(
        "{what} With HAKMEM_LIMIT_PERCENT, hakmem takes a share of the lowest limit as its soft \
         limit. Else it reads no limit of a group."
    );
    let near = u128::from(used) * 100 > u128::from(most) * u128::from(NEAR);
    let advice = "Free memory that hakmem keeps counts: 16 MiB, a sixteenth of what is live, what \
                  was needed more within the last decay, and the huge cache. HAKMEM_SURPLUS_MIB, \
                  HAKMEM_DECAY_MS and HAKMEM_HUGE_CACHE_MIB lower that.";
    let verdict = if near {
        Verdict::Problem
    } else {
        Verdict::Note
    };
    Finding::new(verdict, name, &found, meaning, advice)
}

/// Processes of the group that were ended for lack of memory.
fn killed(root: &Root, version: &Version, folder: &str) -> Option<Finding> {
    let text = root.read(&format!("{folder}/{}", version.events))?;
    let count = |line: &str| line.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok();
    let n = text.lines().find_map(count).filter(|&n| n > 0)?;
    Some(Finding::new(
        Verdict::Problem,
        version.events,
        &format!("oom_kill {n}"),
        "The kernel ended processes of this group because the group had no memory left.",
        "Raise the limit of the group, or find what needs the memory: hakmem profile PROG.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_below_a_mount() {
        assert_eq!(below("/a/b", "/"), Some("/a/b"));
        assert_eq!(below("/docker/1", "/docker/1"), Some(""));
        assert_eq!(below("/docker/12", "/docker/1"), None);
        assert_eq!(below("/../../b", "/../.."), Some("/b"));
        assert_eq!(below("/../b", "/"), None);
        assert_eq!(folders("/m", "/a/b"), ["/m/a/b", "/m/a", "/m"]);
        assert_eq!(folders("/m", ""), ["/m"]);
    }

    fn place_of(mounts: &str, group: &str) -> String {
        let is_memory = |kind: &str, options: &str| kind == "cgroup" && options.contains("memory");
        match mounted(mounts, is_memory, &V1, group) {
            Place::Known(_, mount, group) => format!("{mount}:{group}"),
            Place::Elsewhere(_, mount) => format!("{mount}, elsewhere"),
            Place::None => "none".into(),
            Place::Unknown => "unknown".into(),
        }
    }

    #[test]
    fn the_mount_that_has_the_group_is_taken() {
        const PLAIN: &str = "31 23 0:28 / /plain rw - tmpfs tmpfs rw\n";
        const PART: &str = "35 31 0:32 /x /part rw,relatime - cgroup cgroup rw,memory\n";
        const OUTSIDE: &str = "36 31 0:32 /../.. /out rw - cgroup cgroup rw,memory\n";
        const INSIDE: &str = "37 31 0:32 / /in rw - cgroup cgroup rw,memory\n";
        let of = |mounts: &[&str], group| place_of(&mounts.concat(), group);
        assert_eq!(of(&[PLAIN], "/x"), "unknown");
        assert_eq!(of(&[PLAIN, PART], "/x/y"), "/part:/y");
        assert_eq!(of(&[PART], "/z"), "/part:/");
        for mounts in [[OUTSIDE, INSIDE], [INSIDE, OUTSIDE]] {
            assert_eq!(of(&mounts, "/"), "/in:/");
            assert_eq!(of(&mounts, "/../../b"), "/out:/b");
        }
        assert_eq!(of(&[OUTSIDE], "/"), "/out, elsewhere");
        assert_eq!(of(&[INSIDE], "/../b"), "/in, elsewhere");
    }
}
