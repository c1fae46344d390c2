//! The program `hakmem-bench`.

use clap::{Parser, Subcommand};
use hakmem_bench::probes;
use hakmem_bench::report::markdown;
use hakmem_bench::{ab, compare, compat, html, learn, preload, programs, run_one, soak, workloads};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compares hakmem with other allocators
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Compare the built-in allocators on the built-in workloads
    Compare(compare::Options),
    /// Compare hakmem with itself: two settings of its options, or two builds, by pairs of runs
    Ab(ab::Options),
    /// Compare shared libraries, preloaded under a program
    Preload(preload::Options),
    /// Compare shared libraries, preloaded under a table of real programs
    Programs(programs::Options),
    /// Run a matrix of real programs and allocators, and write a page of how they behaved
    Compat(compat::Options),
    /// Run one program of that matrix with its library, and report on it
    #[command(hide = true)]
    CompatRun(compat::runner::Options),
    /// Mix all kinds of load for long, and watch memory and maps
    Soak(soak::Options),
    /// The process that is soaked
    #[command(hide = true)]
    SoakChild(soak::child::Options),
    /// Run phases whose best settings differ, with fixed settings and with learnt ones
    Learn(learn::Options),
    /// The process that goes through the phases
    #[command(hide = true)]
    LearnChild(learn::phases::Options),
    /// Write a page of HTML with charts of one or several records
    Report(html::Options),
    /// List the workloads
    List,
    /// Run one workload and print one line of JSON
    #[command(hide = true)]
    RunOne(run_one::Options),
    /// List the probes
    Probes,
    /// Succeed if the library is mapped in this process
    #[command(hide = true)]
    CheckPreload { library: PathBuf },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Task::Compare(options) => compare::run(&options),
        Task::Ab(options) => ab::run(&options),
        Task::Preload(options) => preload::run(&options),
        Task::Programs(options) => programs::run(&options),
        Task::Compat(options) => compat::run(&options),
        Task::CompatRun(options) => match compat::runner::run(&options) {
            // The program's own exit status, for the script to see.
            Ok(code) => return ExitCode::from(code),
            Err(error) => Err(error),
        },
        Task::Soak(options) => soak::run(&options),
        Task::SoakChild(options) => soak::child::run(&options).map(|()| true),
        Task::Learn(options) => learn::run(&options),
        Task::LearnChild(options) => learn::phases::run(&options).map(|()| true),
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
        Task::CheckPreload { library } => preload::check_preload(&library)
            .map_err(io::Error::other)
            .map(|()| true),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("hakmem-bench: {error}");
            // As for wrong arguments; 1 is for comparisons that found something.
            ExitCode::from(2)
        }
    }
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
    let row = |p: &probes::Probe| vec![p.name.to_owned(), p.what.to_owned(), p.unit.to_owned()];
    let rows: Vec<_> = probes::ALL.iter().map(row).collect();
    markdown(&["probe", "what is done", "unit"], &rows)
}
