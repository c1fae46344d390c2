//! The targets of growth: no step of a curve may cost hakmem more than 1.1 times what it costs the
//! flattest peer.
//!
//! The caches and the scheduler impose growth on every allocator, so that the factor from the
//! smallest step is compared with the least factor of a peer at the same step. The nanoseconds that
//! each step adds stand beside it: a small first step makes for large factors.

use super::evidence::{Evidence, HAKMEM, PEERS, absent, best};
use crate::sample::{Series, Target};

const LIMIT: f64 = 1.10;

/// The target of each curve that was asked for.
pub fn targets(evidence: &Evidence<'_>) -> Vec<Target> {
    evidence
        .curves
        .iter()
        .map(|name| curve(name, evidence.series))
        .collect()
}

fn curve(name: &str, series: &[Series]) -> Target {
    let mine: Vec<&Series> = series.iter().filter(|s| s.name == name).collect();
    let own = mine.iter().find(|s| s.allocator == HAKMEM);
    let missing = absent(&PEERS, |peer| mine.iter().any(|s| s.allocator == peer));
    let peers: Vec<&&Series> = mine.iter().filter(|s| s.allocator != HAKMEM).collect();
    // Every step that anyone reached, but the first.
    let mut steps: Vec<f64> = mine
        .iter()
        .flat_map(|s| s.points.iter().skip(1).map(|(x, _)| *x))
        .collect();
    steps.sort_by(f64::total_cmp);
    steps.dedup();

    let at = |x: f64| -> Option<(f64, String)> {
        let factors = peers
            .iter()
            .filter_map(|s| Some((s.allocator.as_str(), factor(s, x)?)));
        let (peer, least) = best(factors)?;
        let rises = peers
            .iter()
            .filter_map(|s| Some((s.allocator.as_str(), rise(s, x)?)));
        let (lowest, rise_least) = rises.min_by(|(_, a), (_, b)| a.total_cmp(b))?;
        let (own_factor, own_rise) = (factor(own?, x)?, rise(own?, x)?);
        let words = format!(
            "{peer} at {x}: × {least:.2}, hakmem × {own_factor:.2} (by {rise_least:.1} ns at \
             least, {lowest}; hakmem {own_rise:.1})"
        );
        Some((own_factor / least, words))
    };
    // A step that hakmem did not reach leaves the whole curve unmeasured.
    let ratios: Option<Vec<(f64, String)>> = steps.iter().map(|x| at(*x)).collect();
    let worst = ratios
        .into_iter()
        .flatten()
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    let (figure, mut against) = match worst {
        Some((ratio, words)) => (Some(ratio), words),
        None => (None, "no peer, or a step is missing".to_owned()),
    };
    if let Some(missing) = &missing {
        against = format!("{against}, {missing}");
    }
    Target {
        name: format!("growth of {name}"),
        what: format!(
            "{name}: at the worst step, the factor from the smallest step relative to the least \
             factor of a peer"
        ),
        figure: figure.filter(|f| missing.is_none() || *f > LIMIT),
        limit: LIMIT,
        unit: String::new(),
        against,
    }
}

/// By how much the time at `x` is above that at the first point.
fn factor(series: &Series, x: f64) -> Option<f64> {
    let (_, first) = series.points.first()?;
    let (_, here) = series.points.iter().find(|(at, _)| *at == x)?;
    Some(here / first).filter(|f| f.is_finite() && *f > 0.0)
}

/// How far it is above that at the first point: misses of the caches add to a time, they do not
/// multiply it.
fn rise(series: &Series, x: f64) -> Option<f64> {
    let (_, first) = series.points.first()?;
    let (_, here) = series.points.iter().find(|(at, _)| *at == x)?;
    Some(here - first).filter(|r| r.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(allocator: &str, times: &[f64]) -> Series {
        let xs = [1.0, 2.0, 4.0];
        Series {
            name: "c".to_owned(),
            allocator: allocator.to_owned(),
            x: "x".to_owned(),
            y: "y".to_owned(),
            points: xs.into_iter().zip(times.iter().copied()).collect(),
        }
    }

    /// hakmem, one peer, and the other peers far steeper.
    fn with(own: &[f64], peer: &[f64]) -> Target {
        let mut all = vec![series("hakmem", own), series("snmalloc", peer)];
        for other in PEERS.iter().filter(|p| **p != "snmalloc") {
            all.push(series(other, &[1.0, 9.0, 90.0]));
        }
        curve("c", &all)
    }

    #[test]
    fn the_worst_step_counts_against_the_flattest_peer_of_that_step() {
        let met = with(&[10.0, 11.0, 20.0], &[20.0, 20.0, 40.0]);
        assert!((met.figure.expect("measured") - 1.1).abs() < 1e-9 && met.met());
        let missed = with(&[10.0, 10.0, 30.0], &[10.0, 10.0, 20.0]);
        assert!((missed.figure.expect("measured") - 1.5).abs() < 1e-9);
        assert!(
            missed.against.starts_with("snmalloc at 4:"),
            "{}",
            missed.against
        );
        assert!(
            missed
                .against
                .ends_with("(by 10.0 ns at least, snmalloc; hakmem 20.0)"),
            "{}",
            missed.against
        );
    }

    #[test]
    fn an_absent_peer_or_a_missing_step_is_never_met() {
        let flat = [1.0, 1.0, 1.0];
        let few = [series("hakmem", &flat), series("system", &flat)];
        let target = curve("c", &few);
        assert_eq!(target.figure, None);
        assert!(
            target.against.contains("without mimalloc"),
            "{}",
            target.against
        );
        assert_eq!(with(&flat[..2], &flat).figure, None, "hakmem failed at one");
        assert!(with(&flat, &flat[..2]).met(), "a peer failed at one");
        assert_eq!(curve("c", &[]).figure, None);
        assert_eq!(curve("c", &few[..1]).figure, None);
    }
}
