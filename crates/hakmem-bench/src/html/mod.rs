//! `hakmem-bench report`: records as one page of HTML that needs nothing beside itself.

mod curves;
mod dots;
mod number;
mod origin;
mod page;
mod palette;
mod probes;
mod ratios;
mod rows;
mod series;
mod strips;
mod targets;

pub use page::render;
pub use targets::Causes;

use crate::record::{Record, SCHEMA_VERSION};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where records are kept.
const RECORDS: &str = "benchmarks/record";

/// What to show.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// A record to show; may be given several times [default: the newest of each kind in
    /// benchmarks/record]
    #[arg(long = "input", value_name = "FILE.json", num_args = 1..)]
    pub inputs: Vec<PathBuf>,
    /// Where to write the page
    #[arg(
        long,
        value_name = "FILE.html",
        default_value = "docs/results/index.html"
    )]
    pub out: PathBuf,
    /// What was found to be the cause where a target was missed: an object of the targets' names
    #[arg(
        long,
        value_name = "FILE.json",
        default_value = "benchmarks/causes.json"
    )]
    pub causes: PathBuf,
}

/// Reads the records and writes the page. `Ok(false)` if a record among those found could not be
/// read.
pub fn run(options: &Options) -> io::Result<bool> {
    let mut good = true;
    let records = if options.inputs.is_empty() {
        let (records, errors) = newest(Path::new(RECORDS))?;
        for error in &errors {
            eprintln!("left out: {error}");
            good = false;
        }
        records
    } else {
        let shown = |path: &PathBuf| match read(path)? {
            record if record.ab.is_none() => Ok(record),
            _ => Err(at(
                path,
                "the page shows no comparisons of hakmem with itself",
            )),
        };
        options
            .inputs
            .iter()
            .map(shown)
            .collect::<io::Result<Vec<_>>>()?
    };
    let causes = read_causes(&options.causes)?;
    if let Some(folder) = options.out.parent() {
        fs::create_dir_all(folder).map_err(|e| at(folder, e))?;
    }
    fs::write(&options.out, render(&records, &causes)).map_err(|e| at(&options.out, e))?;
    println!("{} of {} records", options.out.display(), records.len());
    Ok(good)
}

fn at(path: &Path, error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {error}", path.display()))
}

/// Reads the causes; there are none where there is no such file.
fn read_causes(path: &Path) -> io::Result<Causes> {
    match fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).map_err(|e| at(path, e)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Causes::new()),
        Err(e) => Err(at(path, e)),
    }
}

/// Reads one record.
fn read(path: &Path) -> io::Result<Record> {
    let text = fs::read_to_string(path).map_err(|e| at(path, e))?;
    let no_record = |e: serde_json::Error| at(path, format!("not a record: {e}"));
    // The version alone first: the rest of a newer record need not be readable.
    let Version { schema_version } = serde_json::from_str(&text).map_err(no_record)?;
    if schema_version > SCHEMA_VERSION {
        let what =
            format!("a record of version {schema_version}; this program knows {SCHEMA_VERSION}");
        return Err(at(path, what));
    }
    serde_json::from_str(&text).map_err(no_record)
}

/// The part of a record that says how to read it.
#[derive(serde::Deserialize)]
struct Version {
    schema_version: u32,
}

/// The newest record of each kind that the page shows, and why others could not be read. An error
/// if there is none.
fn newest(folder: &Path) -> io::Result<(Vec<Record>, Vec<io::Error>)> {
    let mut records: Vec<Record> = Vec::new();
    let mut errors = Vec::new();
    let entries = fs::read_dir(folder)
        .map_err(|e| at(folder, format!("{e}; --input names records elsewhere")))?;
    let mut paths = entries
        .map(|e| Ok(e?.path()))
        .collect::<io::Result<Vec<_>>>()?;
    paths.retain(|p| p.extension().is_some_and(|e| e == "json"));
    // By name, so that of two that began in the same second always the same is taken.
    paths.sort();
    for path in paths {
        match read(&path) {
            Err(error) => errors.push(error),
            Ok(record) if record.ab.is_some() => {}
            Ok(record) => match records.iter_mut().find(|r| r.kind == record.kind) {
                Some(older) if older.unix_time <= record.unix_time => *older = record,
                Some(_) => {}
                None => records.push(record),
            },
        }
    }
    if records.is_empty() {
        let why = errors
            .first()
            .map_or_else(|| "no records".to_owned(), ToString::to_string);
        return Err(at(folder, why));
    }
    // The comparison of workloads first, then as the alphabet has it.
    records.sort_by_key(|r| (r.kind != "compare", r.kind.clone()));
    Ok((records, errors))
}
