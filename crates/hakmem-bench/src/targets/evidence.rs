//! What a comparison found, and the best peer in it.

use crate::probes::Probe;
use crate::report::Summary;
use crate::sample::{ProbeSample, Series};

/// Who is to reach the targets.
pub const HAKMEM: &str = "hakmem";
/// The built-in allocators that workloads and growth are compared with.
pub const PEERS: [&str; 6] = [
    "system",
    "mimalloc",
    "snmalloc",
    "jemalloc",
    "rpmalloc",
    "rusty_alloc",
];

/// What a comparison found, and what it was to find.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The figures of the workloads.
    pub summary: &'a Summary,
    /// Whether the workloads ran under preloaded libraries.
    pub preloaded: bool,
    /// Whether these are all workloads: only then means over them are those of the targets.
    pub all_workloads: bool,
    /// The probes asked for.
    pub asked: &'a [&'static Probe],
    /// The curves of growth asked for.
    pub curves: &'a [&'a str],
    /// The figures of the probes.
    pub probes: &'a [ProbeSample],
    /// The curves.
    pub series: &'a [Series],
}

/// The least of the peers' figures and whose it is.
pub fn best<'a>(figures: impl Iterator<Item = (&'a str, f64)>) -> Option<(&'a str, f64)> {
    figures
        .filter(|(_, figure)| figure.is_finite() && *figure > 0.0)
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
}

/// Those of `peers` that are not among `present`, in words for a target's `against`; `None` if all
/// are there.
pub fn absent(peers: &[&str], present: impl Fn(&str) -> bool) -> Option<String> {
    let absent: Vec<&str> = peers.iter().copied().filter(|p| !present(p)).collect();
    (!absent.is_empty()).then(|| format!("without {}", absent.join(", ")))
}
