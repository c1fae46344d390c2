//! `hakmem`: runs programs on the hakmem allocator.

mod child;
mod inherited;
mod library;
mod options;
mod program;
mod report;
mod run;
mod stat;
mod summary;

use clap::{Parser, Subcommand};

/// Runs programs on the hakmem memory allocator.
#[derive(Parser)]
#[command(version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a program with libhakmem.so preloaded
    #[command(after_help = run::AFTER_HELP)]
    Run(run::Options),
    /// Prints tables of what the allocator did: size classes, thread heaps, memory, system calls
    #[command(after_help = stat::AFTER_HELP)]
    Stat(stat::Options),
    /// Lists the allocator's options: name, default, what values, meaning
    #[command(after_help = options::AFTER_HELP)]
    Options(options::Options),
}

fn main() -> ! {
    match Cli::parse().command {
        Command::Run(options) => run::run(&options),
        Command::Stat(options) => stat::stat(options),
        Command::Options(options) => options::options(&options),
    }
}
