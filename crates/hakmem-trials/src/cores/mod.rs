//! What many cores would pay for the lines of memory that threads share, by counting.
//!
//! `hakmem-trials cores` runs the threads of a pattern in turn, in a build whose core counts each
//! atomic step ([`hakmem_core::ledger`]). So it needs no machine with as many cores. Each run is a
//! process of its own, as heaps outlive the threads that had them.

mod patterns;
mod turns;

use clap::Args;
use hakmem_bench::record::Start;
use hakmem_bench::report::{Summary, markdown};
use hakmem_bench::sample::Series;
use hakmem_core::ledger;
use patterns::{ALL, PLACES, Pattern};
use serde::{Deserialize, Serialize};
use std::panic::Location;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, io};

/// `hakmem-trials cores`.
#[derive(Debug, Args)]
pub struct Options {
    /// The numbers of threads
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,2,4,8,16,32,64,128,256",
        value_name = "N,…"
    )]
    threads: Vec<usize>,
    /// Operations of each thread that are counted
    #[arg(long, default_value_t = 2000, value_name = "N")]
    operations: usize,
    /// Operations of each thread before these
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    fills: usize,
    /// The patterns [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    only: Vec<String>,
    /// A thread makes a step, not an operation, before the next one goes on: exchanges fail, and
    /// threads wait for locks
    #[arg(long)]
    interleaved: bool,
    /// The core knows of the nodes, each of 64 threads
    #[arg(long)]
    nodes: bool,
    /// Also list the N busiest lines of each run, and the N places with the most transfers
    #[arg(long, default_value_t = 0, value_name = "N")]
    top: usize,
    /// Write the record to FILE as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Run one pattern in this process, and print the outcome as JSON
    #[arg(long, hide = true)]
    one: bool,
}

/// What a run cost.
#[derive(Debug, Serialize, Deserialize)]
struct Outcome {
    threads: usize,
    /// For each 1,000 operations of all threads together.
    transfers: f64,
    /// Those of them from another node.
    far_transfers: f64,
    /// The share of blocks whose memory is another node's than their thread's, in per cent.
    far_blocks: f64,
    /// Writes of lines that several threads wrote, for each 1,000 operations.
    shared_writes: f64,
    /// Exchanges that found another value than they expected, for each 1,000 operations.
    failed: f64,
    /// Turns in which a thread waited for a lock, for each 1,000 operations.
    waits: f64,
    /// Shared lines, the one with the most transfers first.
    lines: Vec<Busy>,
    /// Lines that several threads wrote, the one with the most writes first.
    written: Vec<Busy>,
    /// Places in the source, the one with the most transfers first.
    sites: Vec<Busy>,
}

/// A line that several threads touched, or a place that touched lines. Figures are for each 1,000
/// operations of all threads.
#[derive(Debug, Serialize, Deserialize)]
struct Busy {
    writes: f64,
    transfers: f64,
    far: f64,
    failed: f64,
    place: String,
    /// The threads that wrote the line.
    writers: u32,
}

/// What the time of an operation is taken to be without a transfer, in ns.
const OPERATION: f64 = 15.0;
/// What a transfer is taken to cost between the cores of one node, in ns.
const TRANSFER: f64 = 100.0;
/// What it costs more between nodes of 64 cores.
const FAR: f64 = 100.0;

/// The time of so many transfers of 1,000 operations, for each of them, in ns.
fn waits(transfers: f64, far: f64) -> f64 {
    (transfers * TRANSFER + far * FAR) / 1000.0
}

impl Outcome {
    /// Operations per µs that as many cores would do at most: each waits for its own transfers, and
    /// each line is in one place at a time.
    fn modelled(&self) -> f64 {
        let alone = OPERATION + waits(self.transfers, self.far_transfers);
        let lines = self.lines.iter();
        let hottest = lines.map(|line| waits(line.transfers, line.far));
        let hottest = hottest.fold(0.0, f64::max);
        1000.0
            * (self.threads as f64 / alone).min(if hottest > 0.0 {
                1.0 / hottest
            } else {
                f64::INFINITY
            })
    }
}

