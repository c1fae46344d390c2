//! Which parts of a comparison to run: workloads and probes by name, growth as a whole.

use crate::growth;
use crate::probes::{self, Probe};
use crate::workloads;
use std::io;

/// All workloads.
const WORKLOADS: &str = "workloads";
/// All probes.
const PROBES: &str = "probes";
/// All curves of growth.
const GROWTH: &str = "growth";

/// The parts.
#[derive(Debug)]
pub struct Selection {
    /// The workloads, in the order asked for.
    pub workloads: Vec<String>,
    /// Whether these are all of them.
    pub all_workloads: bool,
    /// The probes, in their own order.
    pub probes: Vec<&'static Probe>,
    /// Whether [`growth`] is measured.
    pub growth: bool,
    /// Whether the workloads run under preloaded libraries.
    pub preloaded: bool,
}

/// Accepts what `--only` and `--skip` take.
pub fn names() -> clap::builder::PossibleValuesParser {
    let groups = [WORKLOADS, PROBES, GROWTH].into_iter();
    clap::builder::PossibleValuesParser::new(
        workloads::names().chain(probes::names()).chain(groups),
    )
}

impl Selection {
    /// What `only` names, or everything; without what `skip` names. A quick comparison leaves out
    /// the long probes that are not named one by one. One of `preloaded` libraries leaves out what
    /// is measured on built-in allocators alone.
    pub fn new(only: &[String], skip: &[String], quick: bool, preloaded: bool) -> io::Result<Self> {
        let named = |list: &[String], name: &str| list.iter().any(|n| n == name);
        let wanted = |name: &str, group: &str| {
            (only.is_empty() || named(only, name) || named(only, group))
                && !named(skip, name)
                && !named(skip, group)
        };
        let mut workloads: Vec<String> = workloads::names()
            .filter(|name| wanted(name, WORKLOADS))
            .map(str::to_owned)
            .collect();
        workloads.sort_by_key(|name| only.iter().position(|n| n == name));
        // Peaks of workloads say little without what the process itself has.
        let nothing = match preloaded {
            true => probes::NOTHING_PRELOADED,
            false => probes::NOTHING,
        };
        let beside = |name: &str| name == nothing && !workloads.is_empty() && !named(skip, name);
        let probes: Vec<_> = probes::ALL
            .iter()
            .filter(|p| wanted(p.name, PROBES) || beside(p.name))
            .filter(|p| p.quick || !quick || named(only, p.name))
            .filter(|p| !preloaded || needs_libraries(p))
            .collect();
        let selection = Self {
            all_workloads: workloads.len() == workloads::names().count(),
            workloads,
            probes,
            growth: wanted(GROWTH, GROWTH) && !preloaded,
            preloaded,
        };
        if selection.workloads.is_empty() && selection.probes.is_empty() && !selection.growth {
            return Err(io::Error::other(
                "--only, --skip and --quick leave nothing to compare",
            ));
        }
        Ok(selection)
    }

    /// Whether libraries are to be preloaded.
    pub fn needs_libraries(&self) -> bool {
        self.preloaded || self.probes.iter().any(|p| needs_libraries(p))
    }

    /// The curves of growth that are measured.
    pub fn curves(&self) -> &'static [&'static str] {
        if self.growth {
            &[growth::BY_BLOCKS, growth::BY_THREADS]
        } else {
            &[]
        }
    }
}

fn needs_libraries(probe: &Probe) -> bool {
    probe.libraries || matches!(probe.figure, probes::Figure::Purging)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(only: &[&str], skip: &[&str], quick: bool) -> io::Result<Selection> {
        let owned = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        Selection::new(&owned(only), &owned(skip), quick, false)
    }

    #[test]
    fn preloaded_libraries_leave_out_what_needs_built_in_allocators() {
        let of = |only: &[&str]| {
            let only: Vec<_> = only.iter().map(|n| (*n).to_owned()).collect();
            Selection::new(&only, &[], false, true)
        };
        let all = of(&[]).expect("workloads and probes");
        assert!(all.all_workloads && !all.growth && all.needs_libraries());
        assert!(all.probes.iter().all(|p| p.name != probes::NOTHING));
        assert!(all.probes.iter().any(|p| p.name == "pool"));
        let one = of(&["json"]).expect("one workload");
        let names: Vec<_> = one.probes.iter().map(|p| p.name).collect();
        assert_eq!(names, [probes::NOTHING_PRELOADED]);
        assert!(one.needs_libraries() && of(&["growth"]).is_err());
    }

    fn of(selection: &Selection) -> Vec<&str> {
        selection.probes.iter().map(|p| p.name).collect()
    }

    #[test]
    fn without_names_everything_is_compared() {
        let all = select(&[], &[], false).expect("everything");
        assert_eq!(all.workloads.len(), workloads::names().count());
        assert_eq!(all.probes.len(), probes::ALL.len());
        assert!(all.growth && all.all_workloads && all.needs_libraries());
    }

    #[test]
    fn with_names_probes_and_growth_run_only_if_named() {
        let some = select(&["mstress", "json"], &[], false).expect("two workloads");
        assert_eq!(some.workloads, ["mstress", "json"]);
        assert_eq!(of(&some), [probes::NOTHING], "it goes with the workloads");
        assert!(!some.growth && !some.all_workloads && !some.needs_libraries());
        let growth = select(&["growth"], &[], true).expect("growth");
        assert!(growth.growth && growth.workloads.is_empty() && !growth.needs_libraries());
        assert!(growth.probes.is_empty());
        let mixed = select(&["idle", "json"], &[], true).expect("one of each");
        assert_eq!(
            of(&mixed),
            [probes::NOTHING, "idle"],
            "named, so even a quick one takes it"
        );
    }

    #[test]
    fn what_is_skipped_stays_out() {
        let rest = select(&[], &["probes", "growth", "json"], false).expect("workloads");
        assert_eq!(rest.workloads.len(), workloads::names().count() - 1);
        assert_eq!(of(&rest), [probes::NOTHING]);
        assert!(!rest.growth);
        let less = select(&[], &["probes", "growth", "nothing"], false).expect("workloads");
        assert!(less.probes.is_empty());
        assert!(select(&["idle"], &["idle"], false).is_err());
    }

    #[test]
    fn a_quick_comparison_leaves_the_long_probes_out() {
        let quick = select(&[], &[], true).expect("everything");
        assert!(!quick.probes.is_empty());
        assert!(quick.probes.iter().all(|p| p.quick));
    }
}
