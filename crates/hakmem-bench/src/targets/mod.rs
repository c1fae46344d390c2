//! What hakmem is to reach, and how far a comparison says it did.
//!
//! A target that speaks of peers is measured only if all of them are in the comparison: being ahead
//! of the slow ones proves nothing. A peer that was there and failed at something counts as not
//! better at it.

mod evidence;
mod growth;
mod probes;
mod suite;

pub use evidence::Evidence;
pub use suite::of_programs;

use crate::report::markdown;
use crate::sample::Target;

/// The targets of all that was asked for, those of the suite as a whole first.
pub fn evaluate(evidence: &Evidence<'_>) -> Vec<Target> {
    let mut targets = suite::geomeans(evidence);
    targets.extend(probes::targets(evidence));
    targets.extend(growth::targets(evidence));
    targets.extend(suite::workloads(evidence));
    targets
}

/// What became of a target, in words.
pub fn verdict(target: &Target) -> String {
    match target.figure {
        None => "not measured".to_owned(),
        Some(_) if target.met() => "met".to_owned(),
        // Never "missed by 0.0 %".
        Some(figure) => format!(
            "missed by {:.1} %",
            ((figure / target.limit - 1.0) * 100.0).max(0.1)
        ),
    }
}

/// The table of targets in Markdown, and a line that counts them. Empty without targets.
pub fn table(targets: &[Target]) -> String {
    if targets.is_empty() {
        return String::new();
    }
    let amount = |value: f64, unit: &str| match unit {
        "" => format!("{value:.3}"),
        unit => format!("{value:.1} {unit}"),
    };
    let row = |t: &Target| {
        vec![
            t.name.clone(),
            t.against.clone(),
            t.figure
                .map_or_else(|| "-".to_owned(), |f| amount(f, &t.unit)),
            format!("≤ {}", amount(t.limit, &t.unit)),
            verdict(t),
        ]
    };
    let rows: Vec<_> = targets.iter().map(row).collect();
    let mut text = markdown(
        &["target", "against", "hakmem", "to reach", "verdict"],
        &rows,
    );
    let met = targets.iter().filter(|t| t.met()).count();
    let open = targets.iter().filter(|t| t.figure.is_none()).count();
    text.push_str(&format!(
        "\n{met} of {} targets met, {} missed, {open} not measured.\n",
        targets.len(),
        targets.len() - met - open,
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Summary;

    fn target(figure: Option<f64>, limit: f64) -> Target {
        Target {
            name: "t".to_owned(),
            what: "t".to_owned(),
            figure,
            limit,
            unit: String::new(),
            against: String::new(),
        }
    }

    #[test]
    fn verdicts() {
        assert_eq!(verdict(&target(Some(2.0), 2.0)), "met");
        assert_eq!(verdict(&target(Some(2.5), 2.0)), "missed by 25.0 %");
        assert_eq!(verdict(&target(Some(2.000_01), 2.0)), "missed by 0.1 %");
        assert_eq!(verdict(&target(None, 2.0)), "not measured");
        assert!(!target(None, 2.0).met());
    }

    #[test]
    fn the_table_counts_every_target_once() {
        let text = table(&[
            target(Some(1.0), 2.0),
            target(Some(3.0), 2.0),
            target(None, 2.0),
        ]);
        assert!(text.contains("1 of 3 targets met, 1 missed, 1 not measured."));
        assert!(text.contains("≤ 2.000"), "{text}");
        assert_eq!(table(&[]), "");
    }

    #[test]
    fn a_comparison_of_nothing_has_no_targets() {
        let nothing = Evidence {
            summary: &Summary::new(&[], &[], "", &[], &[]),
            preloaded: false,
            all_workloads: false,
            asked: &[],
            curves: &[],
            probes: &[],
            series: &[],
        };
        assert!(evaluate(&nothing).is_empty());
    }
}
