//! What `hakmem doctor` found: one finding for each thing that it looked at, as text and as JSON.

use crate::checked;
use crate::lines::{WIDTH, words, wrap};
use crate::terminal::Terminal;
use serde::Serialize;
use std::fmt::Write;

/// Columns before the meaning of a finding.
const INDENT: usize = 9;

/// The worst is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// hakmem works as it does anywhere.
    Ok,
    /// hakmem works. Something is worth knowing.
    Note,
    /// hakmem does not serve the program, or nothing tells whether it does, or the program is near
    /// a limit.
    Problem,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Problem => "problem",
        }
    }

    /// Green, yellow, red.
    fn colour(self) -> u8 {
        match self {
            Self::Ok => 32,
            Self::Note => 33,
            Self::Problem => 31,
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Finding {
    pub verdict: Verdict,
    /// What was looked at.
    pub subject: &'static str,
    /// What is there.
    pub found: String,
    /// What that means for hakmem.
    pub meaning: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    pub fn ok(subject: &'static str, found: &str, meaning: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Ok,
            subject,
            found: checked::name(found),
            meaning: meaning.into(),
            advice: None,
        }
    }

    /// One on what could not be read.
    pub fn unknown(
        subject: &'static str,
        meaning: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::new(Verdict::Note, subject, "not known", meaning, advice)
    }

    /// One that is worth knowing, or a problem.
    pub fn new(
        verdict: Verdict,
        subject: &'static str,
        found: &str,
        meaning: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            verdict,
            advice: Some(advice.into()),
            ..Self::ok(subject, found, meaning)
        }
    }
}

/// How many findings have this verdict.
pub fn count(findings: &[Finding], verdict: Verdict) -> usize {
    findings.iter().filter(|f| f.verdict == verdict).count()
}

/// The findings for a person to read, in at most `WIDTH` columns.
pub fn plain(findings: &[Finding], colours: bool, terminal: Option<Terminal>) -> String {
    let mut text = String::new();
    for finding in findings {
        let word = format!("{:<INDENT$}", finding.verdict.word());
        let word = match colours {
            true => format!("\x1b[{}m{word}\x1b[0m", finding.verdict.colour()),
            false => word,
        };
        let head = format!("{}: {}", finding.subject, finding.found);
        text += &word;
        text += &wrapped(&checked::text(&head, 512), terminal);
        let advice = finding.advice.as_deref().unwrap_or_default();
        let meaning = format!("{} {advice}", finding.meaning);
        let _ = write!(
            text,
            "{:INDENT$}{}",
            "",
            wrapped(&checked::text(&meaning, 2048), terminal)
        );
    }
    let many = |verdict| count(findings, verdict);
    let sum = format!(
        "problems: {}, notes: {}, ok: {}",
        many(Verdict::Problem),
        many(Verdict::Note),
        many(Verdict::Ok)
    );
    let sum = terminal.map_or(vec![sum.clone()], |terminal| words(&sum, terminal.width));
    text + "\n" + &sum.join("\n") + "\n"
}

/// The words in lines that begin at the indent, the first one there already.
fn wrapped(said: &str, terminal: Option<Terminal>) -> String {
    let lines = match terminal {
        Some(terminal) => words(said, terminal.width.min(WIDTH).saturating_sub(INDENT)),
        None => wrap(said, WIDTH - INDENT, 0),
    };
    lines.join(&format!("\n{:INDENT$}", "")) + "\n"
}

/// The findings for a program.
pub fn json(findings: &[Finding]) -> String {
    #[derive(Serialize)]
    struct All<'a> {
        schema: u32,
        problems: usize,
        notes: usize,
        findings: &'a [Finding],
    }
    let all = All {
        schema: 1,
        problems: count(findings, Verdict::Problem),
        notes: count(findings, Verdict::Note),
        findings,
    };
    serde_json::to_string_pretty(&all).expect("strings and numbers") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_longer_than_the_width() {
        let long = "x".repeat(200);
        let found = Finding::new(
            Verdict::Note,
            "a",
            &long,
            "many words ".repeat(40),
            "do this",
        );
        let text = plain(&[found], false, None);
        assert!(
            text.lines().all(|line| line.chars().count() <= WIDTH),
            "{text}"
        );
        assert!(text.starts_with("note     a:\n         xxx"), "{text}");
        assert!(text.ends_with("\nproblems: 0, notes: 1, ok: 0\n"));
    }

    #[test]
    fn what_a_terminal_obeys_is_not_shown() {
        let text = plain(&[Finding::ok("a", "\x1b[2Jb", "c\nd")], false, None);
        assert!(
            text.starts_with("ok       a: ?[2Jb\n         c?d\n"),
            "{text}"
        );
    }
}
