//! `hakmem-trials soak`: everything that a process can do to an allocator, at once, for long;
//! memory and maps on record.
//!
//! A child (`child`) plays the `roles` with hakmem preloaded; every block has contents that are
//! checked (`pattern`) when it changes hands or dies. This process looks at it from outside each
//! second (`log`), and judges at the end (`flat`).

mod chart;
pub mod child;
mod flat;
mod forked;
mod heap;
mod log;
mod pattern;
mod roles;
mod stage;

use crate::libraries;
use chart::Plot;
use child::Told;
use flat::{TOLERANCE, WINDOWS};
use hakmem_bench::child::{Capture, ending};
use hakmem_bench::machine::Machine;
use hakmem_bench::record::unix_time;
use hakmem_bench::report::{cell, markdown};
use hakmem_bench::stats::median;
use log::Row;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What comes before this is the start-up: seconds, or a quarter of a shorter run.
const SETTLED: u64 = 300;
/// Seconds in which every role must have got further.
const PATIENCE: u64 = 120;

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// For so long
    #[arg(long, default_value = "30", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: u64,
    /// Where random numbers begin [default: by the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// The library [default: libhakmem.so beside this program]
    #[arg(long, value_name = "FILE")]
    lib: Option<PathBuf>,
    /// Run without any library, on the system's allocator: shows that the soak itself is right
    #[arg(long, conflicts_with = "lib")]
    system: bool,
    /// Write every second to this file, at once
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// The folder that soak.svg and soak.md are written to
    #[arg(long, default_value = "docs", value_name = "FOLDER")]
    to: PathBuf,
}

/// Runs it. `Ok(false)` if anything was damaged, got stuck, or grew.
pub fn run(options: &Options) -> io::Result<bool> {
    let machine = Machine::here();
    let library = library(options)?;
    let seconds = options.minutes * 60;
    let seed = options.seed.unwrap_or_else(unix_time);
    let subject = match library {
        Some(_) => "hakmem",
        None => "the system's allocator",
    };
    println!("{} min, seed {seed}, on {subject}", options.minutes);
    let (rows, failure) = watch(options, library.as_deref(), seconds, seed)?;
    let settled = SETTLED.min(seconds / 4);
    let plots = plots(&rows, settled);
    let heading = format!("Soak for {} min: resident memory and maps", options.minutes);
    let image = chart::draw(&heading, settled, seconds, &plots)?;
    fs::write(options.to.join("soak.svg"), image)?;
    let [memory, maps] = &plots;
    let lines = [
        match &failure {
            Some(what) => format!("FAILED: {what}"),
            None => "Nothing was damaged, nothing got stuck.".to_owned(),
        },
        said("Resident memory", "MiB", memory, settled),
        said("The number of maps", "maps", maps, settled),
    ];
    let text = page(options, &machine, seed, &rows, &lines);
    fs::write(options.to.join("soak.md"), text)?;
    lines.iter().for_each(|line| println!("{line}"));
    println!("written: soak.svg, soak.md in {}", options.to.display());
    Ok(failure.is_none() && plots.iter().all(Plot::is_flat))
}

/// The library that the options ask for; none for the system's allocator.
fn library(options: &Options) -> io::Result<Option<PathBuf>> {
    let Some(path) = &options.lib else {
        return match options.system {
            true => Ok(None),
            false => libraries::ours().map(Some),
        };
    };
    let named = |e: io::Error| io::Error::other(format!("{}: {e}", path.display()));
    path.canonicalize().map(Some).map_err(named)
}

/// The two figures that must stay where they are.
fn plots(rows: &[Row], settled: u64) -> [Plot; 2] {
    let points = |of: fn(&Row) -> f64| rows.iter().map(|r| (r.second, of(r))).collect();
    [
        Plot::new(
            "resident MiB, and medians of five stretches after the start-up",
            points(|r| r.rss_kib as f64 / 1024.0),
            settled,
        ),
        Plot::new(
            "maps, and their medians",
            points(|r| r.maps as f64),
            settled,
        ),
    ]
}

