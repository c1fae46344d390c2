//! Progress on standard error: a bar on a terminal, a line per stage elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};

/// The display; it vanishes when dropped.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Of `steps` steps.
    pub fn new(steps: u64) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(
                "{wide_bar} {pos}/{len} {elapsed} of ~{duration} {msg:40}",
            );
            let bar = ProgressBar::new(steps);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { bar }
    }

    /// A new stage begins.
    pub fn stage(&self, what: &str) {
        if self.bar.is_none() {
            eprintln!("{what}");
        }
    }

    /// The next step begins.
    pub fn step(&self, what: String) {
        if let Some(bar) = &self.bar {
            bar.set_message(what);
            bar.tick();
        }
    }

    /// A step has ended.
    pub fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// Prints a line that stays.
    pub fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{line}")),
            None => eprintln!("{line}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
