//! What is in the `hakmem` command, which runs programs on the hakmem allocator and looks at them.

mod again;
mod build;
mod checked;
mod child;
mod columns;
mod doctor;
mod errors;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod generate;
mod grammar;
mod inherited;
mod left;
mod library;
mod lines;
mod man;
mod map;
mod named;
mod needed;
mod options;
mod outcome;
mod output;
mod own;
mod prepared;
mod proc;
mod profile;
mod program;
mod refused;
mod report;
mod reports;
mod rows;
mod run;
mod scratch;
mod stat;
mod summary;
mod symbols;
mod terminal;
mod top;
mod users;
mod view;

use clap::{Parser, Subcommand};
use std::io::{self, Write};

const AFTER_HELP: &str = "\
Examples:
  hakmem run --stats python3 work.py
  hakmem top $(pidof redis-server)
  hakmem help profile

Words that hakmem uses: https://github.com/hakmem/hakmem/blob/main/docs/glossary.md";

/// Runs programs on the hakmem memory allocator.
#[derive(Parser)]
#[command(name = "hakmem", version, about, arg_required_else_help = true, after_help = AFTER_HELP)]
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
    /// Lists the allocator's options: name, default, values, meaning
    #[command(after_help = options::AFTER_HELP)]
    Options(options::Options),
    /// Draws the heap as an SVG: what each segment holds
    #[command(after_help = map::AFTER_HELP)]
    Map(map::Options),
    /// Shows what the allocator of a running process does, and refreshes it
    #[command(after_help = top::AFTER_HELP)]
    Top(top::Options),
    /// Finds which code allocated how much: flame graphs, a file for pprof, the live blocks at the
    /// end
    #[command(after_help = profile::AFTER_HELP)]
    Profile(profile::Options),
    /// Puts functions and lines into a file of reports of errors: HAKMEM_ERRORS
    #[command(after_help = errors::AFTER_HELP)]
    Errors(errors::Options),
    /// Says what this system, a program or a process means for hakmem, and what to do
    #[command(after_help = doctor::AFTER_HELP)]
    Doctor(doctor::Options),
    /// Writes completions for shells, and manual pages
    #[command(hide = true)]
    Generate(generate::Options),
}

/// Says what is wrong with the line, or prints the help that was asked for.
fn tell(mut told: clap::Error) -> ! {
    let printed = match told.use_stderr() {
        false => output::stdout().and_then(|_| told.print()),
        true => {
            refused::suggest(&mut told);
            match refused::narrowed(&told) {
                Some(text) => io::stderr().write_all(text.as_bytes()),
                None => told.print(),
            }
        }
    };
    match printed {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            checked::say(&format!("cannot write: {e}"));
            std::process::exit(told.exit_code().max(1))
        }
        _ => std::process::exit(told.exit_code()),
    }
}

/// The command.
pub fn main() -> ! {
    let cli = Cli::try_parse().unwrap_or_else(|told| tell(told));
    match cli.command {
        Command::Run(options) => run::run(&options),
        Command::Stat(options) => stat::stat(options),
        Command::Options(options) => options::options(&options),
        Command::Map(options) => map::map(options),
        Command::Top(options) => top::top(options),
        Command::Profile(options) => profile::profile(options),
        Command::Errors(options) => errors::errors(&options),
        Command::Doctor(options) => doctor::doctor(&options),
        Command::Generate(options) => generate::generate(&options),
    }
}
