//! Reads `explained.txt`: the reasons why no test can catch some mutants.
//!
//! ```text
//! # A comment.
//! = a reason
//! MODULE: what is changed
//! MODULE: what is changed
//! = another reason
//! ```

use std::collections::HashMap;

/// The path of the file.
pub const EXPLAINED: &str = "ci/mutation/explained.txt";

/// The reasons in their order, each with the ids of its mutants.
pub struct Explained<'a> {
    pub reasons: Vec<(&'a str, Vec<&'a str>)>,
}

impl<'a> Explained<'a> {
    /// An error names the line.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        let mut seen = HashMap::new();
        for (i, line) in text.lines().map(str::trim).enumerate() {
            let at = |what| format!("explained.txt, line {}: {what}", i + 1);
            if line.is_empty() || line.starts_with('#') {
            } else if let Some(reason) = line.strip_prefix("= ") {
                reasons.push((reason, Vec::new()));
            } else if let Some(before) = seen.insert(line, i + 1) {
                return Err(at(format!("is line {before} again")));
            } else {
                reasons
                    .last_mut()
                    .ok_or_else(|| at("has no reason above it".to_owned()))?
                    .1
                    .push(line);
            }
        }
        Ok(Self { reasons })
    }

    pub fn has(&self, id: &str) -> bool {
        self.reasons.iter().any(|(_, ids)| ids.contains(&id))
    }
}
