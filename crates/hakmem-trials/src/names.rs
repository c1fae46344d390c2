//! Names of programs on the command line.

use clap::builder::{PossibleValue, PossibleValuesParser};

/// A parser that takes one of these names. The second text of each explains it.
pub fn choice(all: impl IntoIterator<Item = (&'static str, &'static str)>) -> PossibleValuesParser {
    let value = |(name, what)| PossibleValue::new(name).help(what);
    PossibleValuesParser::new(all.into_iter().map(value))
}

/// A name that stands twice among these.
#[cfg(test)]
pub fn twice<'a>(all: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = std::collections::BTreeSet::new();
    all.into_iter().find(|name| !seen.insert(*name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_stands_twice_is_found() {
        assert_eq!(twice(["a", "b", "c"]), None);
        assert_eq!(twice(["a", "b", "a"]), Some("a"));
    }
}
