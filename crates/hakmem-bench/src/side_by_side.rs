//! Tables that have the allocators side by side: those of probes and of curves.

use crate::probes::Probe;
use crate::report::markdown;
use crate::sample::{ProbeSample, Series};
use crate::stats::median;

/// The medians of the probes that were taken on libraries and allocators; empty without any.
pub fn probes(probes: &[&'static Probe], samples: &[ProbeSample]) -> String {
    let names: Vec<&str> = {
        let of_probes = samples
            .iter()
            .filter(|s| figures(probes).any(|(name, _)| name == s.probe));
        distinct(of_probes.map(|s| s.allocator.as_str()))
    };
    let row = |(name, unit): (&str, &str)| {
        let figure = |allocator: &&str| {
            let mine = samples
                .iter()
                .filter(|s| s.probe == name && s.allocator == *allocator);
            median(&mine.map(|s| s.value).collect::<Vec<_>>())
        };
        row(name, unit, names.iter().map(figure))
    };
    let taken = figures(probes).filter(|(name, _)| samples.iter().any(|s| s.probe == *name));
    table("probe", "unit", &names, taken.map(row).collect())
}

/// The names and units of all figures of these probes.
fn figures(probes: &[&'static Probe]) -> impl Iterator<Item = (&'static str, &'static str)> {
    probes.iter().flat_map(|probe| {
        let parts = probe.parts().map(|part| (part.name, part.unit));
        [(probe.name, probe.unit)].into_iter().chain(parts)
    })
}

/// The curves called `name`; empty without any.
pub fn curves(name: &str, series: &[Series]) -> String {
    let mine: Vec<&Series> = series.iter().filter(|s| s.name == name).collect();
    let Some(first) = mine.first() else {
        return String::new();
    };
    let names = distinct(mine.iter().map(|s| s.allocator.as_str()));
    let mut steps: Vec<f64> = mine
        .iter()
        .flat_map(|s| s.points.iter().map(|(x, _)| *x))
        .collect();
    steps.sort_by(f64::total_cmp);
    steps.dedup();
    let at = |x: f64| {
        let figure = |allocator: &&str| {
            let curve = mine.iter().find(|s| s.allocator == *allocator)?;
            curve
                .points
                .iter()
                .find(|(at, _)| *at == x)
                .map(|(_, y)| *y)
        };
        row(&x.to_string(), &first.y, names.iter().map(figure))
    };
    table(
        &first.x,
        "unit",
        &names,
        steps.iter().map(|x| at(*x)).collect(),
    )
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

fn row(name: &str, unit: &str, figures: impl Iterator<Item = Option<f64>>) -> Vec<String> {
    let digits = if unit.is_empty() { 2 } else { 1 };
    let shown = |f: f64| format!("{f:.digits$}");
    let cell = |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), shown);
    let mut cells = vec![name.to_owned(), unit.to_owned()];
    cells.extend(figures.map(cell));
    cells
}

fn table(first: &str, second: &str, names: &[&str], rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut header = vec![first, second];
    header.extend(names);
    markdown(&header, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_taken_is_a_dash() {
        let sample = |probe: &str, allocator: &str, value| ProbeSample {
            probe: probe.to_owned(),
            allocator: allocator.to_owned(),
            round: 0,
            value,
            unit: String::new(),
        };
        let samples = [
            sample("idle", "a", 1.0),
            sample("idle", "a", 3.0),
            sample("sparse", "b", 4.0),
            sample("drift:mean", "b", 1.25),
        ];
        let asked: Vec<_> = ["idle", "sparse", "pair_2m", "drift"]
            .iter()
            .filter_map(|n| crate::probes::find(n))
            .collect();
        let text = probes(&asked, &samples).replace(' ', "");
        assert!(text.contains("|idle|MiB|2.0|-|"), "{text}");
        assert!(text.contains("|sparse|MiB|-|4.0|"), "{text}");
        assert!(text.contains("|drift:mean||-|1.25|"), "{text}");
        assert!(!text.contains("pair_2m"), "{text}");
        assert_eq!(probes(&asked, &[]), "");
    }

    #[test]
    fn curves_stand_side_by_side_by_step() {
        let series = |allocator: &str, points: &[(f64, f64)]| Series {
            name: "c".to_owned(),
            allocator: allocator.to_owned(),
            x: "threads".to_owned(),
            y: "ns".to_owned(),
            points: points.to_vec(),
        };
        let all = [
            series("a", &[(1.0, 5.0), (2.0, 6.0)]),
            series("b", &[(2.0, 7.0)]),
        ];
        let text = curves("c", &all).replace(' ', "");
        assert!(text.contains("|1|ns|5.0|-|"), "{text}");
        assert!(text.contains("|2|ns|6.0|7.0|"), "{text}");
        assert_eq!(curves("d", &all), "");
    }
}