/// Counts, and prints a table.
pub fn run(options: &Options) -> io::Result<bool> {
    let known = |name: &String| ALL.iter().any(|p| p.name == *name);
    if let Some(name) = options.only.iter().find(|&name| !known(name)) {
        return Err(io::Error::other(format!("no such pattern: {name}")));
    }
    if options
        .threads
        .iter()
        .any(|&n| n == 0 || n > ledger::THREADS)
    {
        return Err(io::Error::other(format!(
            "threads must be from 1 to {}",
            ledger::THREADS
        )));
    }
    let chosen = || {
        ALL.iter()
            .filter(|p| options.only.is_empty() || options.only.iter().any(|name| name == p.name))
    };
    if options.one {
        // Threads that run in turn take long, and what is done by the clock would count for too
        // much.
        for (option, value) in [("SCAVENGER", "0"), ("DECAY_MS", "86400000")] {
            hakmem_core::options::set(option, value)
                .map_err(|e| io::Error::other(e.to_string()))?;
        }
        ledger::set_nodes(options.nodes);
        let pattern = chosen().next().expect("a pattern");
        let outcome = count(pattern, options.threads[0], options);
        println!("{}", serde_json::to_string(&outcome)?);
        return Ok(true);
    }
    let start = Start::now();
    let mut rows = Vec::new();
    let mut series = Vec::new();
    for pattern in chosen() {
        let in_process = |&n: &usize| count_in_process(pattern, n, options);
        let outcomes: Vec<Outcome> = options
            .threads
            .iter()
            .map(in_process)
            .collect::<Result<_, _>>()?;
        for outcome in &outcomes {
            rows.push(row(pattern, outcome));
            print_top(pattern, outcome, options.top);
        }
        series.extend(curves(pattern, &outcomes));
    }
    print!("{}", markdown(&COLUMNS, &rows));
    if let Some(path) = &options.json {
        let mut record = start.record("cores", 1, Summary::new(&[], &[], "hakmem", &[], &[]));
        record.series = series;
        record.write(path)?;
    }
    Ok(true)
}

const COLUMNS: [&str; 14] = [
    "pattern",
    "threads",
    "transfers / 1,000 ops",
    "far ones",
    "far blocks %",
    "of the hottest line",
    "its writes / 1,000 ops",
    "first written at",
    "shared writes / 1,000 ops",
    "most of a line",
    "written at",
    "failed exchanges",
    "waits for locks",
    "modelled ops / µs",
];

fn row(pattern: &Pattern, outcome: &Outcome) -> Vec<String> {
    let (hottest, written) = (outcome.lines.first(), outcome.written.first());
    let figure =
        |f: fn(&Busy) -> f64| hottest.map_or("0".to_owned(), |line| format!("{:.1}", f(line)));
    vec![
        pattern.name.to_owned(),
        outcome.threads.to_string(),
        format!("{:.1}", outcome.transfers),
        format!("{:.1}", outcome.far_transfers),
        format!("{:.1}", outcome.far_blocks),
        figure(|line| line.transfers),
        figure(|line| line.writes),
        hottest.map_or(String::new(), |line| line.place.clone()),
        format!("{:.1}", outcome.shared_writes),
        written.map_or("0".to_owned(), |line| format!("{:.1}", line.writes)),
        written.map_or(String::new(), |line| line.place.clone()),
        format!("{:.1}", outcome.failed),
        format!("{:.1}", outcome.waits),
        format!("{:.0}", outcome.modelled()),
    ]
}

fn print_top(pattern: &Pattern, outcome: &Outcome, most: usize) {
    for (what, rows) in [
        ("line", &outcome.lines),
        ("written", &outcome.written),
        ("place", &outcome.sites),
    ] {
        for row in rows.iter().take(most) {
            eprintln!(
                "{} {:3} threads, {what:7}: {:8.1} transfers, {:8.1} writes by {:3}, {:6.1} failed, {}",
                pattern.name,
                outcome.threads,
                row.transfers,
                row.writes,
                row.writers,
                row.failed,
                row.place
            );
        }
    }
}

