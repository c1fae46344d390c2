//! Writes the outcomes into docs/conformance.md, between two markers. Those that are not explained
//! go to standard error.

use crate::explained::{EXPLAINED, Explained};
use crate::list::Mutant;
use crate::results::{Outcome, Results};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::{fs, io};

const PAGE: &str = "docs/conformance.md";
const BEGIN: &str = "<!-- made by ci/mutants -->\n";
const END: &str = "<!-- end of what ci/mutants made -->\n";

/// How many mutants had which outcome.
#[derive(Default, Clone, Copy)]
struct Counts {
    all: u32,
    refused: u32,
    caught: u32,
    timed_out: u32,
    explained: u32,
    open: u32,
    not_tried: u32,
}

impl Counts {
    fn add(&mut self, outcome: Option<&Outcome>, is_explained: bool) {
        self.all += 1;
        let which = match outcome {
            None => &mut self.not_tried,
            Some(Outcome::Refused) => &mut self.refused,
            Some(Outcome::Caught(_)) => &mut self.caught,
            Some(Outcome::TimedOut(_)) => &mut self.timed_out,
            Some(_) if is_explained => &mut self.explained,
            Some(_) => &mut self.open,
        };
        *which += 1;
    }
    fn killed(&self) -> u32 {
        self.caught + self.timed_out
    }
    /// Those that were tried and could be.
    fn viable(&self) -> u32 {
        self.all - self.refused - self.not_tried
    }
    fn share(&self) -> String {
        match self.viable() {
            0 => "–".to_owned(),
            viable => format!("{:.1} %", 100.0 * f64::from(self.killed()) / f64::from(viable)),
        }
    }
}

pub fn write(mutants: &BTreeMap<usize, Mutant>, results: &Results) -> io::Result<()> {
    let text = fs::read_to_string(EXPLAINED)?;
    let explained = Explained::parse(&text).map_err(io::Error::other)?;
    let page = fs::read_to_string(PAGE)?;
    let parts =
        page.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let (head, tail) =
        parts.ok_or_else(|| io::Error::other(format!("{PAGE} has lost its markers")))?;
    fs::write(
        PAGE,
        format!("{head}{BEGIN}\n{}\n{END}{tail}", section(mutants, results, &explained)),
    )
}

fn section(
    mutants: &BTreeMap<usize, Mutant>,
    results: &Results,
    explained: &Explained<'_>,
) -> String {
    let mut layers: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut total = Counts::default();
    for mutant in mutants.values() {
        let (outcome, is_explained) = (results.of(mutant), explained.has(&mutant.id));
        let layer = mutant.module().split('/').next().unwrap_or_default();
        layers.entry(layer).or_default().add(outcome, is_explained);
        total.add(outcome, is_explained);
        match outcome {
            Some(outcome) if outcome.is_missed() && !is_explained => {
                eprintln!("not explained: {}", mutant.id)
            }
            Some(outcome) if !outcome.is_missed() && is_explained => {
                eprintln!("explained, but {outcome}: {}", mutant.id)
            }
            _ => (),
        }
    }
    let mut out = format!(
        "{} mutants of `hakmem-core`, of which {} were tried. The compiler refused {} of these. Of \
         the other {} the tests catch {}, {} of these by a time limit: **{}**. Not caught and \
         explained: {}, not explained: {}.\n\n\
         | layer | mutants | refused | caught | by time | explained | open | not tried | share |\n\
         |---|---|---|---|---|---|---|---|---|\n",
        total.all,
        total.refused + total.viable(),
        total.refused,
        total.viable(),
        total.killed(),
        total.timed_out,
        total.share(),
        total.explained,
        total.open
    );
    for (layer, c) in &layers {
        let _ = writeln!(
            out,
            "| `{layer}` | {} | {} | {} | {} | {} | {} | {} | {} |",
            c.all,
            c.refused,
            c.caught,
            c.timed_out,
            c.explained,
            c.open,
            c.not_tried,
            c.share()
        );
    }
    out
}
