//! What the programs `hakmem-bench` and `hakmem-trials` have in common on the command line.

use clap::Args;
use std::io;
use std::process::ExitCode;

/// Options that both programs have.
#[derive(Debug, Args)]
pub struct Common {
    /// Touch so many MiB before each measured run, so that the host of a virtual machine has them
    /// ready [default: none]
    #[arg(
        long,
        global = true,
        default_value_t = 0,
        hide_default_value = true,
        value_name = "MIB"
    )]
    pub warm_host: usize,
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