/// The curves of a pattern.
fn curves(pattern: &Pattern, outcomes: &[Outcome]) -> Vec<Series> {
    let curve = |name: &str, y: &str, value: &dyn Fn(&Outcome) -> f64| Series {
        name: format!("{name}: {}", pattern.name),
        allocator: "hakmem".to_owned(),
        x: "threads".to_owned(),
        y: y.to_owned(),
        points: outcomes
            .iter()
            .map(|o| (o.threads as f64, value(o)))
            .collect(),
    };
    vec![
        curve("transfers of lines", "per 1,000 operations", &|o| {
            o.transfers
        }),
        curve(
            "transfers of the hottest line",
            "per 1,000 operations",
            &|o| o.lines.first().map_or(0.0, |line| line.transfers),
        ),
        curve("writes of the busiest line", "per 1,000 operations", &|o| {
            o.written.first().map_or(0.0, |line| line.writes)
        }),
        curve(
            "modelled throughput",
            "operations per µs",
            &Outcome::modelled,
        ),
    ]
}

/// Runs a pattern in a process of its own.
fn count_in_process(pattern: &Pattern, threads: usize, options: &Options) -> io::Result<Outcome> {
    let output = Command::new(env::current_exe()?)
        .args(["cores", "--one", "--only", pattern.name])
        .args(["--threads", &threads.to_string()])
        .args(["--operations", &options.operations.to_string()])
        .args(["--fills", &options.fills.to_string()])
        .args(options.nodes.then_some("--nodes"))
        .args(options.interleaved.then_some("--interleaved"))
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!(
            "{} with {threads} threads: {}",
            pattern.name, output.status
        )));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Runs a pattern.
fn count(pattern: &'static Pattern, threads: usize, options: &Options) -> Outcome {
    turns::run(
        pattern,
        threads,
        options.fills,
        options.operations,
        options.interleaved,
    );
    let places = PLACES.lock().expect("no thread panicked");
    let thousands = (threads * options.operations) as f64 / 1000.0;
    let per = |count: u64| count as f64 / thousands;
    // SAFETY: all threads of the pattern have ended, and the ledger is closed.
    let (lines, sites) = unsafe { ledger::read() };
    let lines: Vec<&ledger::Line> = lines.collect();
    let by_line = |place: fn(&ledger::Line) -> String| {
        lines.iter().map(move |line| Busy {
            writes: per(line.writes),
            transfers: per(line.transfers),
            far: per(line.far),
            failed: per(line.failed),
            place: place(line),
            writers: line.writers(),
        })
    };
    let sites = sites.map(|site| Busy {
        writes: per(site.writes),
        transfers: per(site.transfers),
        far: 0.0,
        failed: per(site.failed),
        place: text(site.place),
        writers: 0,
    });
    Outcome {
        threads,
        transfers: lines.iter().map(|line| per(line.transfers)).sum(),
        far_transfers: lines.iter().map(|line| per(line.far)).sum(),
        far_blocks: places.far as f64 / places.blocks.max(1) as f64 * 100.0,
        shared_writes: lines
            .iter()
            .filter(|line| line.writers() > 1)
            .map(|line| per(line.writes))
            .sum(),
        failed: lines.iter().map(|line| per(line.failed)).sum(),
        // SAFETY: all threads of the pattern have ended, and the ledger is closed.
        waits: per(unsafe { ledger::waits() }),
        lines: first_of(by_line(|line| text(line.place)), |row| row.transfers),
        written: first_of(by_line(writers_of).filter(|line| line.writers > 1), |row| {
            row.writes
        }),
        sites: first_of(sites, |row| row.transfers),
    }
}

/// The places that wrote a line, the one with the most writes first.
fn writers_of(line: &ledger::Line) -> String {
    let mut places = line.written;
    places.sort_by_key(|&(_, writes)| std::cmp::Reverse(writes));
    let places = places.iter().filter(|(place, _)| place.is_some());
    places
        .map(|&(place, _)| text(place))
        .collect::<Vec<_>>()
        .join(", ")
}

fn text(place: Option<&Location>) -> String {
    place.map_or(String::new(), |at| {
        format!("{}:{}", short(at.file()), at.line())
    })
}

/// The rows with the most of a figure.
fn first_of(rows: impl Iterator<Item = Busy>, figure: fn(&Busy) -> f64) -> Vec<Busy> {
    let mut rows: Vec<Busy> = rows.filter(|row| figure(row) > 0.0).collect();
    rows.sort_by(|a, b| figure(b).total_cmp(&figure(a)));
    rows.truncate(32);
    rows
}

/// The path of a source file within the core.
fn short(file: &str) -> &str {
    file.split_once("hakmem-core/src/")
        .map_or(file, |(_, rest)| rest)
}
