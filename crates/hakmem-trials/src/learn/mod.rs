//! Whether mode `learn` earns its place: phases whose best settings differ, one after the other in
//! one process, with fixed settings and with learnt ones.

pub mod phases;

use clap::Args;
use hakmem_bench::child::Capture;
use hakmem_bench::report::markdown;
use hakmem_bench::stats::median;
use phases::Figure;
use serde::Serialize;
use std::io;
use std::path::PathBuf;
use std::process::Command;

/// What to run.
#[derive(Debug, Args)]
pub struct Options {
    /// How often to run all of it; medians are shown
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// These settings only, by name
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// These phases only
    #[arg(long, value_delimiter = ',')]
    phases: Vec<String>,
    /// Write all figures to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Settings under which the phases run.
#[derive(Debug)]
struct Setting {
    name: &'static str,
    environment: &'static [(&'static str, &'static str)],
}

const DEFAULT: &str = "default";
const LEARN: &str = "learn";

const SETTINGS: [Setting; 5] = [
    Setting {
        name: DEFAULT,
        environment: &[],
    },
    Setting {
        name: "short",
        environment: &[("HAKMEM_DECAY_MS", "125"), ("HAKMEM_HUGE_CACHE_MIB", "8")],
    },
    Setting {
        name: "middle",
        environment: &[
            ("HAKMEM_DECAY_MS", "1000"),
            ("HAKMEM_HUGE_CACHE_MIB", "128"),
        ],
    },
    Setting {
        name: "long",
        environment: &[
            ("HAKMEM_DECAY_MS", "4000"),
            ("HAKMEM_HUGE_CACHE_MIB", "512"),
        ],
    },
    Setting {
        name: LEARN,
        environment: &[("HAKMEM_MODE", "learn")],
    },
];

/// The figures of a phase under a setting.
#[derive(Debug, Serialize)]
struct Row {
    setting: &'static str,
    round: u32,
    #[serde(flatten)]
    figure: Figure,
}

/// Runs the phases under each setting, round by round, and prints the table.
pub fn run(options: &Options) -> io::Result<bool> {
    let wanted = |s: &&Setting| options.only.is_empty() || options.only.iter().any(|o| o == s.name);
    let settings: Vec<_> = SETTINGS.iter().filter(wanted).collect();
    if settings.is_empty() {
        let names: Vec<_> = SETTINGS.iter().map(|s| s.name).collect();
        return Err(io::Error::other(format!("--only takes {names:?}")));
    }
    let mut rows = Vec::new();
    for round in 0..options.rounds {
        for setting in &settings {
            for figure in child(setting, &options.phases)? {
                rows.push(Row {
                    setting: setting.name,
                    round,
                    figure,
                });
            }
        }
    }
    print!("{}", table(&settings, &rows));
    if let Some(path) = &options.json {
        std::fs::write(path, serde_json::to_string_pretty(&rows)? + "\n")?;
    }
    Ok(true)
}

fn child(setting: &Setting, phases: &[String]) -> io::Result<Vec<Figure>> {
    let output = Capture::new()?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("learn-child")
        .args(phases)
        .env_remove("LD_PRELOAD");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HAKMEM_") {
            command.env_remove(name);
        }
    }
    command.envs(setting.environment.iter().copied());
    let status = command.stdout(output.stdio()?).status()?;
    if !status.success() {
        return Err(io::Error::other(format!("{}: {status}", setting.name)));
    }
    Ok(serde_json::from_str(&output.text()?)?)
}

fn table(settings: &[&Setting], rows: &[Row]) -> String {
    let mut phases: Vec<&str> = Vec::new();
    for row in rows {
        if !phases.contains(&row.figure.phase.as_str()) {
            phases.push(&row.figure.phase);
        }
    }
    let of = |phase: &str, setting: &str, figure: fn(&Figure) -> f64| {
        let all = rows
            .iter()
            .filter(|r| r.setting == setting && r.figure.phase == phase);
        median(&all.map(|r| figure(&r.figure)).collect::<Vec<_>>())
    };
    let mut lines = Vec::new();
    for phase in phases {
        for (name, figure, unit) in [
            (
                "time of a step",
                (|f| f.step_ns / 1e6) as fn(&Figure) -> f64,
                "ms",
            ),
            ("mean resident", |f| f.mean_resident_kib / 1024.0, "MiB"),
        ] {
            let fixed = settings.iter().filter(|s| s.name != LEARN);
            let best = fixed
                .filter_map(|s| of(phase, s.name, figure))
                .min_by(f64::total_cmp);
            let mut line = vec![phase.to_owned(), format!("{name}, {unit}")];
            line.extend(settings.iter().map(|s| {
                of(phase, s.name, figure).map_or("–".to_owned(), |value| format!("{value:.2}"))
            }));
            let ratio = |other: Option<f64>| match (of(phase, LEARN, figure), other) {
                (Some(learnt), Some(other)) => format!("{:.2}", learnt / other),
                _ => "–".to_owned(),
            };
            line.push(ratio(best));
            line.push(ratio(of(phase, DEFAULT, figure)));
            lines.push(line);
        }
    }
    let mut header = vec!["phase", "figure"];
    header.extend(settings.iter().map(|s| s.name));
    header.extend(["learn × best fixed", "learn × default"]);
    markdown(&header, &lines)
}