/// What a figure did after the start-up, in words.
fn said(what: &str, unit: &str, plot: &Plot, settled: u64) -> String {
    let Some(flat) = &plot.flatness else {
        return format!("{what}: FAILED: too little time to tell.");
    };
    let medians: Vec<String> = flat.windows.iter().map(|w| format!("{:.1}", w.2)).collect();
    format!(
        "{what} after the first {settled} s, medians of {WINDOWS} equal stretches: {} {unit}. The \
         highest later one is {:.3} of the first: {}.",
        medians.join(", "),
        flat.highest,
        if flat.is_flat() { "flat" } else { "NOT FLAT" }
    )
}

/// Ten rows, each of a tenth of the time.
fn table(rows: &[Row]) -> String {
    let tenths = rows.chunks(rows.len().div_ceil(10).max(1));
    let cells = tenths.filter_map(|rows| {
        let middle = |of: fn(&Row) -> f64| median(&rows.iter().map(of).collect::<Vec<_>>());
        let last = rows.last()?;
        let blocks = last
            .told
            .hakmem
            .as_ref()
            .map(|f| f["allocations"].to_string());
        Some(vec![
            format!("{:.1}", last.second as f64 / 60.0),
            format!("{:.1}", middle(|r| r.rss_kib as f64 / 1024.0)?),
            format!("{:.0}", middle(|r| r.maps as f64)?),
            cell(blocks),
        ])
    });
    let header = ["up to minute", "resident, MiB", "maps", "blocks handed out"];
    markdown(&header, &cells.collect::<Vec<_>>())
}

/// Runs the child and follows it. The second part is why it failed, if it did.
fn watch(
    options: &Options,
    library: Option<&Path>,
    seconds: u64,
    seed: u64,
) -> io::Result<(Vec<Row>, Option<String>)> {
    let mut file = options.csv.as_deref().map(log::create).transpose()?;
    let errors = Capture::new()?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args([
            "soak-child",
            "--seconds",
            &seconds.to_string(),
            "--seed",
            &seed.to_string(),
        ])
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors.stdio()?);
    if let Some(library) = library {
        command.env("LD_PRELOAD", library);
    }
    let mut process = command.spawn()?;
    let followed = follow(&mut process, library.is_some(), &mut file);
    if followed
        .as_ref()
        .is_ok_and(|(_, failure)| failure.is_some())
        || followed.is_err()
    {
        // It may have ended already, which is no error.
        let _ = process.kill();
    }
    let status = process.wait()?;
    let (rows, mut failure) = followed?;
    if !status.success() {
        let words = errors.text()?;
        let what = format!("{} {}", ending(status), words.trim());
        failure = Some(failure.map_or(what.clone(), |f| format!("{f}: {what}")));
    }
    Ok((rows, failure))
}

fn follow(
    process: &mut Child,
    is_hakmem: bool,
    file: &mut Option<File>,
) -> io::Result<(Vec<Row>, Option<String>)> {
    let mut lines = Lines::new(process)?;
    let mut rows: Vec<Row> = Vec::new();
    loop {
        let line = match lines.next(Duration::from_secs(PATIENCE)) {
            Some(line) => line?,
            None => return Ok((rows, Some(format!("nothing was heard for {PATIENCE} s")))),
        };
        if line.is_empty() {
            return Ok((rows, None));
        }
        let told: Told = serde_json::from_str(&line)?;
        if is_hakmem && told.hakmem.as_ref().is_none_or(|f| f["allocations"] == 0) {
            return Ok((rows, Some("hakmem does not serve the process".to_owned())));
        }
        let row = Row::look(process.id(), rows.len() as u64 + 1, told)?;
        if let Some(file) = file {
            file.write_all(row.csv().as_bytes())?;
        }
        let before = rows
            .len()
            .checked_sub(PATIENCE as usize)
            .map(|i| &rows[i].told.steps);
        let stuck =
            before.and_then(|steps| steps.iter().zip(&row.told.steps).position(|(a, b)| a == b));
        if row.second % 60 == 0 {
            println!(
                "minute {}: {} MiB, {} maps",
                row.second / 60,
                row.rss_kib / 1024,
                row.maps
            );
        }
        rows.push(row);
        if let Some(role) = stuck {
            let name = roles::ALL[role].name;
            return Ok((
                rows,
                Some(format!("'{name}' got no further for {PATIENCE} s")),
            ));
        }
    }
}

