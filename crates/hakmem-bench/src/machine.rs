//! The machine and the build, without which figures mean little.

use crate::allocators;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::thread;

/// Where the figures were taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Processors this process may use.
    pub cores: usize,
    /// System and kernel release.
    pub kernel: String,
    /// Physical memory in KiB.
    pub memory_kib: u64,
    /// The setting of transparent huge pages.
    pub huge_pages: String,
    /// Load averages when the comparison began: what else the machine had to do.
    pub load: String,
}

/// What was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Build {
    /// The compiler.
    pub rustc: String,
    /// The target triple.
    pub target: String,
    /// The cargo profile and its optimisation level.
    pub profile: String,
    /// The version of this program.
    pub hakmem_bench: String,
    /// The versions of the allocators that are built in.
    pub allocators: BTreeMap<String, String>,
}

impl Machine {
    /// This machine, now.
    pub fn here() -> Self {
        let cpuinfo = read("/proc/cpuinfo");
        let cpu = field(&cpuinfo, "model name")
            .or_else(|| field(&cpuinfo, "Processor"))
            .unwrap_or("unknown");
        let memory = read("/proc/meminfo");
        let memory = field(&memory, "MemTotal")
            .and_then(|v| v.strip_suffix(" kB"))
            .and_then(|v| v.parse().ok());
        let release = read("/proc/sys/kernel/osrelease");
        Self {
            cpu: cpu.to_owned(),
            cores: thread::available_parallelism().map_or(1, usize::from),
            kernel: format!("{} {release}", std::env::consts::OS),
            memory_kib: memory.unwrap_or(0),
            huge_pages: read("/sys/kernel/mm/transparent_hugepage/enabled"),
            load: read("/proc/loadavg"),
        }
    }
}

impl Build {
    /// This build.
    pub fn this() -> Self {
        Self {
            rustc: env!("RUSTC_VERSION").to_owned(),
            target: env!("BUILD_TARGET").to_owned(),
            profile: format!(
                "{}, opt-level {}",
                env!("BUILD_PROFILE"),
                env!("BUILD_OPT_LEVEL")
            ),
            hakmem_bench: env!("CARGO_PKG_VERSION").to_owned(),
            allocators: allocators::ALL
                .iter()
                .map(|c| (c.name.to_owned(), (c.version)()))
                .collect(),
        }
    }

    /// Whether figures of this build mean anything.
    pub fn is_optimised() -> bool {
        matches!(env!("BUILD_OPT_LEVEL"), "2" | "3")
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path)
        .map(|s| s.trim().to_owned())
        .unwrap_or_default()
}

/// The value of a `name : value` line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|l| l.split_once(':'))
        .find(|(n, _)| n.trim() == name)
        .map(|(_, v)| v.trim())
}
