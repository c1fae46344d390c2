//! Trials of hakmem under real programs and mixed loads. The program is `hakmem-trials`.
//!
//! The modules in their order; each uses only those before it, and the library of `hakmem-bench`:
//!
//! 1. [`executables`], [`libraries`], [`inputs`], [`outcome`], [`names`]: what to run, what to
//!    preload, what programs read, what they produce, and how they are named.
//! 2. [`preload`]: one program of the user's choice under several preloaded libraries.
//! 3. [`programs`]: a table of such programs. It prints and records as `hakmem-bench compare` does,
//!    but it runs programs as [`preload`] does and shares its inputs with [`compat`]. So it is
//!    here.
//! 4. [`compat`]: how programs behave on each library.
//! 5. [`soak`]: all kinds of load in one process for long.
//! 6. [`learn`]: whether learnt settings are as good as fixed ones.
//! 7. [`threads`]: the memory of many threads that each allocate little.
//! 8. `cores`: what many cores would pay for shared lines of memory. It needs the feature `ledger`.

mod compat;
#[cfg(feature = "ledger")]
mod cores;
mod executables;
mod inputs;
mod learn;
mod libraries;
mod names;
mod outcome;
mod preload;
mod programs;
mod soak;
mod threads;

use clap::Subcommand;
use hakmem_bench::command;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

const NAME: &str = "hakmem-trials";
const ABOUT: &str = "Tries hakmem and other allocators under real programs and mixed loads";

#[derive(Debug, Subcommand)]
enum Task {
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
    /// Count what many cores would pay for shared lines of memory
    #[cfg(feature = "ledger")]
    Cores(cores::Options),
    /// Measure the memory of many threads that each allocate little
    Threads(threads::Options),
    /// The process that goes through the phases
    #[command(hide = true)]
    LearnChild(learn::phases::Options),
    /// Succeed if the library is mapped in this process
    #[command(hide = true)]
    CheckPreload { library: PathBuf },
}

fn main() -> ExitCode {
    let outcome = match command::task(NAME, ABOUT) {
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
        #[cfg(feature = "ledger")]
        Task::Cores(options) => cores::run(&options),
        Task::Threads(options) => threads::run(&options),
        Task::LearnChild(options) => learn::phases::run(&options).map(|()| true),
        Task::CheckPreload { library } => libraries::check_preload(&library)
            .map_err(io::Error::other)
            .map(|()| true),
    };
    command::exit_code(NAME, outcome)
}
