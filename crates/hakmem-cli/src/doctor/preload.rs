//! What else is preloaded: LD_PRELOAD and /etc/ld.so.preload, and the allocators in them.

use super::finding::{Finding, Verdict};
use super::root::Root;
use crate::own::{self, Own};
use crate::proc::Variables;
use crate::{checked, needed};
use std::io::Read;
use std::path::Path;

const FILE: &str = "/etc/ld.so.preload";
/// A longer file is read up to here.
const MOST_TEXT: u64 = 1 << 16;
/// Libraries that are looked at.
const MOST: usize = 64;

/// What a preloaded library is.
enum Kind {
    Hakmem,
    Allocator,
    Missing,
    Other,
}

/// Of the environment. `process`: whose files its names are.
pub fn of_environment(root: &Root, process: &str, variables: &Variables) -> Finding {
    const NAME: &str = "LD_PRELOAD";
    let set = variables.iter().find(|(name, _)| name == NAME);
    let value = set.map(|(_, value)| value.as_str()).unwrap_or_default();
    let order = "hakmem run puts its library before these.";
    of(root, process, NAME, value, order)
}

/// Of the file, whose libraries the loader takes after those of LD_PRELOAD.
pub fn of_file(root: &Root, process: &str) -> Finding {
    let file = checked::open(&root.of_process(process, FILE)).ok();
    let mut text = String::new();
    let _ = file.map(|file| file.take(MOST_TEXT).read_to_string(&mut text));
    let lines = text.lines().map(|line| line.split('#').next());
    let names: Vec<_> = lines.flatten().collect();
    let order = "LD_PRELOAD comes before this file.";
    of(root, process, FILE, &names.join(" "), order)
}

fn of(root: &Root, process: &str, subject: &'static str, value: &str, order: &str) -> Finding {
    let names: Vec<_> = value
        .split(|c: char| c == ':' || c.is_whitespace())
        .filter(|name| !name.is_empty())
        .take(MOST)
        .collect();
    if names.is_empty() {
        return Finding::ok(
            subject,
            "nothing",
            "No other library comes before the program's.",
        );
    }
    let all = names.join(" ");
    let kinds: Vec<_> = names
        .iter()
        .map(|name| kind(name, &root.of_process(process, name)))
        .collect();
    let of_kind = |wanted: fn(&Kind) -> bool| kinds.iter().position(wanted).map(|n| names[n]);
    let hakmem = kinds.iter().position(|kind| matches!(kind, Kind::Hakmem));
    let other = kinds
        .iter()
        .position(|kind| matches!(kind, Kind::Allocator));
    match (other, hakmem) {
        (Some(n), Some(first)) if first < n => Finding::new(
            Verdict::Note,
            subject,
            &all,
            format!(
                "{} is another allocator. It stands behind hakmem.",
                names[n]
            ),
            "It serves nothing. Remove it, if nothing else needs it.",
        ),
        (Some(n), _) => Finding::new(
            Verdict::Note,
            subject,
            &all,
            format!(
                "{} is another allocator. Without hakmem before it, it serves the program. {order}",
                names[n]
            ),
            "Start the program by hakmem run, or name libhakmem.so first.",
        ),
        (None, Some(_)) => Finding::ok(subject, &all, "hakmem is among them."),
        (None, None) => match of_kind(|kind| matches!(kind, Kind::Missing)) {
            Some(name) => Finding::new(
                Verdict::Note,
                subject,
                &all,
                format!("{name} cannot be read. The loader says so at each start."),
                "Remove it from the list, or install it.",
            ),
            None => Finding::ok(subject, &all, format!("None is an allocator. {order}")),
        },
    }
}

fn kind(name: &str, path: &Path) -> Kind {
    // The loader looks for a name without a slash in its own folders: then only the name tells.
    if !name.contains('/') {
        return by_name(name);
    }
    if own::is_hakmem(path) {
        return Kind::Hakmem;
    }
    match own::of(path) {
        Some(Own::Hakmem { .. }) => Kind::Hakmem,
        Some(Own::Other(_)) => Kind::Allocator,
        None if !path.is_file() => Kind::Missing,
        None => by_name(
            path.file_name()
                .and_then(|n| n.to_str())
                .unwrap_or_default(),
        ),
    }
}

fn by_name(name: &str) -> Kind {
    if name.contains("libhakmem") {
        return Kind::Hakmem;
    }
    match needed::is_allocator(name) {
        true => Kind::Allocator,
        false => Kind::Other,
    }
}
