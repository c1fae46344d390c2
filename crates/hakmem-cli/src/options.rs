//! `hakmem options`: the allocator's options, from the table that the allocator itself is made
//! with.

use crate::checked::{self, say};
use crate::lines::{WIDTH, clauses, length, words, wrap};
use crate::proc::Variables;
use crate::terminal::Terminal;
use crate::view::{Set, Target};
use crate::{grammar, output, proc};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use hakmem_core::options::{Entry, PREFIX, TABLE, Values};
use serde::Serialize;
use std::path::Path;
use std::process;

/// Where the meaning of an option begins.
const INDENT: usize = 6;

/// Where the values of an option begin, and the least room for them there: with less, they stand
/// below the name.
const VALUES: usize = 46;
const LEAST: usize = 20;

/// Bytes of an environment that are read.
const MOST: u64 = 1 << 20;

/// The options in the order in which they are shown, under what they are for.
const GROUPS: [(&str, &[&str]); 7] = [
    (
        "How long free memory stays",
        &[
            "DECAY_MS",
            "SURPLUS_MIB",
            "HUGE_CACHE_MIB",
            "HUGE_CACHE_PERCENT",
            "SCAVENGER",
            "CACHED_PAGES",
            "PARK_BLOCKS",
            "MODE",
        ],
    ),
    (
        "Limits",
        &[
            "SOFT_LIMIT_MIB",
            "LIMIT_PERCENT",
            "HARD_LIMIT_MIB",
            "PRESSURE_PERCENT",
        ],
    ),
    ("Huge pages", &["THP", "THP_FROM_SEGMENTS"]),
    ("Many threads", &["SHARED_FROM_HEAPS", "BATCH_BYTES"]),
    (
        "Errors of the program",
        &[
            "ON_ERROR",
            "ERRORS",
            "GUARD_SAMPLE",
            "HARDENED",
            "FOREIGN",
            "FOREIGN_REPORT",
        ],
    ),
    (
        "Reports",
        &[
            "STATS",
            "STATS_SIGNAL",
            "MAP",
            "TIMING",
            "PROFILE",
            "PROFILE_SIGNAL",
            "PROFILE_INTERVAL",
        ],
    ),
    (
        "To see what a part is worth",
        &[
            "CARVE_BYTES",
            "UNFULL_FRACTION",
            "BATCH_BY_PAGE",
            "POPULATE_FROM_PAGES",
        ],
    ),
];

pub const AFTER_HELP: &str = "\
hakmem reads options from the environment when a program starts: HAKMEM_DECAY_MS=1000 hakmem run \
PROG. It reports an unknown name or a value out of range on standard error, and ignores it. An \
option by size class takes 4096 for all classes, 64:8192 for the class of 64 bytes, and \
4096,64:8192 for both in turn. A size between two classes means the next larger one.
With --pid, hakmem reads the values in the process. The process does not say what it read at its \
start only, such as HAKMEM_STATS: hakmem reads these options in the environment that the program \
was started with, and prints those that are set there.

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
          value_parser = grammar::process, allow_negative_numbers = true)]
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
    let terminal = Terminal::of_stdout();
    let plain = |entry: &Entry| plain(entry, terminal);
    let text = if let Some(pid) = options.pid {
        in_process(pid, options.name.as_deref(), terminal)
    } else if options.json {
        json(&TABLE.iter().filter(is_meant).collect::<Vec<_>>())
    } else if options.markdown {
        by_group(&is_meant, markdown)
    } else if options.name.is_some() {
        TABLE.iter().filter(is_meant).map(plain).collect()
    } else {
        by_group(&is_meant, |title, entries| {
            let title = terminal.map_or(vec![title.to_owned()], |t| words(title, t.width));
            let entries: String = entries.iter().copied().map(plain).collect();
            format!("{}\n{entries}", title.join("\n"))
        })
    };
    match output::show(text.as_bytes()) {
        Ok(()) => process::exit(0),
        Err(why) => {
            say(&why);
            process::exit(1)
        }
    }
}

