//! Names of programs on the command line.

use clap::builder::{PossibleValue, PossibleValuesParser};

/// A parser that takes one of these names. The second text of each explains it.
pub fn choice(all: impl IntoIterator<Item = (&'static str, &'static str)>) -> PossibleValuesParser {
    let value = |(name, what)| PossibleValue::new(name).help(what);
    PossibleValuesParser::new(all.into_iter().map(value))
}

/// The first row of a table that has the name of an earlier row, or that is not complete. A row has
/// a name, and true if it is complete.
#[cfg(test)]
pub fn first_wrong<'a>(rows: impl IntoIterator<Item = (&'a str, bool)>) -> Option<&'a str> {
    let mut seen = std::collections::BTreeSet::new();
    let is_wrong = |&(name, is_complete): &(_, bool)| !seen.insert(name) || !is_complete;
    let found = rows.into_iter().find(is_wrong);
    found.map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_stands_twice_and_a_row_with_a_gap_are_found() {
        assert_eq!(first_wrong([("a", true), ("b", true)]), None);
        assert_eq!(
            first_wrong([("a", true), ("b", true), ("a", true)]),
            Some("a")
        );
        assert_eq!(first_wrong([("a", true), ("b", false)]), Some("b"));
    }
}
