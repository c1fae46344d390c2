//! `hakmem options`: the allocator's options, from the table that the allocator itself is made
//! with.

use crate::checked::say;
use crate::output;
use crate::view::{Set, Target};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use hakmem_core::options::{Entry, PREFIX, TABLE, Values};
use serde::Serialize;
use std::process;

pub const AFTER_HELP: &str = "\
hakmem reads options from the environment when a program starts: HAKMEM_DECAY_MS=1000 hakmem run \
PROG. It reports an unknown name or a value out of range on standard error, and ignores it. An \
option by size class takes 4096 for all classes, 64:8192 for the class of 64 bytes, and \
4096,64:8192 for both in turn.

Examples:
  hakmem options
  hakmem options DECAY_MS
  hakmem options --pid 1234
  hakmem options --json";

#[derive(Args)]
pub struct Options {
    /// Shows this option alone, named with HAKMEM_ or without
    #[arg(value_parser = names(), ignore_case = true, hide_possible_values = true)]
    name: Option<String>,
    /// Shows the values in a running process
    #[arg(long, conflicts_with_all = ["json", "markdown"],
          value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pid: Option<u32>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
    /// Prints a table in Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

pub fn options(options: &Options) -> ! {
    let is_meant = |entry: &&Entry| match &options.name {
        Some(name) => is_named(entry, name),
        None => true,
    };
    let entries: Vec<&Entry> = TABLE.iter().filter(is_meant).collect();
    let text = if let Some(pid) = options.pid {
        in_process(pid, &is_meant)
    } else if options.json {
        json(&entries)
    } else if options.markdown {
        markdown(&entries)
    } else {
        plain(&entries)
    };
    match output::show(text.as_bytes()) {
        Ok(()) => process::exit(0),
        Err(why) => {
            say(&why);
            process::exit(1)
        }
    }
}

/// The values in a process, each as a line of its environment.
fn in_process(pid: u32, is_meant: &dyn Fn(&&Entry) -> bool) -> String {
    let set = match Target::open(pid).and_then(|mut target| target.options()) {
        Ok(set) => set,
        Err(trouble) => {
            say(&trouble.say(pid));
            process::exit(1)
        }
    };
    let line = |set: &Set| {
        let default = set.entry.default_value().map(|value| value.to_string());
        let note = match default {
            Some(default) if default != set.value => format!("  (default: {default})"),
            _ => String::new(),
        };
        format!("{PREFIX}{}={}{note}\n", set.entry.name(), set.value)
    };
    let meant = set.iter().filter(|set| is_meant(&set.entry));
    meant.map(line).collect()
}

/// The names that there are.
fn names() -> PossibleValuesParser {
    let value =
        |entry: &Entry| PossibleValue::new(entry.name()).alias(format!("{PREFIX}{}", entry.name()));
    TABLE.iter().map(value).collect::<Vec<_>>().into()
}

fn is_named(entry: &Entry, name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name.strip_prefix(PREFIX).unwrap_or(&name) == entry.name()
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

fn plain(entries: &[&Entry]) -> String {
    let mut text = String::new();
    for entry in entries {
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

fn markdown(entries: &[&Entry]) -> String {
    let mut text = "| option | default | values | meaning |\n|---|---|---|---|\n".to_owned();
    for entry in entries {
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

fn json(entries: &[&Entry]) -> String {
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
    let line = |entry: &&Entry| Line {
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
    let lines: Vec<_> = entries.iter().map(line).collect();
    serde_json::to_string_pretty(&lines).expect("strings and numbers") + "\n"
}
