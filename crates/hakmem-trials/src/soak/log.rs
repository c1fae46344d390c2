//! What is seen of the process each second, and the file of it.

use super::child::Told;
use super::roles;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Those of hakmem's figures that the file has.
const FIGURES: [&str; 8] = [
    "allocations",
    "frees",
    "live_bytes",
    "committed_bytes",
    "dirty_bytes",
    "purged_bytes",
    "foreign_frees",
    "heaps",
];

/// One second.
#[derive(Debug, Clone)]
pub struct Row {
    /// Since the start.
    pub second: u64,
    /// Resident KiB.
    pub rss_kib: u64,
    /// Maps.
    pub maps: u64,
    /// What the process said.
    pub told: Told,
}

impl Row {
    /// Looks at a process that has just said this.
    pub fn look(process: u32, second: u64, told: Told) -> io::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        let resident = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|v| v.trim().strip_suffix(" kB")?.parse().ok());
        let maps = fs::read(format!("/proc/{process}/maps"))?;
        Ok(Self {
            second,
            rss_kib: resident
                .ok_or_else(|| io::Error::other("the process has no memory any more"))?,
            maps: maps.iter().filter(|b| **b == b'\n').count() as u64,
            told,
        })
    }

    /// As a line of a table of comma-separated values.
    pub fn csv(&self) -> String {
        let mut fields = vec![
            self.second,
            self.rss_kib,
            self.maps,
            u64::from(self.told.resting),
        ];
        fields.extend(&self.told.steps);
        let mut text: Vec<String> = fields.iter().map(u64::to_string).collect();
        let figures = self.told.hakmem.as_ref();
        text.extend(FIGURES.map(|name| figures.map_or(String::new(), |f| f[name].to_string())));
        text.join(",") + "\n"
    }
}

/// Creates a file for rows that begins with the names of the fields.
pub fn create(path: &Path) -> io::Result<File> {
    let named = |e: io::Error| io::Error::other(format!("cannot write {}: {e}", path.display()));
    let mut file = File::create(path).map_err(named)?;
    file.write_all(header().as_bytes())?;
    Ok(file)
}

fn header() -> String {
    let steps: Vec<String> = roles::ALL
        .iter()
        .map(|r| format!("{}_steps", r.name))
        .collect();
    format!(
        "second,rss_kib,maps,resting,{},{}\n",
        steps.join(","),
        FIGURES.join(",")
    )
}
