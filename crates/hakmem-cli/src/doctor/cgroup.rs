//! The memory limits of a process's control groups, of both versions.
//!
//! A limit of any group above the process counts, as far as this process can see them: in a
//! container the groups outside are hidden.

use super::finding::{Finding, Verdict};
use super::root::Root;
use crate::summary::bytes;

/// Version 1 writes "no limit" as a number near 2⁶³.
const UNLIMITED: u64 = 1 << 60;
/// A group that uses more than so many per cent of its limit is near it.
const NEAR: u64 = 90;
/// Groups above one another.
const DEPTH: usize = 32;

/// The files of a version.
struct Version {
    /// A limit beyond which the kernel ends processes.
    hard: &'static str,
    /// One beyond which it slows them down.
    soft: Option<&'static str>,
    used: &'static str,
    /// Where the number of ended processes stands, in a line `oom_kill N`.
    events: &'static str,
}

const V1: Version = Version {
    hard: "memory.limit_in_bytes",
    soft: None,
    used: "memory.usage_in_bytes",
    events: "memory.oom_control",
};
const V2: Version = Version {
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
        Place::Unknown => return true,
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
        return match mounted(&mounts, is_memory) {
            Some((top, mount)) => Place::Known(&V1, mount, below(group, &top)),
            None => Place::Unknown,
        };
    }
    let Some(group) = groups.lines().find_map(|line| line.strip_prefix("0::")) else {
        return Place::None;
    };
    match mounted(&mounts, |kind, _| kind == "cgroup2") {
        Some((top, mount)) => Place::Known(&V2, mount, below(group, &top)),
        None => Place::Unknown,
    }
}

/// The first mount whose kind and options fit: the group at its top, and its folder.
fn mounted(mounts: &str, fits: impl Fn(&str, &str) -> bool) -> Option<(String, String)> {
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let (kind, _source, options) = (kind.next()?, kind.next()?, kind.next()?);
        let mut place = place.split(' ').skip(3);
        let found = (place.next()?.to_owned(), place.next()?.to_owned());
        fits(kind, options).then_some(found)
    })
}

/// A group as it is seen below the group at the top of a mount.
fn below(group: &str, top: &str) -> String {
    let rest = group.strip_prefix(top.trim_end_matches('/'));
    rest.unwrap_or("/").to_owned()
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
        assert_eq!(below("/a/b", "/"), "/a/b");
        assert_eq!(below("/docker/1", "/docker/1"), "");
        assert_eq!(folders("/m", "/a/b"), ["/m/a/b", "/m/a", "/m"]);
        assert_eq!(folders("/m", ""), ["/m"]);
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      35 31 0:32 /x /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory";
        let found = mounted(mounts, |kind, options| {
            kind == "cgroup" && options.contains("memory")
        });
        assert_eq!(found, Some(("/x".into(), "/sys/fs/cgroup/memory".into())));
    }
}