/// The values in a process, each as a line of its environment. One that is named has a line in any
/// case.
fn in_process(pid: u32, name: Option<&str>, terminal: Option<Terminal>) -> String {
    let set = match Target::open(pid).and_then(|mut target| target.options()) {
        Ok(set) => set,
        Err(trouble) => failed(&trouble.say(pid)),
    };
    let Some(name) = name else {
        let now = set.iter().map(|set| in_force(set, terminal));
        let variables = variables(pid).unwrap_or_default();
        let at_start = TABLE.iter().filter(|entry| is_of_start(entry));
        let at_start = at_start.filter_map(|entry| at_start_of(entry, &variables, terminal));
        return now.chain(at_start).collect();
    };
    if let Some(set) = set.iter().find(|set| is_named(set.entry, name)) {
        return in_force(set, terminal);
    }
    let entry = TABLE.iter().find(|entry| is_named(entry, name));
    let Some(entry) = entry.filter(|entry| is_of_start(entry)) else {
        failed("its hakmem is another version than this command: it does not have this option")
    };
    let Some(variables) = variables(pid) else {
        failed(&format!(
            "the environment of process {pid} cannot be read, and only that has {PREFIX}{}",
            entry.name()
        ))
    };
    at_start_of(entry, &variables, terminal).unwrap_or_else(|| {
        let name = format!("{PREFIX}{}", entry.name());
        noted(&name, "(not set at the start)", terminal)
    })
}

fn failed(why: &str) -> ! {
    say(why);
    process::exit(1)
}

/// A value, and what is said of it: on a terminal that is too narrow for both, below it.
fn noted(value: &str, note: &str, terminal: Option<Terminal>) -> String {
    let whole = format!("{value}  {note}");
    match terminal {
        Some(terminal) if length(whole.trim_end()) > terminal.width => {
            let note = words(note, terminal.width.saturating_sub(INDENT));
            format!("{value}\n{}", indented(&note, INDENT))
        }
        _ => format!("{}\n", whole.trim_end()),
    }
}

fn in_force(set: &Set, terminal: Option<Terminal>) -> String {
    let default = set.entry.default_value().map(|value| value.to_string());
    let note = match default {
        Some(default) if default != set.value => format!("(default: {default})"),
        _ => String::new(),
    };
    let value = format!("{PREFIX}{}={}", set.entry.name(), set.value);
    noted(&value, &note, terminal)
}

/// Whether only the environment tells what the option was set to: the process does not say it.
fn is_of_start(entry: &Entry) -> bool {
    entry.default_value().is_none() || entry.name() == "TIMING"
}

/// None: it was not set.
fn at_start_of(entry: &Entry, variables: &Variables, terminal: Option<Terminal>) -> Option<String> {
    let name = format!("{PREFIX}{}", entry.name());
    let (_, value) = variables.iter().find(|(variable, _)| *variable == name)?;
    let value = format!("{name}={}", checked::text(value, 4096));
    Some(noted(&value, "(set at the start)", terminal))
}

/// The environment that the program was executed with; None: it cannot be read.
fn variables(pid: u32) -> Option<Variables> {
    let bytes = checked::start(Path::new(&format!("/proc/{pid}/environ")), MOST).ok()?;
    Some(proc::variables(&String::from_utf8_lossy(&bytes)))
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

/// The text of each group that has a meant option, with a blank line between them.
fn by_group(
    is_meant: &dyn Fn(&&Entry) -> bool,
    text: impl Fn(&str, &[&Entry]) -> String,
) -> String {
    let entry = |name: &&str| TABLE.iter().find(|entry| entry.name() == *name);
    let groups = GROUPS.iter().filter_map(|(title, names)| {
        let entries: Vec<_> = names.iter().filter_map(entry).filter(is_meant).collect();
        (!entries.is_empty()).then(|| text(title, &entries))
    });
    groups.collect::<Vec<_>>().join("\n")
}

fn plain(entry: &Entry, terminal: Option<Terminal>) -> String {
    let lines = match terminal {
        Some(terminal) => words(
            entry.meaning(),
            terminal.width.min(WIDTH).saturating_sub(INDENT),
        ),
        None => wrap(entry.meaning(), WIDTH - INDENT, 0),
    };
    head(entry, terminal.map_or(usize::MAX, |t| t.width)) + &indented(&lines, INDENT)
}

/// The name of an option, its default and its values, in a width.
fn head(entry: &Entry, width: usize) -> String {
    let name = format!("{PREFIX}{}", entry.name());
    let (default, values) = (default(entry), range(entry).replace('\n', " "));
    let start = format!("  {name:<27} {default:<15} ");
    if length(&start) + length(&values) <= width {
        return format!("{start}{values}\n");
    }
    if length(&start) == VALUES && width >= VALUES + LEAST {
        let values = indented(&clauses(&values, width - VALUES), VALUES);
        return start + values.trim_start();
    }
    let said = format!("default: {default}; values: {values}");
    format!("  {name}\n") + &indented(&words(&said, width.saturating_sub(INDENT)), INDENT)
}

fn indented(lines: &[String], indent: usize) -> String {
    lines
        .iter()
        .map(|line| format!("{:indent$}{line}\n", ""))
        .collect()
}

fn markdown(title: &str, entries: &[&Entry]) -> String {
    let mut text =
        format!("### {title}\n\n| option | default | values | meaning |\n|---|---|---|---|\n");
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
