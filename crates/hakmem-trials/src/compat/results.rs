//! The results of all runs, in a file that is written anew after each.

use super::proof::Served;
use hakmem_bench::machine::Machine;
use serde::de::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// One run of one program on one side.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// The program.
    pub program: String,
    /// The side.
    pub side: String,
    /// Which of the runs, from 0.
    pub round: u32,
    /// SHA-256 of the script with all it reads, and of the library: a result is of use as long as
    /// both are the same.
    pub script: String,
    /// Empty without a library.
    pub library: String,
    /// How the script ended, or [`DEADLINE`].
    pub ending: String,
    /// How each program in it ended, sorted.
    pub endings: Vec<String>,
    /// SHA-256 of what the script wrote.
    pub output: String,
    /// From its start to its end.
    pub seconds: f64,
    /// Processor time of the programs.
    pub cpu_seconds: f64,
    /// Peak resident KiB of the largest process.
    pub peak_rss_kib: u64,
    /// Most maps of one process; 0 if none was caught alive.
    pub maps: usize,
    /// Whether a process was seen with the library mapped; `None` if none was caught alive.
    pub mapped: Option<bool>,
    /// hakmem's own account.
    pub served: Option<Served>,
    /// Programs that hakmem's account lacks.
    pub unserved: Vec<String>,
    /// What it said last on standard error, and the first line that differs from the system's.
    pub note: String,
}

/// The ending of a run that took too long.
pub const DEADLINE: &str = "deadline";

/// Everything on record.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// Changes when fields do.
    pub schema_version: u32,
    /// When the newest run ended, in seconds since 1970.
    pub unix_time: u64,
    /// Where.
    pub machine: Option<Machine>,
    /// By side: what it is.
    pub libraries: BTreeMap<String, String>,
    /// By program: versions of its packages.
    pub versions: BTreeMap<String, BTreeMap<String, String>>,
    /// By program: why it could not be run.
    pub missing: BTreeMap<String, String>,
    /// All runs; lines of their own in the file.
    #[serde(skip)]
    pub runs: Vec<Run>,
}

const SCHEMA: u32 = 2;
/// Stands for the value in the line above.
const SAME: &str = "=";

impl Results {
    /// What the file holds; nothing if there is none. One that cannot be understood is an error: it
    /// must not be lost.
    pub fn read(path: &Path) -> io::Result<Self> {
        let bad = |what: String| {
            io::Error::other(format!(
                "{}: {what}; move it away to start anew",
                path.display()
            ))
        };
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok(Self {
                    schema_version: SCHEMA,
                    ..Self::default()
                });
            }
            Err(e) => return Err(bad(e.to_string())),
        };
        let results = String::from_utf8(text)
            .map_err(|e| bad(e.to_string()))
            .and_then(|text| Self::parse(&text).map_err(|e| bad(e.to_string())))?;
        if results.schema_version != SCHEMA {
            return Err(bad(format!("it has version {}", results.schema_version)));
        }
        Ok(results)
    }

    /// Writes the file whole or not at all.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        replace(path, &self.text()?)
    }

    /// A line of JSON about all runs, the names of the columns, and a line per run with tabs
    /// between its values. Most values are those of the run before, for which [`SAME`] stands.
    fn text(&self) -> io::Result<String> {
        let mut lines = vec![serde_json::to_string(self)?];
        let mut above = Vec::new();
        let mut runs: Vec<&Run> = self.runs.iter().collect();
        runs.sort_by_key(|r| (&r.program, &r.side, r.round));
        for run in runs {
            let fields: BTreeMap<String, Value> =
                serde_json::from_value(serde_json::to_value(run)?)?;
            if lines.len() == 1 {
                let names: Vec<&str> = fields.keys().map(String::as_str).collect();
                lines.push(names.join("\t"));
            }
            let cells: Vec<String> = fields.values().map(Value::to_string).collect();
            let is_same = |(i, cell): (usize, &String)| above.get(i) == Some(cell);
            let shown = cells.iter().enumerate().map(|c| match is_same(c) {
                true => SAME,
                false => c.1.as_str(),
            });
            lines.push(shown.collect::<Vec<_>>().join("\t"));
            above = cells;
        }
        Ok(lines.join("\n") + "\n")
    }

    fn parse(text: &str) -> serde_json::Result<Self> {
        let mut lines = text.lines();
        let mut results: Self = serde_json::from_str(lines.next().unwrap_or_default())?;
        let names: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
        let mut fields = Map::new();
        for line in lines {
            let cells: Vec<&str> = line.split('\t').collect();
            if cells.len() != names.len() {
                return Err(serde_json::Error::custom("a line is not whole"));
            }
            for (name, cell) in names.iter().zip(cells) {
                if cell != SAME {
                    fields.insert((*name).to_owned(), serde_json::from_str(cell)?);
                }
            }
            results
                .runs
                .push(serde_json::from_value(Value::Object(fields.clone()))?);
        }
        Ok(results)
    }

    /// The runs of a program on a side.
    pub fn of<'a>(&'a self, program: &'a str, side: &'a str) -> impl Iterator<Item = &'a Run> {
        self.runs
            .iter()
            .filter(move |r| r.program == program && r.side == side)
    }

    /// Whether this run need not be made again.
    pub fn has(&self, program: &str, side: &str, round: u32, script: &str, library: &str) -> bool {
        self.of(program, side)
            .any(|r| r.round == round && r.script == script && r.library == library)
    }
}

