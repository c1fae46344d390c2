//! Debian packages: whether they are there, and getting them.

use super::table::Program;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

/// Installs what is missing, if it may.
#[derive(Debug)]
pub struct Installer {
    may: bool,
    updated: Cell<bool>,
}

impl Installer {
    /// One that installs, or one that only looks.
    pub fn new(may: bool) -> Self {
        Self {
            may,
            updated: Cell::new(false),
        }
    }

    /// The versions of a program's packages; or why it cannot be run.
    pub fn provide(&self, program: &Program) -> Result<BTreeMap<String, String>, String> {
        self.install_missing(program.packages)?;
        let found = |p: &&str| {
            version(p)
                .map(|v| ((*p).to_owned(), v))
                .ok_or(format!("{p} is not there"))
        };
        program.packages.iter().map(found).collect()
    }

    /// Sees to it that the packages are there, or says why they are not.
    pub fn install_missing(&self, packages: &[&str]) -> Result<(), String> {
        let missing: Vec<&str> = packages
            .iter()
            .copied()
            .filter(|p| version(p).is_none())
            .collect();
        if !missing.is_empty() {
            if !self.may {
                return Err(format!("{} not installed", missing.join(", ")));
            }
            self.install(&missing)?;
        }
        Ok(())
    }

    fn install(&self, packages: &[&str]) -> Result<(), String> {
        if !self.updated.replace(true) {
            // Old lists may do as well; what is lacking shows below.
            let _ = apt(&["update", "-qq"]);
        }
        eprintln!("installing {}", packages.join(" "));
        let options = [
            "install",
            "-y",
            "-qq",
            "--no-install-recommends",
            "-o",
            "DPkg::Lock::Timeout=300",
        ];
        apt(&[&options[..], packages].concat())
    }
}

/// Runs apt-get as root. No service is to be started by its package.
fn apt(arguments: &[&str]) -> Result<(), String> {
    let settings = ["DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1"];
    // SAFETY: takes and returns numbers.
    let mut command = if unsafe { libc::geteuid() } == 0 {
        Command::new("env")
    } else {
        let mut command = Command::new("sudo");
        command.args(["-n", "env"]);
        command
    };
    let command = command.args(settings).arg("apt-get").args(arguments);
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("apt-get: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().rfind(|l| l.starts_with("E:"));
    Err(last
        .or(errors.lines().next_back())
        .unwrap_or("apt-get failed")
        .to_owned())
}

/// The version of an installed package.
fn version(package: &str) -> Option<String> {
    let output = Command::new("dpkg-query")
        .args(["-W", "-f=${db:Status-Status} ${Version}\n", package])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .find_map(|l| l.strip_prefix("installed "))
        .map(str::to_owned)
}

/// The package that a file belongs to, with its version.
pub fn owner(file: &std::path::Path) -> Option<String> {
    // The package database knows files by the name that they were installed under, before folders
    // were merged.
    let name = file.file_name()?.to_str()?;
    let output = Command::new("dpkg-query")
        .args(["-S", &format!("*/{name}")])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let package = text.lines().next()?.split(':').next()?.to_owned();
    Some(format!("{package} {}", version(&package)?))
}
