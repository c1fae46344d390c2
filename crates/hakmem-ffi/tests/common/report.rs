//! The reports of preloaded programs: did hakmem serve them?

use serde::Deserialize;
use tempfile::TempDir;

/// One line of a report file.
#[derive(Debug, Deserialize)]
pub struct Line {
    pub schema: u32,
    pub event: String,
    pub pid: u32,
    #[serde(default)]
    pub allocations: u64,
    #[serde(default)]
    pub foreign_frees: u64,
}

/// A report file, shared by a program and all that it starts.
pub struct Reports {
    directory: TempDir,
}

impl Reports {
    pub fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    fn file(&self) -> std::path::PathBuf {
        self.directory.path().join("report.jsonl")
    }

    /// The value of `HAKMEM_STATS`.
    pub fn setting(&self) -> String {
        format!("json:{}", self.file().display())
    }

    pub fn lines(&self) -> Vec<Line> {
        let text = std::fs::read_to_string(self.file()).unwrap_or_default();
        text.lines()
            .map(|line| {
                serde_json::from_str(line)
                    .unwrap_or_else(|e| panic!("malformed report {line}: {e}"))
            })
            .collect()
    }

    fn of(&self, event: &str) -> Vec<Line> {
        self.lines()
            .into_iter()
            .filter(|line| line.schema == 2 && line.event == event)
            .collect()
    }

    /// The programs ran on hakmem: it was loaded, it reported at exit, and it served them.
    pub fn assert_served(&self) {
        assert!(!self.of("load").is_empty(), "hakmem was not loaded");
        let exits = self.of("exit");
        assert!(
            !exits.is_empty(),
            "hakmem was loaded, but no program ran its exit handlers"
        );
        let served: u64 = exits.iter().map(|line| line.allocations).sum();
        assert!(
            served > 0,
            "hakmem was loaded, but served no allocation: {exits:?}"
        );
    }

    /// The allocations that hakmem served in all programs that reported at exit, if any did.
    pub fn served(&self) -> Option<u64> {
        let exits = self.of("exit");
        (!exits.is_empty()).then(|| exits.iter().map(|line| line.allocations).sum())
    }

    /// For programs that are meant to be ended by a signal.
    pub fn assert_loaded(&self) {
        assert!(!self.of("load").is_empty(), "hakmem was not loaded");
    }

    /// Frees of pointers that were not hakmem's, in all programs together.
    pub fn foreign_frees(&self) -> u64 {
        self.of("exit").iter().map(|line| line.foreign_frees).sum()
    }
}