/// Replaces a file: a reader sees the old one or the new one.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let named = |e: io::Error| io::Error::other(format!("cannot write {}: {e}", path.display()));
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let write = || {
        fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        // Temporary files are for their owner alone.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(mode)?;
        file.persist(path).map_err(|e| e.error)?;
        Ok(())
    };
    write().map_err(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results.tsv");
        assert!(Results::read(&path).expect("none yet").runs.is_empty());
        Results {
            schema_version: SCHEMA,
            ..Results::default()
        }
        .write(&path)
        .expect("writable");
        assert!(Results::read(&path).is_ok());
        fs::write(&path, "{").expect("writable");
        let error = Results::read(&path).expect_err("it is damaged").to_string();
        assert!(
            error.contains("results.tsv") && error.contains("move it away"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&path).expect("there"), "{");
    }

    #[test]
    fn every_run_is_read_as_it_was_written() {
        let run = |round, note: &str| Run {
            program: "sort".to_owned(),
            side: "system".to_owned(),
            round,
            script: "1".to_owned(),
            library: String::new(),
            ending: "exit 0".to_owned(),
            endings: vec!["sort: exit 0".to_owned()],
            output: "2".to_owned(),
            seconds: 0.5,
            cpu_seconds: 0.25,
            peak_rss_kib: 3,
            maps: 4,
            mapped: None,
            served: None,
            unserved: Vec::new(),
            note: note.to_owned(),
        };
        let written = Results {
            schema_version: SCHEMA,
            runs: vec![run(0, ""), run(1, "a\tb\n="), run(2, "=")],
            ..Results::default()
        };
        let text = written.text().expect("it can be written");
        assert_eq!(text.lines().count(), 5);
        assert_eq!(text.matches("sort: exit 0").count(), 1, "written once");
        let read = Results::parse(&text).expect("it can be read");
        assert_eq!(read.text().expect("it can be written"), text);
        assert_eq!(read.runs[1].note, "a\tb\n=");
        assert_eq!((read.runs[2].round, read.runs[2].note.as_str()), (2, "="));
        assert_eq!(read.runs[2].endings, written.runs[0].endings);
        for end in [text.len() - 10, text.len() - 60, 20] {
            assert!(Results::parse(&text[..end]).is_err(), "cut at {end}");
        }
    }
}
