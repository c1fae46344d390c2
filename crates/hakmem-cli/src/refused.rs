//! What is said of a line that the parser refuses: the nearest of the values that there are, and
//! lines that are not longer than others.

use crate::lines::{WIDTH, length, wrap};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use hakmem_core::options::PREFIX;

/// How alike two names are, from 0 to 1, if one is to be named for the other.
const ALIKE: f64 = 0.7;

/// Adds the nearest value, if the parser found none.
pub fn suggest(told: &mut clap::Error) {
    let (Some(ContextValue::String(given)), Some(ContextValue::Strings(values)), None) = (
        told.get(ContextKind::InvalidValue),
        told.get(ContextKind::ValidValue),
        told.get(ContextKind::SuggestedValue),
    ) else {
        return;
    };
    if let Some(value) = nearest(given, values) {
        let value = ContextValue::String(value.to_owned());
        told.insert(ContextKind::SuggestedValue, value);
    }
}

fn nearest<'a>(given: &str, values: &'a [String]) -> Option<&'a str> {
    let given = given.to_ascii_uppercase();
    let given = given.strip_prefix(PREFIX).unwrap_or(&given);
    let alike = |value: &String| strsim::jaro(given, &value.to_ascii_uppercase());
    let rated = values.iter().map(|value| (alike(value), value.as_str()));
    let best = rated.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|&(alike, _)| alike > ALIKE)
        .map(|(_, value)| value)
}

/// What is said, with its long lines broken between words; None: it has none. The help has columns,
/// and fits as it is.
pub fn narrowed(told: &clap::Error) -> Option<String> {
    match told.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => None,
        _ => narrow(&told.render().to_string()),
    }
}

fn narrow(text: &str) -> Option<String> {
    if text.lines().all(|line| length(line) <= WIDTH) {
        return None;
    }
    let broken = |line: &str| {
        let rest = line.trim_start();
        let indent = length(line) - length(rest);
        let lines = wrap(rest, WIDTH.saturating_sub(indent), 2);
        let lines = lines.iter().map(|line| format!("{:indent$}{line}\n", ""));
        lines.collect::<String>()
    };
    let line = |line: &str| match length(line) > WIDTH {
        true => broken(line),
        false => format!("{line}\n"),
    };
    Some(text.lines().map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name() {
        let values = ["MODE", "DECAY_MS", "MAP"].map(str::to_owned);
        assert_eq!(nearest("hakmem_decay", &values), Some("DECAY_MS"));
        assert_eq!(nearest("mod", &values), Some("MODE"));
        for far in ["XYZ", "NOPE"] {
            assert_eq!(nearest(far, &values), None, "{far}");
        }
    }

    #[test]
    fn long_lines_keep_their_indent() {
        assert_eq!(narrow("short\n\n  tip\n"), None);
        let long = format!("first\n\n  [{}]\n", ["word"; 20].join(" "));
        let expected = format!(
            "first\n\n  [{}\n    {}]\n",
            ["word"; 15].join(" "),
            ["word"; 5].join(" ")
        );
        assert_eq!(narrow(&long), Some(expected));
    }
}
