//! docs/conformance.md: the table between its two markers is made from a run.

use crate::Outcomes;
use crate::behaviours::{self, SECTIONS};
use crate::front_ends::{FRONT_ENDS, FrontEnd, Outcome};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

const BEGIN: &str = "<!-- made by ci/conformance -->\n";
const END: &str = "<!-- up to here -->\n";

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md")
}

/// The page's parts: before the table, the table, behind it.
fn split(page: &str) -> Result<(&str, &str, &str), String> {
    let parts = page.split_once(BEGIN).and_then(|(head, rest)| {
        let (table, tail) = rest.split_once(END)?;
        Some((head, table, tail))
    });
    parts.ok_or_else(|| "docs/conformance.md has lost its markers".to_owned())
}

/// The page has a row for every behaviour, and a cell for every front end that says either an
/// outcome or, where the behaviour does not apply, that.
pub fn is_current() -> Result<(), String> {
    let page = std::fs::read_to_string(path()).map_err(|e| format!("docs/conformance.md: {e}"))?;
    let (_, table, _) = split(&page)?;
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let expected = behaviours::all().count();
    for (i, behaviour) in behaviours::all().enumerate() {
        let row = rows.get(i).map_or(&[] as &[&str], |row| row);
        let fits = row.first() == Some(&format!("`{}`", behaviour.name).as_str())
            && row.len() == 1 + FRONT_ENDS.len()
            && FRONT_ENDS.iter().zip(&row[1..]).all(|(front_end, cell)| {
                cell.starts_with('–') == front_end.excluded(behaviour).is_some() && !cell.is_empty()
            });
        if !fits {
            return Err(format!(
                "docs/conformance.md is out of date at {} (it has {row:?}): run ci/conformance",
                behaviour.name
            ));
        }
    }
    if rows.len() != expected {
        return Err("docs/conformance.md has rows too many: run ci/conformance".to_owned());
    }
    Ok(())
}

/// Writes the outcomes of a whole run into the page.
pub fn write(outcomes: &Outcomes) {
    let complete = behaviours::all().all(|b| {
        FRONT_ENDS.iter().all(|front_end| {
            front_end.excluded(b).is_some() || outcomes.contains_key(&(b.name, *front_end))
        })
    });
    if !complete {
        eprintln!(
            "docs/conformance.md is left as it was: only a run of all behaviours can make it"
        );
        return;
    }
    let page = std::fs::read_to_string(path()).expect("docs/conformance.md can be read");
    let (head, _, tail) = split(&page).expect("the page is whole");
    let made = format!("{head}{BEGIN}{}{END}{tail}", table(outcomes));
    std::fs::write(path(), made).expect("docs/conformance.md can be written");
}

/// The numbered reasons below the table.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn number(&mut self, text: &str) -> usize {
        let place = self.0.iter().position(|note| note == text);
        1 + place.unwrap_or_else(|| {
            self.0.push(text.to_owned());
            self.0.len() - 1
        })
    }
}

fn table(outcomes: &Outcomes) -> String {
    let mut notes = Notes::default();
    let mut text = format!("\n{}\n", summary(outcomes));
    for section in SECTIONS {
        let _ = write!(
            text,
            "\n### {}\n\n| behaviour | preloaded | linked | Rust | glibc \
             |\n|---|---|---|---|---|\n",
            section.title
        );
        for behaviour in section.behaviours {
            let _ = write!(text, "| `{}` |", behaviour.name);
            for front_end in FRONT_ENDS {
                let cell = match (
                    front_end.excluded(behaviour),
                    outcomes.get(&(behaviour.name, front_end)),
                ) {
                    (Some(why), _) => format!("– <sup>{}</sup>", notes.number(why)),
                    (None, Some(Outcome::Held)) => "ok".to_owned(),
                    (None, Some(Outcome::Lacking(why))) => {
                        format!("no <sup>{}</sup>", notes.number(&format!("glibc: {why}")))
                    }
                    (None, Some(Outcome::Failed(why))) => {
                        let line = why.lines().next().unwrap_or_default().replace('|', "/");
                        format!("**failed** <sup>{}</sup>", notes.number(&line))
                    }
                    (None, None) => unreachable!("the run was whole"),
                };
                let _ = write!(text, " {cell} |");
            }
            text.push('\n');
        }
    }
    text.push('\n');
    for (i, note) in notes.0.iter().enumerate() {
        let _ = writeln!(text, "{}. {note}", i + 1);
    }
    text.push('\n');
    text
}

fn summary(outcomes: &Outcomes) -> String {
    let count = |front_end: fn(&FrontEnd) -> bool, held: bool| {
        outcomes
            .iter()
            .filter(|((_, at), outcome)| front_end(at) && (**outcome == Outcome::Held) == held)
            .count()
    };
    let ours: fn(&FrontEnd) -> bool = |front_end| *front_end != FrontEnd::Glibc;
    let control: fn(&FrontEnd) -> bool = |front_end| *front_end == FrontEnd::Glibc;
    let lacking = outcomes
        .values()
        .filter(|outcome| matches!(outcome, Outcome::Lacking(_)))
        .count();
    format!(
        "{} behaviours. On hakmem: {} runs, {} failed. On glibc alone: {} ok, {lacking} that it \
         does not have, {} failed. \
         hakmem {}, {}, {}.",
        behaviours::all().count(),
        count(ours, true) + count(ours, false),
        count(ours, false),
        count(control, true),
        count(control, false) - lacking,
        env!("CARGO_PKG_VERSION"),
        kernel(),
        first_line("getconf", &["GNU_LIBC_VERSION"]),
    )
}

/// Its name and version, without what its builder added.
fn kernel() -> String {
    let line = first_line("uname", &["-sr"]);
    line.split('.').take(2).collect::<Vec<_>>().join(".")
}

fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map_or_else(
        |_| String::new(),
        |o| String::from_utf8_lossy(&o.stdout).into_owned(),
    );
    text.lines().next().unwrap_or("unknown").to_owned()
}
