//! Options in the environment: those that hakmem ignores.

use super::finding::{Finding, Verdict};
use hakmem_core::options::{self, Error, PREFIX};

/// Names and values.
pub type Variables = Vec<(String, String)>;

/// The variables of a file as /proc/PID/environ is.
pub fn parse(text: &str) -> Variables {
    let pair = |entry: &str| {
        let (name, value) = entry.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    text.split('\0').filter_map(pair).collect()
}

pub fn finding(variables: &Variables) -> Finding {
    const SUBJECT: &str = "options";
    let ours: Vec<_> = variables
        .iter()
        .filter(|(name, _)| name.starts_with(PREFIX))
        .collect();
    if ours.is_empty() {
        return Finding::ok(SUBJECT, "none set", "All options have their defaults.");
    }
    let all: Vec<_> = ours
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    // This process has another allocator: to set an option here only checks it.
    let wrong = ours
        .iter()
        .find_map(|(name, value)| match options::set(name, value) {
            Ok(()) | Err(Error::AtStart) => None,
            Err(why) => Some(format!("hakmem ignores {name}={value}: {why}.")),
        });
    match wrong {
        None => Finding::ok(
            SUBJECT,
            &all.join(" "),
            "hakmem options NAME says what each does.",
        ),
        Some(why) => Finding::new(
            Verdict::Note,
            SUBJECT,
            &all.join(" "),
            why,
            "hakmem options lists the names and their values.",
        ),
    }
}
