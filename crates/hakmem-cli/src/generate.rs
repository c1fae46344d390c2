//! `hakmem generate`: completions for shells and pages for `man`, made of what the command takes.
//! For packages: help does not list it.

use crate::checked::say;
use crate::output;
use clap::{Args, CommandFactory, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;
use std::process;

#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Prints completions for a shell
    Completions { shell: Shell },
    /// Writes a page for each command
    Man { folder: PathBuf },
}

pub fn generate(options: &Options) -> ! {
    let command = crate::Cli::command();
    let done = match &options.what {
        What::Completions { shell } => completions(command, *shell),
        What::Man { folder } => crate::man::write(command, folder)
            .map_err(|e| format!("cannot write to {}: {e}", folder.display())),
    };
    match done {
        Ok(()) => process::exit(0),
        Err(why) => {
            say(&why);
            process::exit(1)
        }
    }
}

fn completions(mut command: clap::Command, shell: Shell) -> Result<(), String> {
    // Made in memory: what makes them takes a failed write for a mistake of its own.
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "hakmem", &mut text);
    output::show(&text)
}
