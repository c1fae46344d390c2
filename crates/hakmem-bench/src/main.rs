//! The program `hakmem-bench`.

use clap::Subcommand;
use hakmem_bench::command;
use hakmem_bench::probes;
use hakmem_bench::report::markdown;
use hakmem_bench::{ab, compare, html, run_one, workloads};
use std::process::ExitCode;

const NAME: &str = "hakmem-bench";
const ABOUT: &str = "Compares hakmem with other allocators";

#[derive(Debug, Subcommand)]
enum Task {
    /// Compare the built-in allocators on the built-in workloads
    Compare(compare::Options),
    /// Compare hakmem with itself: two settings of its options, or two builds, by pairs of runs
    Ab(ab::Options),
    /// Write a page of HTML with charts of one or several records
    Report(html::Options),
    /// List the workloads
    List,
    /// Run one workload and print one line of JSON
    #[command(hide = true)]
    RunOne(run_one::Options),
    /// List the probes
    Probes,
}

fn main() -> ExitCode {
    let outcome = match command::task(NAME, ABOUT) {
        Task::Compare(options) => compare::run(&options),
        Task::Ab(options) => ab::run(&options),
        Task::Report(options) => html::run(&options),
        Task::List => {
            print!("{}", list());
            Ok(true)
        }
        Task::RunOne(options) => run_one::become_it(&options),
        Task::Probes => {
            print!("{}", list_probes());
            Ok(true)
        }
    };
    command::exit_code(NAME, outcome)
}

fn list() -> String {
    let row = |w: &workloads::Workload| {
        vec![
            w.name.to_owned(),
            w.what.to_owned(),
            w.source.to_owned(),
            w.threads.to_string(),
            w.ops.to_string(),
        ]
    };
    let rows: Vec<_> = workloads::table::<std::alloc::System>()
        .iter()
        .map(row)
        .collect();
    markdown(
        &[
            "workload",
            "one operation",
            "after",
            "threads",
            "operations",
        ],
        &rows,
    )
}

fn list_probes() -> String {
    let mut rows = Vec::new();
    let mut row = |name: &str, what: &str, unit: &str| {
        rows.push([name, what, unit].map(str::to_owned).to_vec());
    };
    for probe in probes::ALL {
        row(probe.name, probe.what, probe.unit);
        for part in probe.parts() {
            row(part.name, part.what, part.unit);
        }
    }
    markdown(&["probe", "what is done", "unit"], &rows)
}
