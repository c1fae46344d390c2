//! What else is preloaded: LD_PRELOAD and /etc/ld.so.preload, and the allocators in them.

use super::finding::Finding;
use super::root::Root;
use crate::own::{self, Own};
use std::path::Path;

const FILE: &str = "/etc/ld.so.preload";
/// Libraries that are looked at.
const MOST: usize = 64;

/// What a preloaded library is.
enum Kind {
    Hakmem,
    Allocator,
    Missing,
    Other,
}

pub fn findings(root: &Root, environment: Option<String>) -> Vec<Finding> {
    // The loader takes those of LD_PRELOAD first.
    let value = environment.unwrap_or_default();
    let file = root.read(FILE).unwrap_or_default();
    let file: Vec<_> = file
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default())
        .collect();
    vec![
        of(
            "LD_PRELOAD",
            &value,
            "hakmem run puts its library before these.",
        ),
        of(FILE, &file.join(" "), "LD_PRELOAD comes before this file."),
    ]
}

fn of(subject: &'static str, value: &str, order: &str) -> Finding {
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
    let kinds: Vec<_> = names.iter().map(|name| kind(name)).collect();
    let of_kind = |wanted: fn(&Kind) -> bool| kinds.iter().position(wanted).map(|n| names[n]);
    let hakmem = kinds.iter().position(|kind| matches!(kind, Kind::Hakmem));
    let other = kinds
        .iter()
        .position(|kind| matches!(kind, Kind::Allocator));
    match (other, hakmem) {
        (Some(n), Some(first)) if first < n => Finding::note(
            subject,
            &all,
            format!(
                "{} is another allocator. It stands behind hakmem.",
                names[n]
            ),
            "It serves nothing. Remove it, if nothing else needs it.",
        ),
        (Some(n), _) => Finding::note(
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
            Some(name) => Finding::note(
                subject,
                &all,
                format!("{name} cannot be read. The loader says so at each start."),
                "Remove it from the list, or install it.",
            ),
            None => Finding::ok(subject, &all, format!("None is an allocator. {order}")),
        },
    }
}

fn kind(name: &str) -> Kind {
    let path = Path::new(name);
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
    const ALLOCATORS: [&str; 6] = [
        "jemalloc", "mimalloc", "tcmalloc", "snmalloc", "rpmalloc", "hoard",
    ];
    if name.contains("libhakmem") {
        return Kind::Hakmem;
    }
    match ALLOCATORS.iter().any(|known| name.contains(known)) {
        true => Kind::Allocator,
        false => Kind::Other,
    }
}