/// Lines of a process, waited for no longer than told. A thread reads them.
struct Lines(std::sync::mpsc::Receiver<io::Result<String>>);

impl Lines {
    fn new(process: &mut Child) -> io::Result<Self> {
        let output = process
            .stdout
            .take()
            .ok_or_else(|| io::Error::other("no pipe"))?;
        let (to, from) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                if to.send(line).is_err() {
                    return;
                }
            }
            // An empty line is the end; nobody may be listening any more.
            let _ = to.send(Ok(String::new()));
        });
        Ok(Self(from))
    }

    fn next(&mut self, patience: Duration) -> Option<io::Result<String>> {
        self.0.recv_timeout(patience).ok()
    }
}

fn page(options: &Options, machine: &Machine, seed: u64, rows: &[Row], lines: &[String]) -> String {
    let time = jiff::Timestamp::from_second(unix_time() as i64).unwrap_or_default();
    let peak = rows.iter().map(|r| r.rss_kib).max().unwrap_or(0) / 1024;
    let last = rows.last();
    let steps = last.map(|r| r.told.steps.clone()).unwrap_or_default();
    let played: Vec<String> = roles::ALL
        .iter()
        .zip(steps)
        .map(|(role, n)| format!("{} {n}", role.name))
        .collect();
    let figures = last.and_then(|r| r.told.hakmem.as_ref()).map_or(
        "The system's allocator.".to_owned(),
        |f| {
            format!(
                "{} blocks handed out, {} MiB given back on the way, {} heaps, {} foreign frees.",
                f["allocations"],
                f["purged_bytes"] >> 20,
                f["heaps"],
                f["foreign_frees"]
            )
        },
    );
    format!(
        "# Soak\n\nOne process {subject}, in which at the same time: three threads replace and \
         resize blocks of all sizes, end and hand theirs on; one sends blocks to another; threads \
         live short and leave blocks behind; huge are replaced, and buffers grown by realloc; \
         bulks of small blocks are made and thinned out; children are forked, check what they \
         inherited, allocate and start a thread; the heap is trimmed. One request in four is by \
         calloc or aligned. All work for {work} s, then rest for {rest} s without a call. Every \
         block has contents that are checked whenever it is resized, freed or inherited; calloc \
         and alignments are checked. Written by `ci/soak MINUTES`; `--csv FILE` keeps every \
         second.\n\n![Resident memory and maps over time](soak.svg)\n\n{table}\n\n{}\n\nFlat \
         means: no later median is more than {tolerance:.0} % above the first. Peak {peak} MiB. \
         {figures} Steps: {}.\n\n{}, {} min, seed {seed}, {} cores of {}, {}.\n",
        lines
            .iter()
            .map(|l| format!("- {l}"))
            .collect::<Vec<_>>()
            .join("\n"),
        played.join(", "),
        time.strftime("%Y-%m-%d"),
        options.minutes,
        machine.cores,
        machine.cpu,
        machine.kernel,
        subject = if options.system {
            "on the system's allocator"
        } else {
            "with hakmem preloaded"
        },
        table = table(rows).trim_end(),
        work = child::WORK,
        rest = child::REST,
        tolerance = TOLERANCE * 100.0,
    )
}
