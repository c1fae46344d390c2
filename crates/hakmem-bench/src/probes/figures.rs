//! The figures of a probe of memory, from what was seen of its process.

use super::stage::Stage;
use super::watch::Seen;
use super::{Figure, Probe};

/// A figure: the name it goes by, its value, its unit.
pub type Named = (String, f64, &'static str);

/// All figures of `probe`.
pub fn of(probe: &Probe, seen: &Seen) -> Vec<Named> {
    let part = |part: &str, value: f64| (format!("{}:{part}", probe.name), value, "");
    let pages = most(seen, over_pages).map(|ratio| part("pages", ratio));
    if let Figure::Phases(_) = probe.figure {
        let ratios: Vec<f64> = seen.stages.iter().filter_map(over_live).collect();
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        let worst = most(seen, over_live).map(|ratio| part("worst", ratio));
        return worst
            .into_iter()
            .chain([part("mean", mean)])
            .chain(pages)
            .collect();
    }
    let last = seen.stages.last().map(|(_, mib)| *mib);
    let resident = last.map(|mib| (probe.name.to_owned(), mib, probe.unit));
    resident.into_iter().chain(pages).collect()
}

fn most(seen: &Seen, ratio: fn(&(Stage, f64)) -> Option<f64>) -> Option<f64> {
    seen.stages.iter().filter_map(ratio).max_by(f64::total_cmp)
}

/// Resident bytes relative to live ones.
fn over_live((stage, mib): &(Stage, f64)) -> Option<f64> {
    over(*mib, stage.live)
}

/// Resident bytes relative to those of the pages that hold a live block.
fn over_pages((stage, mib): &(Stage, f64)) -> Option<f64> {
    over(*mib, stage.pages)
}

fn over(mib: f64, bytes: u64) -> Option<f64> {
    (bytes > 0).then(|| mib * f64::from(1 << 20) / bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes;

    const MIB: u64 = 1 << 20;

    fn figures(name: &str, stages: &[(u64, u64, f64)]) -> Vec<(String, f64)> {
        let stage = |&(live, pages, mib): &(u64, u64, f64)| {
            let stage = Stage {
                live: live * MIB,
                pages: pages * MIB,
                tables: 7,
            };
            (stage, mib)
        };
        let seen = Seen {
            points: Vec::new(),
            stages: stages.iter().map(stage).collect(),
        };
        let all = of(probes::find(name).expect("a probe"), &seen);
        for (name, _, unit) in &all {
            let known = probes::described(name);
            assert_eq!(known.map(|(_, known)| known), Some(*unit), "{name}");
        }
        all.into_iter()
            .map(|(name, value, _)| (name, value))
            .collect()
    }

    fn named(expected: &[(&str, f64)]) -> Vec<(String, f64)> {
        expected
            .iter()
            .map(|(n, v)| ((*n).to_owned(), *v))
            .collect()
    }

    #[test]
    fn what_is_resident_is_a_figure_and_pages_are_one_if_counted() {
        assert_eq!(figures("idle", &[(0, 0, 42.0)]), named(&[("idle", 42.0)]));
        let both = figures("keep_random", &[(1, 100, 150.0)]);
        let expected = [("keep_random", 150.0), ("keep_random:pages", 1.5)];
        assert_eq!(both, named(&expected));
        assert!(figures("idle", &[]).is_empty());
    }

    #[test]
    fn of_phases_the_worst_the_mean_and_the_worst_by_pages_count() {
        let stages = [(100, 200, 200.0), (100, 100, 150.0), (100, 400, 400.0)];
        let expected = [
            ("drift:worst", 4.0),
            ("drift:mean", 2.5),
            ("drift:pages", 1.5),
        ];
        assert_eq!(figures("drift", &stages), named(&expected));
    }
}
