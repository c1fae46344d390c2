//! The results of all runs, in a file that is written anew after each.

use super::proof::Served;
use hakmem_bench::machine::Machine;
use serde::{Deserialize, Serialize};
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
    /// SHA-256 of the script with all it reads, and of the library: a result is of use as long as both are the same.
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
    /// All runs.
    pub runs: Vec<Run>,
}

const SCHEMA: u32 = 1;

impl Results {
    /// What the file holds; nothing if there is none. One that cannot be understood is an error: it must not be lost.
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
        let results: Self = serde_json::from_slice(&text).map_err(|e| bad(e.to_string()))?;
        if results.schema_version != SCHEMA {
            return Err(bad(format!("it has version {}", results.schema_version)));
        }
        Ok(results)
    }

    /// Writes the file whole or not at all.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        replace(path, &(serde_json::to_string_pretty(self)? + "\n"))
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
        let path = folder.path().join("results.json");
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
            error.contains("results.json") && error.contains("move it away"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&path).expect("there"), "{");
    }
}
