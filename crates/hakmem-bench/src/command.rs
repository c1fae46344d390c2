//! What the programs `hakmem-bench` and `hakmem-trials` have in common on the command line.

use crate::host;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::io;
use std::process::ExitCode;

/// The arguments of a program with these commands. Its version is the workspace's.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments<Task: Subcommand> {
    /// Touch so many MiB before each measured run, so that the host of a virtual machine has them
    /// ready; or as many as the same run took before, if that is more, so that a first round may be
    /// slow [default: none]
    #[arg(
        long,
        global = true,
        default_value_t = 0,
        hide_default_value = true,
        value_name = "MIB"
    )]
    warm_host: usize,
    #[command(subcommand)]
    task: Task,
}

/// The command that the arguments of the process name. Ends the process if they name none. `about`
/// says in the help what the program does.
pub fn task<Task: Subcommand>(program: &'static str, about: &'static str) -> Task {
    let command = Arguments::<Task>::command().name(program).about(about);
    let matches = command.get_matches();
    let arguments =
        Arguments::<Task>::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    host::touch_before_each_run(arguments.warm_host);
    arguments.task
}

/// The exit status of `program`. It writes an error to standard error. False: a comparison or a
/// trial found something.
pub fn exit_code(program: &str, outcome: io::Result<bool>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{program}: {error}");
            // As for wrong arguments. 1 is for what was found.
            ExitCode::from(2)
        }
    }
}
