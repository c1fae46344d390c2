//! `hakmem options`: the allocator's options, from the table that the allocator itself is made with.

use clap::Args;
use hakmem_core::options::{Entry, PREFIX, TABLE, Values};
use serde::Serialize;
use std::io::{self, Write};
use std::process;

pub const AFTER_HELP: &str = "\
They are read from the environment when a program starts: HAKMEM_DECAY_MS=1000 hakmem run PROG. An unknown name or a \
value out of range is named on standard error and ignored. An option by size class takes 4096 for all classes, 64:8192 \
for that of 64 bytes, and 4096,64:8192 for both in turn.";

#[derive(Args)]
pub struct Options {
    /// Prints JSON
    #[arg(long)]
    json: bool,
    /// Prints a table in Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

pub fn options(options: &Options) -> ! {
    let text = if options.json {
        json()
    } else if options.markdown {
        markdown()
    } else {
        plain()
    };
    match io::stdout().write_all(text.as_bytes()) {
        // A reader that has seen enough is no failure.
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            let _ = writeln!(io::stderr(), "hakmem: cannot write: {e}");
            process::exit(1)
        }
        _ => process::exit(0),
    }
}

/// What an option may be set to, in words.
fn range(entry: &Entry) -> String {
    let all = match entry.values() {
        Values::Number(from, u32::MAX) => format!("from {from}"),
        Values::Number(from, to) => format!("{from} to {to}"),
        Values::Switch => "0 or 1".to_owned(),
        Values::Word(words) => words.join(", "),
        Values::Text(what) => what.to_owned(),
    };
    if entry.is_by_class() {
        format!("{all}, by class")
    } else {
        all
    }
}

/// A default as people say it: with its unit.
fn default(entry: &Entry) -> String {
    match entry.default_value() {
        Some(value) => format!("{value} {}", entry.unit()).trim_end().to_owned(),
        None => "none".to_owned(),
    }
}

fn plain() -> String {
    let mut text = String::new();
    for entry in TABLE.iter() {
        let name = format!("{PREFIX}{}", entry.name());
        text += &format!(
            "{name:<27} {:<15} {}\n",
            default(entry),
            range(entry).replace('\n', " ")
        );
        text += &format!("    {}\n", entry.meaning());
    }
    text
}

fn markdown() -> String {
    let mut text = "| option | default | values | meaning |\n|---|---|---|---|\n".to_owned();
    for entry in TABLE.iter() {
        text += &format!(
            "| `{PREFIX}{}` | {} | {} | {} |\n",
            entry.name(),
            default(entry),
            range(entry),
            entry.meaning()
        );
    }
    text
}

fn json() -> String {
    #[derive(Serialize)]
    struct Line {
        name: String,
        default: Option<String>,
        unit: Option<&'static str>,
        values: Allowed,
        by_class: bool,
        meaning: &'static str,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "lowercase")]
    enum Allowed {
        Number { from: u32, to: u32 },
        Switch,
        Word(&'static [&'static str]),
        Text(&'static str),
    }
    let line = |entry: &Entry| Line {
        name: format!("{PREFIX}{}", entry.name()),
        default: entry.default_value().map(|value| value.to_string()),
        unit: Some(entry.unit()).filter(|unit| !unit.is_empty()),
        values: match entry.values() {
            Values::Number(from, to) => Allowed::Number { from, to },
            Values::Switch => Allowed::Switch,
            Values::Word(words) => Allowed::Word(words),
            Values::Text(what) => Allowed::Text(what),
        },
        by_class: entry.is_by_class(),
        meaning: entry.meaning(),
    };
    let lines: Vec<_> = TABLE.iter().map(line).collect();
    serde_json::to_string_pretty(&lines).expect("strings and numbers") + "\n"
}
